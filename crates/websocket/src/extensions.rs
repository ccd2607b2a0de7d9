//! The field `Sec-WebSocket-Extensions` (RFC 6455, section 9.1), and offers of permessage-deflate in it (RFC 7692, section
//! 7.1).

use crate::handshake::is_token;
use std::borrow::Cow;
use std::fmt::Write;

/// The windows that the library has for our side, in bits. It has none of 8.
const WINDOWS: std::ops::RangeInclusive<u8> = 9..=15;

/// permessage-deflate as a client and this server agree upon it: in both directions, no message refers to an earlier one, so
/// that a silent connection holds no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deflate {
    /// The window that the client has asked the server for, in bits.
    server_window: Option<u8>,
}

impl Deflate {
    /// The window for messages to the client, in bits: 9 to 15.
    pub fn window_bits(&self) -> u8 {
        self.server_window.unwrap_or(*WINDOWS.end())
    }

    /// The value of `Sec-WebSocket-Extensions` for the answer.
    pub fn response(&self) -> String {
        // A server may answer with either parameter without being asked (sections 7.1.1.1 and 7.1.1.2).
        let mut value = String::from("permessage-deflate; server_no_context_takeover; client_no_context_takeover");
        if let Some(bits) = self.server_window {
            // Writing to a string does not fail.
            let _ = write!(value, "; server_max_window_bits={bits}");
        }
        value
    }
}

/// The first offer of permessage-deflate in `extensions`, a value of `Sec-WebSocket-Extensions`, that the server can accept. An
/// offer with a parameter that is unknown, repeated or has an invalid value is declined, and so is one for a window of 8 bits.
/// None: the connection does without compression, as it also does if the value does not parse. Fields that are repeated are to
/// be joined with commas.
pub fn offered_deflate(extensions: &[u8]) -> Option<Deflate> {
    let mut accepted = None;
    let mut list = Cursor { rest: extensions };
    loop {
        list.skip_space();
        // A list may have empty elements.
        if list.eat(b',') {
            continue;
        }
        if list.rest.is_empty() {
            return accepted;
        }
        let offer = extension(&mut list)?;
        accepted = accepted.or(offer);
        list.skip_space();
        if !list.eat(b',') && !list.rest.is_empty() {
            return None;
        }
    }
}

/// Reads an extension. None: it does not parse. `Some(None)`: it is not permessage-deflate, or is declined.
fn extension(list: &mut Cursor<'_>) -> Option<Option<Deflate>> {
    let mut offer = Some(Offer::default());
    if !list.token()?.eq_ignore_ascii_case(b"permessage-deflate") {
        offer = None;
    }
    loop {
        list.skip_space();
        if !list.eat(b';') {
            return Some(offer.map(|offer| Deflate { server_window: offer.server_window }));
        }
        list.skip_space();
        let name = list.token()?;
        list.skip_space();
        let value = if list.eat(b'=') { Some(list.value()?) } else { None };
        offer = offer.and_then(|offer| offer.with(name, value.as_deref()));
    }
}

#[derive(Default)]
struct Offer {
    server_window: Option<u8>,
    client_window: bool,
    server_forgets: bool,
    client_forgets: bool,
}

impl Offer {
    /// The offer with one more parameter. None: it is declined.
    fn with(mut self, name: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let is_new = match name {
            b"server_no_context_takeover" if value.is_none() => !std::mem::replace(&mut self.server_forgets, true),
            b"client_no_context_takeover" if value.is_none() => !std::mem::replace(&mut self.client_forgets, true),
            b"server_max_window_bits" => {
                let bits = window_bits(value?).filter(|bits| WINDOWS.contains(bits))?;
                self.server_window.replace(bits).is_none()
            }
            // A hint; without a value the client only says that it understands the parameter (section 7.1.2.2).
            b"client_max_window_bits" => {
                if let Some(value) = value {
                    window_bits(value)?;
                }
                !std::mem::replace(&mut self.client_window, true)
            }
            _ => false,
        };
        is_new.then_some(self)
    }
}

