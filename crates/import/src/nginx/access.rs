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

/// The patterns of `source` for the clients that `allow` admits: those to which `satisfy any` gives an answer without a
/// password. None for no client; `*` for all.
///
/// # Errors
/// A list of patterns cannot say it.
pub(super) fn admitted(rules: &[&Directive]) -> Result<Vec<String>, ()> {
    let mut list: Vec<String> = Vec::new();
    let mut behind = false;
    for rule in rules {
        match (rule.name == "allow", rule.word(0)) {
            (false, "all") => break,
            (true, "all") if list.iter().all(|pattern| pattern.starts_with('!')) => {
                return Ok(if list.is_empty() { vec!["*".to_owned()] } else { list });
            }
            (_, "all" | "unix:") => return Err(()),
            (true, _) if behind => return Err(()),
            (true, network) => list.push(network.to_owned()),
            // A rule behind those that admit clients refuses none of them.
            (false, _) if list.iter().any(|pattern| !pattern.starts_with('!')) => behind = true,
            (false, network) => list.push(format!("!{network}")),
        }
    }
    Ok(if list.iter().all(|pattern| pattern.starts_with('!')) { Vec::new() } else { list })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_are_allowed_are_admitted() {
        for (text, expected) in [
            ("allow 10.0.0.0/8; deny all;", Ok("10.0.0.0/8")),
            ("allow 10.0.0.0/8; allow ::1;", Ok("10.0.0.0/8 ::1")),
            ("deny all;", Ok("")),
            ("deny 10.0.0.1;", Ok("")),
            ("deny 10.0.0.1; allow all;", Ok("!10.0.0.1")),
            ("allow all;", Ok("*")),
            ("deny 10.0.0.1; allow 10.0.0.0/8; deny all;", Ok("!10.0.0.1 10.0.0.0/8")),
            ("allow 10.0.0.0/8; deny 10.0.0.1; deny all;", Ok("10.0.0.0/8")),
            ("deny all; allow 10.0.0.1;", Ok("")),
            ("allow 10.0.0.1; allow all;", Err(())),
            ("allow 10.0.0.1; deny 10.0.0.0/8; allow 10.0.0.2;", Err(())),
            ("allow unix:; deny all;", Err(())),
        ] {
            let rules = super::super::syntax::read(text).expect("it can be read");
            let admitted = admitted(&rules.iter().collect::<Vec<_>>()).map(|list| list.join(" "));
            assert_eq!(admitted, expected.map(str::to_owned), "{text}");
        }
    }

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
