//! Challenges of the kind `http-01` (RFC 8555, section 8.3).

/// The paths at which they are answered.
const PATH: &[u8] = b"/.well-known/acme-challenge/";

/// The longest token that is answered; real ones have 43 bytes.
const LONGEST_TOKEN: usize = 256;

/// The token of the challenge at `path`; `None`: it is no challenge.
#[must_use]
pub fn token(path: &[u8]) -> Option<&str> {
    std::str::from_utf8(path.strip_prefix(PATH)?).ok().filter(|token| is_token(token))
}

/// The answer to a challenge. Who knows a token has it from the authority, which has given it to whoever orders a certificate; the
/// thumbprint says that this is the account of this server, so the answer to a token of another account is wrong.
#[must_use]
pub fn answer(token: &str, thumbprint: &str) -> String {
    format!("{token}.{thumbprint}")
}

/// Whether it consists of what a token may have, so that it means nothing in a path or in an answer.
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
