//! `location` of a `return`, in the form in which Unit sends it.

/// The text of a location without variables; `None` if its value is known to a request only.
pub(super) fn fixed(location: &str) -> Option<String> {
    if location.starts_with('`') {
        return None;
    }
    let (mut text, mut rest) = (String::new(), location);
    while let Some((before, after)) = rest.split_once('$') {
        rest = after.strip_prefix("{dollar}").or_else(|| after.strip_prefix("dollar"))?;
        text.push_str(before);
        text.push('$');
    }
    Some(text + rest)
}

/// The text with escapes. One that has all that it needs stays as it is; otherwise `%` gets one, too.
pub(super) fn escaped(text: &str) -> String {
    let (mut escaped, mut is_complete) = (String::new(), true);
    let (mut query, mut fragment) = (false, false);
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let is_first = match byte {
            b'?' => !query && !fragment,
            b'#' => !fragment,
            _ => false,
        };
        query |= byte == b'?';
        fragment |= byte == b'#';
        if is_first || byte.is_ascii_alphanumeric() || b"-._~:/[]@!$&'()*+,;=".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let digits = rest.iter().take(2).filter(|digit| digit.is_ascii_hexdigit()).count();
            is_complete &= byte == b'%' && digits == 2;
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    if is_complete { text.to_owned() } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_has_the_escapes_that_it_needs() {
        for (text, expected) in [
            ("", ""),
            ("/a?b=c#d", "/a?b=c#d"),
            ("/a b", "/a%20b"),
            ("/a%20b", "/a%20b"),
            ("/a%20b c", "/a%2520b%20c"),
            ("/a%2", "/a%252"),
            ("/a?b?c#d?e#f", "/a?b%3Fc#d%3Fe%23f"),
            ("#a?b", "#a%3Fb"),
            ("é\"\\", "%C3%A9%22%5C"),
        ] {
            assert_eq!(escaped(text), expected, "{text}");
        }
    }

    #[test]
    fn a_dollar_is_no_variable() {
        assert_eq!(fixed("a$dollar${dollar}b").as_deref(), Some("a$$b"));
        assert_eq!(fixed("blah").as_deref(), Some("blah"));
        assert_eq!(fixed("a`b\0").as_deref(), Some("a`b\0"));
        for text in ["/$uri", "`/${uri}`"] {
            assert_eq!(fixed(text), None, "{text:?}");
        }
    }
}
