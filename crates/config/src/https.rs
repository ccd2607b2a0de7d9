//! The settings that move clients to https.

use super::value::{boolean, duration, is_off};

/// The port of https (RFC 9110, section 4.2.2).
const HTTPS: u16 = 443;

/// Parses `off`, `on` for the port of https, or another port.
pub(super) fn redirect_port(text: &str) -> Result<Option<u16>, String> {
    let text = text.trim();
    match text.parse::<u16>() {
        // 0 and 1 mean off and on, as for every switch.
        Ok(port @ 2..) if !text.starts_with('+') => Ok(Some(port)),
        _ => match boolean(text) {
            Ok(on) => Ok(on.then_some(HTTPS)),
            Err(_) => Err("expected on, off, or the port to which clients are sent, as in --redirect-https=8443".to_owned()),
        },
    }
}

/// Formats the value so that [`redirect_port`] can parse it.
pub(super) fn show_redirect(port: Option<u16>) -> String {
    match port {
        None => "off".to_owned(),
        Some(HTTPS) => "on".to_owned(),
        Some(port) => port.to_string(),
    }
}

const EXPECTED: &str = "expected a time such as 365d, or max-age=SECONDS, which ; includeSubDomains and ; preload may follow, \
     or off";

/// Parses a policy, which is a time or the value of the field Strict-Transport-Security (RFC 6797, section 6.1). Returns the
/// value of the field; `None` for `off`, if responses get no such field.
pub(super) fn policy(text: &str) -> Result<Option<String>, String> {
    let text = text.trim();
    if is_off(text) {
        return Ok(None);
    }
    if let Ok(time) = duration(text) {
        return Ok(Some(format!("max-age={}", time.as_secs())));
    }
    let (mut age, mut rest) = (None, vec!["includeSubDomains", "preload"]);
    let mut value = String::new();
    for part in text.split(';').map(str::trim) {
        if let Some((name, seconds)) = part.split_once('=') {
            let seconds = seconds.trim();
            let is_number = (1..=10).contains(&seconds.len()) && seconds.bytes().all(|byte| byte.is_ascii_digit());
            if !name.trim().eq_ignore_ascii_case("max-age") || !is_number || age.replace(seconds).is_some() {
                return Err(EXPECTED.to_owned());
            }
            continue;
        }
        let place = rest.iter().position(|name| part.eq_ignore_ascii_case(name)).ok_or(EXPECTED)?;
        value.push_str("; ");
        value.push_str(rest.remove(place));
    }
    Ok(Some(format!("max-age={}{value}", age.ok_or(EXPECTED)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports() {
        for (text, expected) in [
            ("on", Some(443)),
            ("", Some(443)),
            ("1", Some(443)),
            ("443", Some(443)),
            (" 8443 ", Some(8443)),
            ("65535", Some(65535)),
            ("off", None),
            ("0", None),
        ] {
            assert_eq!(redirect_port(text), Ok(expected), "{text}");
            assert_eq!(redirect_port(&show_redirect(expected)), Ok(expected), "{text}");
        }
        for text in ["https", "-1", "+8443", "65536", "a.de:443"] {
            assert!(redirect_port(text).is_err(), "{text}");
        }
    }

    #[test]
    fn policies() {
        for (text, expected) in [
            ("max-age=31536000", "max-age=31536000"),
            (" MAX-AGE = 0 ; IncludeSubdomains;preload ", "max-age=0; includeSubDomains; preload"),
            ("includeSubDomains; max-age=63072000", "max-age=63072000; includeSubDomains"),
            ("max-age=1;preload", "max-age=1; preload"),
            ("365d", "max-age=31536000"),
            ("1h", "max-age=3600"),
            ("600", "max-age=600"),
            ("0", "max-age=0"),
        ] {
            assert_eq!(policy(text), Ok(Some(expected.to_owned())), "{text}");
            assert_eq!(policy(expected), Ok(Some(expected.to_owned())), "{text}");
        }
        assert_eq!(policy("off"), Ok(None));
        for text in [
            "",
            "on",
            "max-age",
            "max-age=",
            "max-age=1d",
            "max-age=\"1\"",
            "max-age=99999999999",
            "max-age=1; max-age=2",
            "preload",
            "max-age=1; x",
            "max-age=1; preload; preload",
            "max-age=1;",
            "max-age=1\r\nSet-Cookie: x",
            "1y",
        ] {
            assert!(policy(text).is_err(), "{text}");
        }
    }
}
