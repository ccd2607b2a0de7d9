//! `allow` and `deny`: the clients that get a 403.

use super::syntax::Directive;

/// The patterns of `source` for the clients that are refused. `Ok(None)`: all are admitted.
///
/// # Errors
/// A list of patterns cannot say it.
pub(super) fn refused(rules: &[&Directive]) -> Result<Option<Vec<String>>, ()> {
    let mut allowed: Vec<String> = Vec::new();
    let mut denied: Vec<String> = Vec::new();
    for rule in rules {
        let (allow, word) = (rule.name == "allow", rule.word(0));
        match (allow, word) {
            (false, "all") if denied.is_empty() => {
                return Ok(Some(if allowed.is_empty() {
                    Vec::new()
                } else {
                    allowed.iter().map(|network| format!("!{network}")).collect()
                }));
            }
            (true, "all") if allowed.is_empty() => return Ok(Some(denied).filter(|denied| !denied.is_empty())),
            (_, "all" | "unix:") => return Err(()),
            (true, network) => allowed.push(network.to_owned()),
            (false, network) => denied.push(network.to_owned()),
        }
    }
    // The first rule that fits decides; without one, a client is admitted.
    if denied.is_empty() {
        return Ok(None);
    }
    if !allowed.is_empty() && rules.first().is_none_or(|rule| rule.name != "allow") {
        return Err(());
    }
    Ok(Some(denied.into_iter().chain(allowed.into_iter().map(|network| format!("!{network}"))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        for (text, expected) in [
            ("allow 10.0.0.0/8; deny all;", Ok(Some("!10.0.0.0/8"))),
            ("deny all;", Ok(Some(""))),
            ("deny 10.0.0.1; allow all;", Ok(Some("10.0.0.1"))),
            ("deny 10.0.0.1;", Ok(Some("10.0.0.1"))),
            ("allow 10.0.0.1;", Ok(None)),
            ("deny 10.0.0.1; allow 10.0.0.0/8; deny all;", Err(())),
        ] {
            let rules = super::super::syntax::read(text).expect("it can be read");
            let refused = refused(&rules.iter().collect::<Vec<_>>());
            let expected = expected.map(|text| text.map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()));
            assert_eq!(refused, expected, "{text}");
        }
    }
}
