//! Fields of the opening handshake (RFC 6455, sections 4.2 and 11.3).

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

/// Of section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Some clients make a key of 22 random characters, whose last one then has bits that belong to no byte.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The value of `Sec-WebSocket-Accept` for that of `Sec-WebSocket-Key`. None: the key is not 16 bytes in base64.
pub fn accept_key(key: &[u8]) -> Option<[u8; 28]> {
    // The engine estimates the length as 18.
    let mut nonce = [0; 18];
    if key.len() != 24 || BASE64.decode_slice(key, &mut nonce) != Ok(16) {
        return None;
    }
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(GUID);
    let mut accept = [0; 28];
    let written = BASE64.encode_slice(hash.finish(), &mut accept);
    (written == Ok(28)).then_some(accept)
}

/// The names of subprotocols in a value of `Sec-WebSocket-Protocol`, in the client's order of preference. Those that are no
/// tokens are left out.
pub fn offered_protocols(offered: &[u8]) -> impl Iterator<Item = &str> {
    offered.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| is_token(name)).filter_map(|name| {
        // A token is ASCII.
        std::str::from_utf8(name).ok()
    })
}

/// The first of the `offered` subprotocols (a value of `Sec-WebSocket-Protocol`) that `is_spoken` accepts, with the client's
/// letters: names are compared with their case.
pub fn chosen_protocol(offered: &[u8], mut is_spoken: impl FnMut(&str) -> bool) -> Option<&str> {
    offered_protocols(offered).find(|name| is_spoken(name))
}

/// Whether `name` is a token (RFC 9110, section 5.6.2), as names of subprotocols and extensions must be.
pub fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_standard() {
        // RFC 6455, section 1.3, and the key that section 4.1 describes.
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ==").as_ref(), Some(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(accept_key(b"AQIDBAUGBwgJCgsMDQ4PEC==").as_ref(), Some(b"OfS0wDaT5NoxF2gqm7Zj2YtetzM="));
    }

    #[test]
    fn a_key_is_16_bytes() {
        assert!(accept_key(b"AQIDBAUGBwgJCgsMDQ4PEA==").is_some());
        assert!(accept_key(b"AQIDBAUGBwgJCgsMDQ4PEB==").is_some(), "the last bits belong to no byte");
        for key in [
            &b""[..],
            b"AQIDBAUGBwgJCgsMDQ4PEA",
            b"AQIDBAUGBwgJCgsMDQ4PEA=",
            b"AQIDBAUGBwgJCgsMDQ4PEBE=",
            b"AQIDBAUGBwgJCgsMDQ4PEBES",
            b"AQIDBAUGBwgJCgsMDQ4=",
            b"AQIDBAUGBwgJCgsMDQ4P EA=",
            b"AQIDBAUGBwgJCgsMDQ-PEA==",
            b"AQIDBAUGBwgJCgsMDQ4PEA==AAAA",
            b"========================",
        ] {
            assert_eq!(accept_key(key), None, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn the_client_prefers_its_first_protocol() {
        let offered = b"chat , superchat,, two words, caf\xc3\xa9,mqtt";
        assert_eq!(offered_protocols(offered).collect::<Vec<_>>(), ["chat", "superchat", "mqtt"]);
        assert_eq!(chosen_protocol(offered, |name| name == "mqtt" || name == "superchat"), Some("superchat"));
        assert_eq!(chosen_protocol(offered, |name| name == "Chat"), None);
        assert_eq!(chosen_protocol(b"", |_| true), None);
    }
}
