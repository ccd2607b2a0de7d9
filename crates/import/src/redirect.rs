//! Targets of redirects and of rewritten requests, with the variables of Oribi.

/// The status codes of a redirect.
pub(crate) const REDIRECTS: &[u16] = &[301, 302, 303, 307, 308];

/// The variables of Oribi, by their names in Unit and nginx.
const VARIABLES: &[(&str, &str)] = &[
    ("scheme", "scheme"),
    ("request_uri", "request_uri"),
    ("uri", "uri"),
    ("document_uri", "uri"),
    ("host", "host"),
    ("server_name", "host"),
    ("http_host", "host"),
    ("args", "args"),
    ("query_string", "args"),
    ("method", "method"),
    ("request_method", "method"),
    ("remote_addr", "remote_addr"),
    ("dollar", "dollar"),
];

/// The beginnings of names of variables, by those of Unit and nginx.
const FAMILIES: &[(&str, &str)] = &[("arg_", "arg_"), ("header_", "header_"), ("http_", "header_"), ("cookie_", "cookie_")];

/// The text with the variables of Oribi. `groups`: the number of groups of the expression for the path; see [`groups`].
///
/// # Errors
/// The reason why Oribi has no such text.
pub(crate) fn with_variables(text: &str, groups: usize) -> Result<String, String> {
    let mut target = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        target.push_str(before);
        let (name, behind) = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some(parts) => parts,
            None => {
                let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(after.len());
                let is_group = groups > 0 && after.starts_with(|letter: char| letter.is_ascii_digit());
                after.split_at(if is_group { 1 } else { end })
            }
        };
        let Some(variable) = variable(name, groups) else {
            return Err(format!("there is no variable ${name}"));
        };
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if behind.starts_with(is_part) || !variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            target.push_str(&format!("${{{variable}}}"));
        } else {
            target.push_str(&format!("${variable}"));
        }
        rest = behind;
    }
    target.push_str(rest);
    Ok(target)
}

fn variable(name: &str, groups: usize) -> Option<String> {
    if let Some((_, own)) = VARIABLES.iter().find(|(known, _)| *known == name) {
        return Some((*own).to_owned());
    }
    if let [digit @ b'0'..=b'9'] = name.as_bytes() {
        return (groups > 0 && usize::from(digit - b'0') <= groups).then(|| name.to_owned());
    }
    let is_name =
        |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    FAMILIES.iter().find_map(|(family, own)| {
        let rest = name.strip_prefix(family).filter(|rest| is_name(rest))?;
        Some(format!("{own}{rest}"))
    })
}

/// The target of a redirect for `to`.
///
/// # Errors
/// The reason why Oribi cannot send it.
pub(crate) fn target(text: &str, groups: usize) -> Result<String, String> {
    let target = with_variables(text, groups)?;
    let full = ["http://", "https://", "$scheme://", "$uri", "${uri}", "$request_uri", "${request_uri}"];
    if target.starts_with("//") {
        return Ok(format!("$scheme:{target}"));
    }
    if !target.starts_with('/') && !full.iter().any(|begin| target.starts_with(begin)) {
        return Err("a redirect leads to a URL, or to a path that begins with /".to_owned());
    }
    Ok(target)
}

/// The number of groups that a route with these patterns for its path has: those of its expression, if it has one.
pub(crate) fn groups(path: &[String]) -> usize {
    let mut expressions = path.iter().filter_map(|pattern| pattern.strip_prefix('~'));
    let (Some(expression), None) = (expressions.next(), expressions.next()) else { return 0 };
    let (mut count, mut is_class) = (0, false);
    let mut letters = expression.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => _ = letters.next(),
            '[' => is_class = true,
            ']' => is_class = false,
            '(' if !is_class && letters.peek() != Some(&'?') => count += 1,
            _ => {}
        }
    }
    count
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
            ("${uri}/", Ok("$uri/")),
            ("/a?b=$arg_c&d=$http_x_y", Ok("/a?b=$arg_c&d=$header_x_y")),
            ("//a/$uri", Ok("$scheme://a/$uri")),
            ("/${host}x${header_a-b}$dollar", Ok("/${host}x${header_a-b}$dollar")),
            ("/a?b=$status", Err("there is no variable $status")),
            ("/$1x", Err("there is no variable $1x")),
            ("blah", Err("a redirect leads to a URL, or to a path that begins with /")),
        ] {
            assert_eq!(target(text, 0), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
        assert_eq!(target("/$1x$22", 2), Ok("/${1}x${2}2".to_owned()));
    }

    #[test]
    fn groups_are_counted() {
        for (path, expected) in [
            (&["~^/a/(.*)/([(]x)$"][..], 2),
            (&["~(?i)\\(a(?:b)"], 0),
            (&["!/x", "~^/(a)"], 1),
            (&["/a", "/b/*"], 0),
            (&["~(a)", "~(b)"], 0),
        ] {
            let path: Vec<String> = path.iter().map(ToString::to_string).collect();
            assert_eq!(groups(&path), expected, "{path:?}");
        }
        assert_eq!(target("/$2", 1), Err("there is no variable $2".to_owned()));
    }
}