/// A number from 8 to 15 without leading zeros.
fn window_bits(value: &[u8]) -> Option<u8> {
    match value {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn skip_space(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn token(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.iter().take_while(|byte| is_token(std::slice::from_ref(byte))).count();
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        (length > 0).then_some(token)
    }

    /// Reads a token, or a quoted string that has one inside.
    fn value(&mut self) -> Option<Cow<'a, [u8]>> {
        self.skip_space();
        if !self.eat(b'"') {
            return self.token().map(Cow::Borrowed);
        }
        let mut value = Vec::new();
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => break,
                b'\\' => {
                    let (&escaped, rest) = self.rest.split_first()?;
                    self.rest = rest;
                    value.push(escaped);
                }
                byte => value.push(byte),
            }
        }
        is_token(&value).then_some(Cow::Owned(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(extensions: &str) -> Option<u8> {
        offered_deflate(extensions.as_bytes()).map(|deflate| deflate.window_bits())
    }

    #[test]
    fn the_first_offer_that_can_be_given_is_accepted() {
        for (extensions, expected) in [
            ("permessage-deflate", 15),
            ("Permessage-Deflate", 15),
            ("permessage-deflate; client_max_window_bits", 15),
            ("permessage-deflate; client_max_window_bits=8", 15),
            ("permessage-deflate; client_max_window_bits; server_max_window_bits=10", 10),
            ("permessage-deflate; server_max_window_bits=10, permessage-deflate", 10),
            ("permessage-deflate; server_max_window_bits=8, permessage-deflate; server_max_window_bits=9", 9),
            ("permessage-deflate; server_max_window_bits=8, permessage-deflate", 15),
            ("permessage-deflate; unheard_of=1, permessage-deflate; server_max_window_bits=\"1\\1\"", 11),
            ("permessage-deflate; server_no_context_takeover; client_no_context_takeover", 15),
            ("x-webkit-deflate-frame, permessage-bzip2; level=\"9\" ,, permessage-deflate;server_max_window_bits=15", 15),
            (" ,\tpermessage-deflate ; server_max_window_bits = 12 ,", 12),
        ] {
            assert_eq!(window(extensions), Some(expected), "{extensions}");
        }
    }

    #[test]
    fn an_offer_that_is_not_understood_is_declined() {
        for parameters in [
            "server_max_window_bits",
            "server_max_window_bits=7",
            "server_max_window_bits=8",
            "server_max_window_bits=16",
            "server_max_window_bits=09",
            "server_max_window_bits=\"\"",
            "server_max_window_bits=\"1 0\"",
            "server_max_window_bits=10; server_max_window_bits=10",
            "client_max_window_bits=7",
            "client_max_window_bits=16",
            "client_max_window_bits=010",
            "client_max_window_bits; client_max_window_bits=10",
            "server_no_context_takeover=1",
            "server_no_context_takeover; server_no_context_takeover",
            "client_no_context_takeover=\"true\"",
            "client_no_context_takeover; client_no_context_takeover",
            "mux",
            "Server_No_Context_Takeover",
        ] {
            assert_eq!(window(&format!("permessage-deflate; {parameters}")), None, "{parameters}");
        }
    }

    #[test]
    fn a_value_that_does_not_parse_has_no_offers() {
        for rest in
            [";", "; =", "; a=", "; a=\"", "; a=\"b", "; a=\"b\\", "; a=\"b\"c", " permessage-deflate", "; a b", ", /", "\0"]
        {
            assert_eq!(window(&format!("permessage-deflate, permessage-deflate{rest}")), None, "{rest}");
        }
        assert_eq!(window(""), None);
        assert_eq!(window("perframe-deflate"), None);
    }

    #[test]
    fn the_answer_leaves_no_window_to_keep() {
        let response = |extensions| offered_deflate(extensions).map(|deflate| deflate.response());
        assert_eq!(
            response(b"permessage-deflate; client_max_window_bits").as_deref(),
            Some("permessage-deflate; server_no_context_takeover; client_no_context_takeover")
        );
        assert_eq!(
            response(b"permessage-deflate; server_max_window_bits=10").as_deref(),
            Some("permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=10")
        );
    }
}
