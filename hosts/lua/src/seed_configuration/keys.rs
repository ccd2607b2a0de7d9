//! The keys of a configuration file of luafcgid: their meaning here, and their defaults.

use super::Draft;
use crate::settings::{ConfigValue, function_name};
use mlua::Value;
use oribi_server::config::{ListenAddress, Protocol};
use std::time::Duration;

/// The largest whole number that is exact in every representation.
const LARGEST: f64 = 9_007_199_254_740_992.0;
/// A `sweep` longer than a year is a typing error.
const LONGEST_SWEEP: u64 = 365 * 24 * 3600 * 1000;

/// A key of a configuration file.
pub(super) struct Key {
    pub name: &'static str,
    default: Default,
    target: Target,
}

/// A built-in default of luafcgid.
enum Default {
    Text(&'static str),
    Number(u32),
    Switch(bool),
    /// A number that meant the system's default.
    Nothing,
}

/// The setting that a value goes to, by the type of the value.
pub(super) enum Target {
    Text(fn(&mut Draft, &str) -> Result<(), String>),
    /// A whole number of at least the first value.
    Number(i64, fn(&mut Draft, u64) -> Result<(), String>),
    Switch(fn(&mut Draft, bool)),
    /// One address, or a list of them.
    Listen,
    /// Initial buffer sizes, which have no meaning here.
    Ignored,
}

pub(super) const KEYS: &[Key] = &[
    Key { name: "listen", default: Default::Text(":9000"), target: Target::Listen },
    Key {
        name: "backlog",
        default: Default::Nothing,
        // Below zero: the system's maximum, which is the server's default.
        target: Target::Number(-1, |draft, number| {
            if number > 0 {
                draft.server.push(("backlog", number.to_string()));
            }
            Ok(())
        }),
    },
    Key {
        name: "workers",
        default: Default::Number(3),
        target: Target::Number(1, |draft, number| {
            draft.server.push(("threads", number.to_string()));
            Ok(())
        }),
    },
    Key {
        name: "states",
        default: Default::Number(5),
        target: Target::Number(1, |draft, number| small(number).map(|number| draft.lua.states = number)),
    },
    Key {
        name: "clones",
        default: Default::Number(3),
        target: Target::Number(1, |draft, number| small(number).map(|number| draft.lua.clones = number)),
    },
    Key {
        name: "sweep",
        default: Default::Number(1000),
        target: Target::Number(0, |draft, number| {
            if number > LONGEST_SWEEP {
                return Err("expected milliseconds, of at most a year".to_owned());
            }
            draft.lua.sweep = Duration::from_millis(number);
            Ok(())
        }),
    },
    Key {
        name: "retries",
        default: Default::Number(2),
        target: Target::Number(0, |draft, number| small(number).map(|number| draft.lua.retries = number as u32)),
    },
    Key { name: "showerrors", default: Default::Switch(true), target: Target::Switch(|draft, on| draft.lua.show_errors = on) },
    Key { name: "buffering", default: Default::Switch(true), target: Target::Switch(|draft, on| draft.lua.buffering = on) },
    Key { name: "daemonize", default: Default::Switch(false), target: Target::Switch(|draft, on| draft.daemonize = on) },
    Key { name: "headersize", default: Default::Number(64), target: Target::Ignored },
    Key { name: "bodysize", default: Default::Number(1024), target: Target::Ignored },
    Key {
        name: "headers",
        default: Default::Text("X-Powered-By: Lua\r\n"),
        target: Target::Text(|draft, text| fields(text).map(|fields| draft.lua.fields = fields)),
    },
    Key {
        name: "handler",
        default: Default::Text("main"),
        target: Target::Text(|draft, text| function_name(text).map(|name| draft.lua.handler = name)),
    },
    Key {
        name: "httpstatus",
        default: Default::Text("200 OK"),
        target: Target::Text(|draft, text| status(text).map(|status| draft.lua.status = status)),
    },
    Key {
        name: "contenttype",
        default: Default::Text("text/html"),
        target: Target::Text(|draft, text| field_value(text).map(|value| draft.lua.content_type = value)),
    },
    Key {
        name: "maxpost",
        default: Default::Number(1 << 20),
        // luafcgid silently truncated longer content; here the client gets a 413.
        target: Target::Number(1, |draft, number| {
            draft.server.push(("max-body-size", number.to_string()));
            Ok(())
        }),
    },
    Key {
        name: "logfile",
        default: Default::Text("luafcgid.log"),
        target: Target::Text(|draft, text| {
            if text.is_empty() || text.contains('\0') {
                return Err("expected a path".to_owned());
            }
            draft.server.push(("error-log", text.to_owned()));
            Ok(())
        }),
    },
    Key {
        name: "watchdog",
        default: Default::Number(60),
        target: Target::Number(0, |draft, number| {
            let seconds = small(number)? as u64;
            draft.lua.time_limit = (seconds > 0).then(|| Duration::from_secs(seconds));
            Ok(())
        }),
    },
    Key {
        name: "maxcount",
        default: Default::Number(0),
        target: Target::Number(0, |draft, number| {
            draft.lua.state_requests = (number > 0).then_some(number);
            Ok(())
        }),
    },
];

impl Key {
    /// Puts a value into the draft.
    ///
    /// # Errors
    /// A message that says which values are valid.
    pub(super) fn take(&self, value: &Value, draft: &mut Draft) -> Result<(), String> {
        match &self.target {
            Target::Text(take) => take(draft, &text(value).ok_or("expected a text")?),
            Target::Switch(take) => match value {
                Value::Boolean(on) => {
                    take(draft, *on);
                    Ok(())
                }
                _ => Err("expected true or false".to_owned()),
            },
            Target::Number(least, take) => {
                let number = number(value).filter(|number| *number >= *least as f64);
                let number = number.ok_or_else(|| format!("expected a whole number from {least} on"))?;
                take(draft, number.max(0.0) as u64)
            }
            Target::Listen => listen(value, draft),
            Target::Ignored => Ok(()),
        }
    }

