//! The field Authorization of a request, and the field WWW-Authenticate of the answer to a request without valid credentials.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::fmt;
use zeroize::Zeroizing;

/// The most bytes of a user and a password together. Longer ones belong to nobody; some hashes would take long for them.
const MOST_BYTES: usize = 512;

/// Clients write the padding, and nobody is refused without it.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// A user and a password. They are cleared when they are dropped, and `Debug` writes neither.
#[derive(Clone)]
pub struct Credentials {
    bytes: Zeroizing<Vec<u8>>,
    /// The position of the colon between them.
    colon: usize,
}

impl Credentials {
    /// Reads the value of the field Authorization. `None` if it has another scheme, or if it is not of this form.
    #[must_use]
    pub fn read(value: &[u8]) -> Option<Self> {
        let (scheme, rest) = value.split_at_checked(5)?;
        let token = rest.trim_ascii();
        if !scheme.eq_ignore_ascii_case(b"Basic") || !rest.starts_with(b" ") || token.len() > MOST_BYTES * 4 / 3 + 4 {
            return None;
        }
        // The buffer never grows, because its old memory would not be cleared.
        let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(token.len())]);
        let size = BASE64.decode_slice(token, &mut bytes).ok()?;
        bytes.truncate(size);
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        // RFC 7617, section 2: neither has control characters.
        (bytes.len() <= MOST_BYTES && !bytes.iter().any(u8::is_ascii_control)).then_some(Self { bytes, colon })
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &[u8] {
        &self.bytes[..self.colon]
    }

    /// The password.
    #[must_use]
    pub fn password(&self) -> &[u8] {
        &self.bytes[self.colon + 1..]
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials")
    }
}

/// Returns the value of the field WWW-Authenticate. `realm` has no control characters.
#[must_use]
pub fn challenge(realm: &str) -> String {
    let escaped = realm.replace('\\', "\\\\").replace('"', "\\\"");
    format!("Basic realm=\"{escaped}\", charset=\"UTF-8\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Credentials::read(value.as_bytes()).map(|read| (text(read.user()), text(read.password())))
    }

    #[test]
    fn user_and_password_are_read() {
        let expected = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), expected("Aladdin", "open sesame"));
        assert_eq!(read("bASIC   QWxhZGRpbjpvcGVuIHNlc2FtZQ"), expected("Aladdin", "open sesame"), "without padding");
        assert_eq!(read("Basic dGVzdDoxMjPCow=="), expected("test", "123£"), "the example of RFC 7617");
        assert_eq!(read("Basic YTpiOmM="), expected("a", "b:c"));
        assert_eq!(read("Basic Og=="), expected("", ""));
    }

    #[test]
    fn other_values_are_none() {
        let long = format!("Basic {}", "YTph".repeat(200));
        let none = [
            "",
            "Basic",
            "Basic ",
            "BasicYTpi",
            "Bearer YTpi",
            "Basic YTpi YTpi",
            "Basic YQ==",
            "Basic ?",
            "Basic YToK",
            "Basic AGE6",
            &long,
        ];
        for value in none {
            assert_eq!(read(value), None, "{value}");
        }
    }

    #[test]
    fn nothing_is_shown() {
        let read = Credentials::read(b"Basic YTpi").expect("valid");
        assert_eq!(format!("{read:?}"), "Credentials");
    }

    #[test]
    fn a_realm_is_quoted() {
        assert_eq!(challenge(r#"a "b" \"#), r#"Basic realm="a \"b\" \\", charset="UTF-8""#);
    }
}
