//! Parses the settings about proxies in front.

use super::proxies::{ForwardedFields, TrustedPeers};
use super::value::{boolean, is_off, show_switch};

/// Parses peers, separated by commas; `off` for none.
pub(super) fn trusted_peers(text: &str) -> Result<Vec<TrustedPeers>, String> {
    if is_off(text.trim()) {
        return Ok(Vec::new());
    }
    text.split(',').map(|peers| TrustedPeers::parse(peers.trim())).collect()
}

/// Parses names of fields, separated by commas; `all`, or `off` for none.
pub(super) fn forwarded_fields(text: &str) -> Result<ForwardedFields, String> {
    let text = text.trim().to_ascii_lowercase();
    if text == "all" {
        return Ok(ForwardedFields::ALL);
    }
    let mut fields = ForwardedFields::NONE;
    if is_off(&text) {
        return Ok(fields);
    }
    for name in text.split(',').map(str::trim) {
        let mut named = fields.named();
        let Some((_, chosen)) = named.iter_mut().find(|(known, _)| *known == name) else {
            let known = named.map(|(known, _)| known).join(", ");
            return Err(format!("expected names with commas between them, of these: {known}"));
        };
        **chosen = true;
    }
    Ok(fields)
}

/// Parses `auto`, `on` or `off`.
pub(super) fn strip_choice(text: &str) -> Result<Option<bool>, String> {
    if text.trim().eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    boolean(text).map(Some).map_err(|_| "expected auto, on or off".to_owned())
}

/// Formats the value so that [`strip_choice`] can parse it.
pub(super) fn show_strip(choice: Option<bool>) -> String {
    choice.map_or_else(|| "auto".to_owned(), show_switch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Forwarding, Proxies};
    use std::net::IpAddr;

    fn peer(text: &str) -> Option<IpAddr> {
        if text == "unix" { None } else { Some(text.parse().expect(text)) }
    }

    #[test]
    fn peers_are_trusted_by_address_and_network() {
        for (trusted, inside, outside) in [
            ("127.0.0.1", &["127.0.0.1"][..], &["127.0.0.2", "::1", "unix"][..]),
            ("10.0.0.0/8,unix", &["10.0.0.0", "10.255.255.255", "unix"], &["9.255.255.255", "11.0.0.0", "::a00:0"]),
            ("192.0.2.4/30", &["192.0.2.4", "192.0.2.7"], &["192.0.2.3", "192.0.2.8"]),
            ("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["::1", "unix"]),
            ("::/0", &["::1", "ffff::"], &["127.0.0.1"]),
            ("2001:db8::/33", &["2001:db8::1", "2001:db8:7fff::"], &["2001:db8:8000::", "2001:db9::"]),
            ("::ffff:192.0.2.1", &["192.0.2.1"], &["::ffff:192.0.2.1", "192.0.2.2"]),
            ("off", &[], &["127.0.0.1", "unix"]),
        ] {
            let proxies = Proxies { trusted: trusted_peers(trusted).expect(trusted), ..Proxies::default() };
            for text in inside {
                assert_eq!(proxies.forwarding(peer(text)), Forwarding::Believed, "{trusted} {text}");
            }
            let other = if trusted == "off" { Forwarding::Kept } else { Forwarding::Removed };
            for text in outside {
                assert_eq!(proxies.forwarding(peer(text)), other, "{trusted} {text}");
            }
        }
    }

    #[test]
    fn what_becomes_of_the_fields_of_strangers_can_be_chosen() {
        for (trusted, strip, expected) in [
            ("off", "auto", Forwarding::Kept),
            ("off", "on", Forwarding::Removed),
            ("unix", "off", Forwarding::Kept),
            ("unix", "on", Forwarding::Removed),
        ] {
            let (trusted, strip) = (trusted_peers(trusted).expect(trusted), strip_choice(strip).expect(strip));
            let proxies = Proxies { trusted, strip, ..Proxies::default() };
            assert_eq!(proxies.forwarding(peer("192.0.2.1")), expected, "{strip:?}");
        }
    }

    #[test]
    fn what_does_not_fit() {
        for (text, part) in [
            ("", "expected IP addresses"),
            ("localhost", "expected IP addresses"),
            ("10.0.0.1,", "expected IP addresses"),
            ("10.0.0.0/33", "from 0 to 32"),
            ("10.0.0.0/", "from 0 to 32"),
            ("10.0.0.0/+8", "from 0 to 32"),
            ("::/129", "from 0 to 128"),
            ("10.0.0.1/8", "10.0.0.1/8 is not a network"),
            ("2001:db8::1/64", "is not a network"),
            ("[::1]", "expected IP addresses"),
            ("fe80::1%eth0", "expected IP addresses"),
        ] {
            let why = trusted_peers(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
        assert!(forwarded_fields("x-forwarded-for,via").expect_err("unknown").contains("x-forwarded-proto, "));
        assert!(forwarded_fields("").is_err() && strip_choice("perhaps").is_err());
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let text = "unix,10.0.0.0/8,192.0.2.1,::1,2001:db8::/32,0.0.0.0/0,::/0";
        let peers = trusted_peers(text).expect("they are trusted");
        assert_eq!(peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","), text);
        for text in ["off", "forwarded", "x-forwarded-for,x-forwarded-proto", &ForwardedFields::ALL.to_string()] {
            assert_eq!(forwarded_fields(text).expect(text).to_string(), text);
        }
        assert_eq!(forwarded_fields(" X-Forwarded-Host , FORWARDED").expect("fits").to_string(), "x-forwarded-host,forwarded");
        for text in ["auto", "on", "off"] {
            assert_eq!(strip_choice(text).map(show_strip).as_deref(), Ok(text));
        }
    }
}