    /// Puts the default into the draft.
    pub(super) fn take_default(&self, draft: &mut Draft) {
        // It cannot fail: a test checks every row.
        let _ = match (&self.target, &self.default) {
            (Target::Text(take), Default::Text(text)) => take(draft, text),
            (Target::Number(_, take), Default::Number(number)) => take(draft, u64::from(*number)),
            (Target::Switch(take), Default::Switch(on)) => {
                take(draft, *on);
                Ok(())
            }
            (Target::Listen, Default::Text(text)) => address(text).map(|address| draft.server.push(("listen", address))),
            _ => Ok(()),
        };
    }

    /// The default as a script sees it.
    pub(super) fn default_value(&self) -> Option<ConfigValue> {
        match &self.default {
            Default::Text(text) => Some(ConfigValue::Text(text.as_bytes().to_vec())),
            Default::Number(number) => Some(ConfigValue::Integer(i64::from(*number))),
            Default::Switch(on) => Some(ConfigValue::Boolean(*on)),
            Default::Nothing => Some(ConfigValue::Integer(-1)),
        }
    }
}

/// A text, or a number as Lua would convert it.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.to_str().ok().map(|text| text.to_owned()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A whole number, or a text that Lua would convert to one.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        Value::String(text) => text.to_str().ok()?.trim().parse().ok()?,
        _ => return None,
    };
    (number.fract() == 0.0 && number.abs() <= LARGEST).then_some(number)
}

fn small(number: u64) -> Result<usize, String> {
    match u16::try_from(number) {
        Ok(number) => Ok(usize::from(number)),
        Err(_) => Err("expected a whole number of at most 65535".to_owned()),
    }
}

fn listen(value: &Value, draft: &mut Draft) -> Result<(), String> {
    const EXPECTED: &str = "expected \":PORT\", \"ADDRESS:PORT\", the path of a Unix socket, or a list of them";
    let texts: Vec<String> = match value {
        Value::Table(list) => {
            let values: Vec<Value> = list.sequence_values().collect::<mlua::Result<_>>().map_err(|_| EXPECTED)?;
            values.iter().map(text).collect::<Option<_>>().filter(|texts: &Vec<_>| !texts.is_empty()).ok_or(EXPECTED)?
        }
        value => vec![text(value).ok_or(EXPECTED)?],
    };
    let addresses: Vec<String> = texts.iter().map(|text| address(text)).collect::<Result<_, _>>()?;
    draft.server.extend(addresses.into_iter().map(|address| ("listen", address)));
    Ok(())
}

