//! Names of fields that apps cannot tell apart.

/// Whether apps get the same variable for two names of fields: letters may differ in case, and `-` and `_` are the same
/// (RFC 3875, section 4.1.18).
#[must_use]
pub fn is_same_variable(one: &[u8], other: &[u8]) -> bool {
    let fold = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| fold(one) == fold(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_underscores_make_no_difference() {
        assert!(is_same_variable(b"X-User_Id", b"x_user-ID") && is_same_variable(b"", b""));
        for other in [&b"X-User"[..], b"X-User-Idx", b"X.User_Id", b"X-User Id"] {
            assert!(!is_same_variable(b"X-User_Id", other), "{other:?}");
        }
    }
}
