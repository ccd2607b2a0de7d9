//! Lists with commas between their members (RFC 9110, section 5.6.1).

/// Strips white space (OWS, RFC 9110, section 5.6.3).
#[inline]
#[must_use]
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The members of a list whose members contain no commas. Empty ones are skipped, as a recipient must do.
#[inline]
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn white_space_and_empty_members_are_skipped() {
        for (value, expected) in [
            ("", &[][..]),
            (" \t ", &[]),
            (",, ,", &[]),
            ("a", &["a"]),
            ("\ta b ,c,, d\t", &["a b", "c", "d"]),
            ("a\u{b},\rb", &["a\u{b}", "\rb"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|member| member.as_bytes()).collect();
            assert_eq!(members(value.as_bytes()).collect::<Vec<_>>(), expected, "{value:?}");
        }
    }
}