/// Converts an address in libfcgi's format to Oribi's: it is a TCP address if a port follows the first colon, otherwise the
/// path of a Unix socket. An address with a scheme (`http://:8080`) is in Oribi's format already.
fn address(text: &str) -> Result<String, String> {
    if text.contains("://") || text.contains("+unix:") {
        return ListenAddress::parse(text).map(|address| address.to_string());
    }
    let port = text.split_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0));
    let address = if port || text.starts_with('[') {
        ListenAddress::parse(text)?
    } else if text.is_empty() {
        return Err("expected an address".to_owned());
    } else {
        ListenAddress::parse(&format!("unix:{text}"))?
    };
    Ok(address.speaking(Protocol::FastCgi).to_string())
}

/// Raw header lines as fields.
fn fields(text: &str) -> Result<Vec<(String, String)>, String> {
    let lines = text.lines().map(|line| line.trim_end_matches('\r')).filter(|line| !line.is_empty());
    lines.map(field).collect()
}

fn field(line: &str) -> Result<(String, String), String> {
    let (name, value) = line.split_once(':').ok_or("expected lines of the form \"Name: value\\r\\n\"")?;
    // RFC 9110, section 5.6.2: tchar.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(format!("`{}` cannot be the name of a field", name.escape_debug()));
    }
    Ok((name.to_owned(), field_value(value.trim_matches([' ', '\t']))?))
}

/// A value of a field: RFC 9110, section 5.5.
fn field_value(text: &str) -> Result<String, String> {
    let fits = text.bytes().all(|byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f));
    if fits { Ok(text.to_owned()) } else { Err("expected a text without control characters".to_owned()) }
}

/// A status line without `HTTP/1.1`: three digits, and an optional phrase.
fn status(text: &str) -> Result<String, String> {
    let (code, phrase) = text.split_once(' ').unwrap_or((text, ""));
    let fits = code.len() == 3 && code.parse::<u16>().is_ok_and(|code| (200..=599).contains(&code));
    if fits && field_value(phrase).is_ok() {
        Ok(text.to_owned())
    } else {
        Err("expected a status such as \"200 OK\"".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_libfcgi_reads_them() {
        for (text, expected) in [
            (":9000", Ok("fcgi://*:9000")),
            ("127.0.0.1:9000", Ok("fcgi://127.0.0.1:9000")),
            ("localhost:9000", Ok("fcgi://localhost:9000")),
            ("[::1]:9000", Ok("fcgi://[::1]:9000")),
            ("/var/tmp/luafcgid.sock", Ok("fcgi+unix:/var/tmp/luafcgid.sock")),
            ("luafcgid", Ok("fcgi+unix:luafcgid")),
            ("a:b", Ok("fcgi+unix:a:b")),
            ("http://127.0.0.1:8080", Ok("http://127.0.0.1:8080")),
            ("fcgi+unix:/x", Ok("fcgi+unix:/x")),
        ] {
            assert_eq!(address(text).as_deref().map_err(String::as_str), expected, "{text}");
        }
        assert!(address("").is_err());
        assert!(address("ftp://a").is_err());
    }

    #[test]
    fn every_default_fits() {
        for key in KEYS {
            let mut draft = super::super::defaults();
            let lua = mlua::Lua::new();
            let value = match key.default_value() {
                Some(ConfigValue::Boolean(on)) => Value::Boolean(on),
                Some(ConfigValue::Integer(number)) => Value::Number(number as f64),
                Some(ConfigValue::Number(number)) => Value::Number(number),
                Some(ConfigValue::Text(text)) => Value::String(lua.create_string(text).expect("a string")),
                None => continue,
            };
            assert_eq!(key.take(&value, &mut draft), Ok(()), "{}", key.name);
            let mut by_default = super::super::defaults();
            key.take_default(&mut by_default);
            assert_eq!((draft.lua, draft.server), (by_default.lua, by_default.server), "{}", key.name);
        }
    }

    #[test]
    fn raw_headers_become_fields() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(fields("X-Powered-By: Lua\r\n"), Ok(vec![field("X-Powered-By", "Lua")]));
        assert_eq!(fields("A: 1\nB:2 \r\n\r\n"), Ok(vec![field("A", "1"), field("B", "2")]));
        assert_eq!(fields(""), Ok(vec![]));
        for text in ["no colon", "a b: c", ": c", "A: \u{7}"] {
            assert!(fields(text).is_err(), "{text}");
        }
    }

    #[test]
    fn statuses() {
        assert_eq!(status("404 Not Found"), Ok("404 Not Found".to_owned()));
        assert_eq!(status("204"), Ok("204".to_owned()));
        for text in ["", "OK", "20", "100 Continue", "999", "200 OK\r\nX: y"] {
            assert!(status(text).is_err(), "{text}");
        }
    }
}
