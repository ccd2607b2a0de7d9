//! Hides the secrets in quoted input.
//!
//! A value may be a key, a password or a token that was given to the wrong option, and errors are written to a journal that
//! many users can read. So every message that quotes a value passes the value through [`masked`].

use std::borrow::Cow;

/// The length, in bytes, from which a word that is neither a path nor a name counts as a token.
const TOKEN_BYTES: usize = 32;

/// The most bytes of a quoted value.
const QUOTED_BYTES: usize = 256;

/// Parts of names whose values are secret.
const SECRET_NAMES: &[&str] = &["key", "secret", "token", "pass", "pwd", "auth", "credential", "signature", "cookie", "pem"];

/// The placeholder for a secret.
const MASK: &str = "***";

/// The placeholder for a file in the advice of messages, as in `key=FILE`.
const PLACEHOLDER: &str = "FILE";

/// The placeholder for the user of a URL there.
const PLACEHOLDER_OF_USER: &str = "[[USER]:PASSWORD";

/// `text` without possible secrets: documents in PEM, passwords in URLs, the values of names such as `password=`, and tokens.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    if let Some(start) = text.find("-----BEGIN") {
        let behind = text[start..].rfind("-----END").map_or("", |end| &text[start + end + "-----END".len()..]);
        let rest = behind.split_once("-----").map_or("", |(_, rest)| rest);
        return Cow::Owned(format!("{}{MASK}{}", masked(&text[..start]), masked(rest)));
    }
    if let Some((start, end)) = user_of_url(text) {
        return Cow::Owned(format!("{}{MASK}{}", masked(&text[..start]), masked(&text[end..])));
    }
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(ends_word) {
        let word = part.trim_end_matches(ends_word);
        shown.push_str(&masked_word(word));
        shown.push_str(&part[word.len()..]);
    }
    if shown == text { Cow::Borrowed(text) } else { Cow::Owned(shown) }
}

/// Whether the value of this name is probably a secret: `DB_PASSWORD`, `api-key`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| lower.contains(part))
}

/// A value as a message quotes it: masked, without control characters, and cut if it is long.
#[must_use]
pub fn quoted(value: &str) -> String {
    let masked = masked(value);
    match masked.char_indices().nth(QUOTED_BYTES) {
        Some((end, _)) => format!("{}... ({} bytes)", masked[..end].escape_debug(), value.len()),
        None => masked.escape_debug().to_string(),
    }
}

/// Returns where the user of a URL begins and ends. A password that is not escaped may have any character, also those that end the
/// authority of a valid URL.
fn user_of_url(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("://") {
        let start = from + found + "://".len();
        let length = text[start..].find(|letter: char| letter.is_whitespace() || "`'\"".contains(letter));
        let end = start + length.unwrap_or(text.len() - start);
        if let Some(at) =
            text[start..end].rfind('@').filter(|at| ![MASK, PLACEHOLDER_OF_USER].contains(&&text[start..start + at]))
        {
            return Some((start, start + at));
        }
        from = end;
    }
    None
}

fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || "`'\"?&;,()".contains(letter)
}

fn masked_word(word: &str) -> Cow<'_, str> {
    if let Some((scheme, rest)) = word.split_once("://")
        && let Some((user, host)) = rest.split('/').next().and_then(|authority| authority.rsplit_once('@'))
        && user != PLACEHOLDER_OF_USER
    {
        return Cow::Owned(format!("{scheme}://{MASK}@{}{}", host, &rest[user.len() + 1 + host.len()..]));
    }
    if let Some((name, value)) = word.split_once('=') {
        let secret = is_secret_name(name) && !is_path(value) && value != PLACEHOLDER;
        let value = if secret && !value.is_empty() { Cow::Borrowed(MASK) } else { masked_word(value) };
        return Cow::Owned(format!("{name}={value}"));
    }
    if is_token(word) { Cow::Borrowed(MASK) } else { Cow::Borrowed(word) }
}

/// Whether a value is the path of a file, such as the value of `key` in an address.
fn is_path(value: &str) -> bool {
    let ending = value.rsplit_once('.').map_or("", |(_, ending)| ending);
    value.starts_with(['/', '.', '~']) || ["pem", "key", "crt", "cer", "der"].contains(&ending)
}

/// Whether a word looks like a key or a token: it is long, has only characters of base64 or hexadecimal digits, and has both
/// letters and digits.
fn is_token(word: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-.".contains(&byte);
    word.len() >= TOKEN_BYTES
        && !is_path(word)
        && word.bytes().all(known)
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
        // Paths, and names of several words, have short parts.
        && word.split(['/', '-', '_', '.']).any(|part| part.len() >= TOKEN_BYTES / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Secrets in their usual forms, each with the part that no message may contain.
    const SECRETS: &[(&str, &str)] = &[
        ("-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBM\nhunter2\n-----END PRIVATE KEY-----\n", "hunter2"),
        ("-----BEGIN PRIVATE KEY-----\nhunter2 without an end", "hunter2"),
        ("-----BEGIN PRIVATE KEY-----\\nhunter2\\n-----END PRIVATE KEY-----\\n", "hunter2"),
        ("http://me:hunter2@collector:4318/v1", "hunter2"),
        ("redis://:hunter2@localhost", "hunter2"),
        ("https://0.0.0.0:443?cert=a.pem&key_pem=hunter2&verify=none", "hunter2"),
        ("ssl://:443?cert_pem=hunter2", "hunter2"),
        ("password=hunter2", "hunter2"),
        ("Authorization=Bearer,hunter2", "Bearer"),
        ("host=db;PASSWD=hunter2", "hunter2"),
        ("4f1c0b6e8d7a49d2b3c5e6f708192a3b", "4f1c0b6e"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "eyJzdWIi"),
        ("MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg", "MIGHAg"),
    ];

    #[test]
    fn no_secret_is_quoted() {
        for (text, secret) in SECRETS {
            for shown in [masked(text).into_owned(), quoted(text), masked(&format!("bad value `{text}` for key")).into_owned()]
            {
                assert!(!shown.contains(secret) && shown.contains(MASK), "{text}: {shown}");
            }
        }
    }

    #[test]
    fn other_values_are_quoted_as_they_are() {
        for text in [
            "",
            "twelve",
            "0.0.0.0:80",
            "https://[::1]:443?cert=/etc/ssl/a.pem&key=/etc/ssl/private/shop.key",
            "/srv/shop/releases/20261128123456/tmp/sockets/oribi-of-the-shop.sock",
            "releases/20261128123456/config/environments/production-of-shop.rb",
            "unknown setting `wrkers`; did you mean `workers`?",
            "or write https://HOST:PORT?cert=FILE&key=FILE",
            "expected redis://[[USER]:PASSWORD@]HOST[:PORT], rediss:// for TLS",
            "max-age=63072000; includeSubDomains",
            "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
            "tcp://172.17.0.1:8080",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let shown = quoted(&"long ".repeat(1000));
        assert!(shown.len() < 300 && shown.ends_with("(5000 bytes)"), "{shown}");
        assert_eq!(quoted("a\nb\u{1b}"), "a\\nb\\u{1b}");
    }
}
