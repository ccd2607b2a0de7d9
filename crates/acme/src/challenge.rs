//! Challenges of the type `http-01` (RFC 8555, section 8.3).

/// The prefix of the paths of challenges.
const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// The longest token that is answered, in bytes; real ones have 43.
const LONGEST_TOKEN: usize = 256;

/// The token of the challenge at `path`; `None` if the path is not that of a challenge.
#[must_use]
pub fn token(path: &[u8]) -> Option<&str> {
    std::str::from_utf8(path.strip_prefix(PATH)?).ok().filter(|token| is_token(token))
}

/// Returns the key authorization of `token` (RFC 8555, section 8.1). It is safe to return this for any token to any client:
/// only the authority knows the tokens that count, and the thumbprint makes the answer useless for any account but ours.
#[must_use]
pub fn answer(token: &str, thumbprint: &str) -> String {
    format!("{token}.{thumbprint}")
}

/// Whether `token` has only characters of base64url, so that nothing in it has a special meaning in a path or in an answer.
pub(crate) fn is_token(token: &str) -> bool {
    let known = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    (1..=LONGEST_TOKEN).contains(&token.len()) && known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_answered_and_nothing_else() {
        let found = token(b"/.well-known/acme-challenge/aZ0-_").map(|token| answer(token, "print"));
        assert_eq!(found.as_deref(), Some("aZ0-_.print"));
        let long = [PATH, &[b'a'; 257]].concat();
        for path in [
            &b"/.well-known/acme-challenge/"[..],
            b"/.well-known/acme-challenge",
            b"/.well-known/acme-challenge/a/b",
            b"/.well-known/acme-challenge/../a",
            b"/.well-known/acme-challenge/a%41",
            b"/.well-known/acme-challenge/<b>",
            b"/.well-known/acme-challenge/\xff",
            b"/.well-known/acme-challenge/a.b",
            b"/a",
            b"",
            &long,
        ] {
            assert_eq!(token(path), None, "{}", String::from_utf8_lossy(path));
        }
    }
}
