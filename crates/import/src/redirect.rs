//! Targets of redirects, with the variables of Oribi.

/// The status codes of a redirect.
pub(crate) const REDIRECTS: &[u16] = &[301, 302, 303, 307, 308];

/// The variables of Oribi, by their names in Unit and nginx.
const VARIABLES: &[(&str, &str)] = &[
    ("scheme", "$scheme"),
    ("request_uri", "$request_uri"),
    ("uri", "$uri"),
    ("document_uri", "$uri"),
    ("host", "$host"),
    ("server_name", "$host"),
    ("http_host", "$host"),
];

/// The target of a redirect for `to`.
///
/// # Errors
/// The reason why Oribi cannot send it.
pub(crate) fn target(text: &str) -> Result<String, String> {
    let mut target = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        target.push_str(before);
        let (name, behind) = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some(parts) => parts,
            None => {
                let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        let Some((_, variable)) = VARIABLES.iter().find(|(known, _)| *known == name) else {
            return Err(format!("a redirect has no variable ${name}, only $scheme, $host, $uri and $request_uri"));
        };
        let behind_is_name = behind.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        if behind_is_name {
            return Err(format!("a redirect has no text directly behind ${name}"));
        }
        target.push_str(variable);
        rest = behind;
    }
    target.push_str(rest);
    if target.starts_with("$request_uri") || target.starts_with("$uri") {
        target.insert_str(0, "$scheme://$host");
    }
    if target.starts_with("//") {
        target.insert_str(0, "$scheme:");
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_oribi_stay() {
        for (text, expected) in [
            ("https://example.com/", Ok("https://example.com/")),
            ("https://${host}$request_uri", Ok("https://$host$request_uri")),
            ("$scheme://www.example.com$uri", Ok("$scheme://www.example.com$uri")),
            ("$uri/", Ok("$scheme://$host$uri/")),
            ("/a?b=$arg_c", Err("a redirect has no variable $arg_c, only $scheme, $host, $uri and $request_uri")),
            ("//a/$uri", Ok("$scheme://a/$uri")),
            ("/${host}x", Err("a redirect has no text directly behind $host")),
        ] {
            assert_eq!(target(text), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
