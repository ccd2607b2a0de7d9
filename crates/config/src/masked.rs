//! Hides the secrets in quoted input.
//!
//! A value may be a key, a password or a token that was given to the wrong option, and errors are written to a journal that
//! many users can read. So every message that quotes a value passes the value through [`masked`].

use crate::handshakes::decode;
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
    masked_in(text, true)
}

/// As [`masked`]. With `escapes`, words may have bytes in the form `%40`.
fn masked_in(text: &str, escapes: bool) -> Cow<'_, str> {
    let (mut shown, mut from) = (String::with_capacity(text.len()), 0);
    let within = |from: usize, found: Option<(usize, usize)>| found.map(|(start, end)| (from + start, from + end));
    let mut document = document_in(text);
    while let Some((start, end)) = document.into_iter().chain(within(from, user_of_url(&text[from..]))).min() {
        mask_words(&text[from..start], escapes, &mut shown);
        shown.push_str(MASK);
        from = end;
        if document.is_some_and(|(start, _)| start < end) {
            document = within(end, document_in(&text[end..]));
        }
    }
    mask_words(&text[from..], escapes, &mut shown);
    if shown == text { Cow::Borrowed(text) } else { Cow::Owned(shown) }
}

/// Returns where documents in PEM begin and end.
fn document_in(text: &str) -> Option<(usize, usize)> {
    // The dashes in front may have been taken for those of an option.
    let start = text.find("---BEGIN")?;
    let end = text[start..].rfind("-----END").map_or(text.len(), |end| {
        let label = start + end + "-----END".len();
        text[label..].find("-----").map_or(text.len(), |dashes| label + dashes + "-----".len())
    });
    Some((start, end))
}

fn mask_words(text: &str, escapes: bool, shown: &mut String) {
    for part in text.split_inclusive(ends_word) {
        let word = part.trim_end_matches(|letter| ends_word(letter) || letter == ':');
        shown.push_str(&masked_word(word, escapes));
        shown.push_str(&part[word.len()..]);
    }
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

/// Returns where the user of the first URL that has one begins and ends. A password that is not escaped may have any character but
/// white space and quotes, also those that end the authority of a valid URL. A URL that was taken for a path has one slash, and its
/// user has a password.
fn user_of_url(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find(":/") {
        let colon = from + found;
        let slashes = text[colon + 1..].bytes().take_while(|byte| *byte == b'/').count();
        let start = colon + 1 + slashes;
        let length = text[start..].find(|letter: char| letter.is_whitespace() || "`'\"".contains(letter));
        let end = start + length.unwrap_or(text.len() - start);
        let Some(at) = text[start..end].rfind('@') else {
            from = end;
            continue;
        };
        let user = &text[start..start + at];
        let has_user = slashes > 1 || (user.contains(':') && ends_with_scheme(&text[from..colon]));
        if has_user && ![MASK, PLACEHOLDER_OF_USER].contains(&user) {
            return Some((start, start + at));
        }
        from = if slashes > 1 { end } else { start };
    }
    None
}

/// Whether the text ends with a word of letters, which is no part of a path.
fn ends_with_scheme(text: &str) -> bool {
    let before = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    before.len() < text.len() && !before.ends_with(['/', ':', '.', '-', '_'])
}

fn ends_word(letter: char) -> bool {
    letter.is_whitespace() || "`'\"?&;,()".contains(letter)
}

fn masked_word(word: &str, escapes: bool) -> Cow<'_, str> {
    if escapes
        && word.contains('%')
        && let Some(text) = decode(word).and_then(|bytes| String::from_utf8(bytes).ok())
        && let Cow::Owned(masked) = masked_in(&text, false)
    {
        return Cow::Owned(masked);
    }
    if let Some((start, end)) = password_of(word) {
        return Cow::Owned(format!("{}{MASK}{}", &word[..start], &word[end..]));
    }
    let mut value = word;
    // Tokens in base64 may end with `=`.
    while let Some((name, rest)) = value.split_once('=').filter(|(_, rest)| !rest.trim_start_matches('=').is_empty()) {
        value = rest;
        if is_secret_name(name) && !is_path(value) && value != PLACEHOLDER {
            return Cow::Owned(format!("{}{MASK}", &word[..word.len() - value.len()]));
        }
    }
    if !value.split(':').any(is_token) {
        return Cow::Borrowed(word);
    }
    let parts: Vec<&str> = value.split(':').map(|part| if is_token(part) { MASK } else { part }).collect();
    Cow::Owned(format!("{}{}", &word[..word.len() - value.len()], parts.join(":")))
}

/// Returns where the password in `USER:PASSWORD@HOST` begins and ends, behind `NAME=` if there is that.
fn password_of(word: &str) -> Option<(usize, usize)> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let (before, host) = word.rsplit_once('@')?;
    let (user, password) = before.split_once(':')?;
    let name = user.rsplit_once('=').map_or(user, |(_, name)| name);
    let is_host = host.starts_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let is_user = name.bytes().all(is_name) && name.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_other = ["unix", "mailto", "tcp", "http", "https"].contains(&name) || password.starts_with([':', '/', '[']);
    (is_user && is_host && !is_other && ![MASK, ""].contains(&password)).then_some((user.len() + 1, before.len()))
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
    let ending = word.rsplit_once('.').filter(|(path, _)| path.contains('/')).map_or("", |(_, ending)| ending);
    let is_file = (1..=5).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_lowercase());
    word.len() >= TOKEN_BYTES
        && !is_path(word)
        && !is_file
        && word.bytes().all(known)
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
        // Paths, and names of several words, have short parts.
        && word.split(['/', '-', '_', '.']).any(|part| part.len() >= TOKEN_BYTES / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Origin, table};

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
        ("ghp_4f1c0b6e8d7a49d2b3c5e6f708192a3b:8080", "4f1c0b6e"),
        ("---BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n", "hunter2"),
        ("postgres:/shop:hunter2@db.internal/shop", "hunter2"),
        ("shop:hunter2@db.internal", "hunter2"),
        ("shop:c2VjcmV0cGFzcw==@db/x=1", "c2Vj"),
        ("zX9kq2VbY0n1m4Qp7sT3uW6xAc8eGhJ5LdFr2KvNtE=", "zX9kq2"),
        ("ssl://:443?cert=postgres%3A//shop%3Ahunter2%40db.internal/shop", "hunter2"),
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

    /// Whether a setting refuses a secret or takes it, neither the error nor a note for the log quotes it, wherever it was given.
    #[test]
    fn no_setting_quotes_a_secret() {
        let said = |config: &Config| match config.finish() {
            Ok(settings) => settings.notes.into_iter().map(|(_, note)| note).collect(),
            Err(error) => error.to_string(),
        };
        for setting in table() {
            for (text, secret) in SECRETS {
                for origin in [Origin::CommandLine, Origin::File("oribi.rb:1".to_owned())] {
                    let mut config = Config::with(|_| None, 1);
                    let error = config.set(setting.name, text, origin.clone()).err().map(|error| error.to_string());
                    let said = error.unwrap_or_else(|| said(&config));
                    assert!(!said.contains(secret), "{}, {origin}: {said}", setting.name);
                }
                for variable in setting.environment.map(str::to_owned).into_iter().chain(setting.own_variable()) {
                    let mut config = Config::with(|name| (name == variable).then(|| (*text).to_owned()), 1);
                    // A file that gives addresses makes HOST and PORT useless, about which there is a note.
                    for listen in [None, Some("/x")] {
                        let given = listen.map(|path| config.set("listen", path, Origin::File("oribi.rb:1".to_owned())));
                        assert!(given.is_none_or(|given| given.is_ok()));
                        let said = said(&config);
                        assert!(!said.contains(secret), "{variable}: {said}");
                    }
                }
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
            "listeners.unix:@shop: an abstract socket",
            "HIGH:!aNULL@STRENGTH",
            "PATH=/usr/bin:/home/me/x:/opt/ruby@3.3/bin",
            "mailto:me@example.org",
            "12:30@daily",
            "Plack::Builder@1.0",
            "%Y-%m-%dT%H:%M:%S@%z",
            "releases/4f1c0b6e8d7a49d2b3c5e6f708192a3b4f1c0b6e/config.ru",
            "redis://***@h1",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn no_text_takes_long_or_much_of_the_stack() {
        for part in ["%25", "%2525", "http://a:b@c ", "---BEGIN -----END x----- ", "a:b@c:", ":/", "=a:/", "a=", "==", "a:/b@"]
        {
            let text = format!("%{}", part.repeat(20_000));
            let _ = masked(&text);
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let shown = quoted(&"long ".repeat(1000));
        assert!(shown.len() < 300 && shown.ends_with("(5000 bytes)"), "{shown}");
        assert_eq!(quoted("a\nb\u{1b}"), "a\\nb\\u{1b}");
    }
}
