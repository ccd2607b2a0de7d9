//! The Redis of a relay, as options give it.

use oribi_live::LARGEST_CHANNEL;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::path::{Path, PathBuf};

const PORT: u16 = 6379;

const EXPECTED: &str = "expected redis://[[USER]:PASSWORD@]HOST[:PORT], rediss:// for TLS, or unix:PATH, each perhaps with \
                        ?user=NAME&password_file=FILE; auto; or off";

/// The settings of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The Redis; `None` if messages stay in this server.
    pub redis: Option<Redis>,
    /// The beginning of the names of channels at Redis.
    pub prefix: String,
    /// A PEM file with the authorities that may sign the certificate of Redis; `None` for those of the system.
    pub authorities: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { redis: None, prefix: "oribi:".to_owned(), authorities: None }
    }
}

/// A Redis, and the user that a relay is there. As text, it has no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// Its address.
    pub address: Address,
    /// The name of the user; empty for the default one.
    pub(crate) user: String,
    pub(crate) password: Password,
}

/// The address of a Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host, perhaps by TLS.
    Tcp {
        /// Whether the connection is encrypted.
        is_encrypted: bool,
        /// The name or the address, without the brackets of IPv6.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// The password of the user.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) enum Password {
    #[default]
    None,
    Given(String),
    InFile(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Given(_) => f.write_str("Given(***)"),
            Self::InFile(path) => f.debug_tuple("InFile").field(path).finish(),
        }
    }
}

impl Redis {
    /// Parses the URL of a Redis. A database in its path means nothing, because channels belong to none.
    ///
    /// # Errors
    /// Says which form is expected, without any part of `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (place, query) = text.rsplit_once('?').unwrap_or((text, ""));
        let mut redis = match place.split_once(':') {
            Some((scheme, path)) if scheme.eq_ignore_ascii_case("unix") => Self::at(Address::Unix(unix_path(path)?)),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("redis") => Self::of_authority(rest, false)?,
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("rediss") => Self::of_authority(rest, true)?,
            _ => return Err(EXPECTED.to_owned()),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("user", name)) if redis.user.is_empty() => redis.user = decoded(name)?,
                Some(("password_file", path)) if redis.password == Password::None && !path.is_empty() => {
                    redis.password = Password::InFile(decoded(path)?.into());
                }
                _ => return Err(EXPECTED.to_owned()),
            }
        }
        if !redis.user.is_empty() && redis.password == Password::None {
            return Err("a user needs a password: USER:PASSWORD@HOST, or ?password_file=FILE".to_owned());
        }
        Ok(redis)
    }

    fn at(address: Address) -> Self {
        Self { address, user: String::new(), password: Password::None }
    }

    /// Parses `//USER:PASSWORD@HOST:PORT/DATABASE`.
    fn of_authority(text: &str, is_encrypted: bool) -> Result<Self, String> {
        let rest = text.strip_prefix("//").ok_or(EXPECTED)?;
        // A password that is not escaped may have any character.
        let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let (host, database) = host.split_once('/').unwrap_or((host, ""));
        if !database.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(EXPECTED.to_owned());
        }
        let (host, port) = match host.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(EXPECTED)?;
                (host, port.strip_prefix(':').or(port.is_empty().then_some("")).ok_or(EXPECTED)?)
            }
            None => host.rsplit_once(':').unwrap_or((host, "")),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(EXPECTED.to_owned());
        }
        let port = if port.is_empty() { Some(PORT) } else { port.parse().ok().filter(|port| *port > 0) };
        let address = Address::Tcp { is_encrypted, host: host.to_owned(), port: port.ok_or(EXPECTED)? };
        let mut redis = Self::at(address);
        if let Some(user) = user {
            let (user, password) = user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
            redis.user = decoded(user)?;
            redis.password = match password {
                None | Some("") => Password::None,
                Some(password) => Password::Given(decoded(password)?),
            };
        }
        Ok(redis)
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.address, Address::Tcp { is_encrypted: true, .. })
    }

    /// Makes paths absolute by `absolute`.
    pub fn make_absolute(&mut self, absolute: impl Fn(&Path) -> PathBuf) {
        if let Address::Unix(path) = &mut self.address {
            *path = absolute(path);
        }
        if let Password::InFile(path) = &mut self.password {
            *path = absolute(path);
        }
    }

    /// The arguments of AUTH: the user and the password. `None` without a password.
    ///
    /// # Errors
    /// The file of the password cannot be read; the message says why.
    pub(crate) fn credentials(&self) -> Result<Option<(String, String)>, String> {
        let password = match &self.password {
            Password::None => return Ok(None),
            Password::Given(password) => password.clone(),
            Password::InFile(path) => {
                let failed = |why: &str| format!("cannot read the password of Redis from {}: {why}", path.display());
                let text = std::fs::read_to_string(path).map_err(|error| failed(&error.to_string()))?;
                let password = text.trim_end_matches(['\r', '\n']);
                if password.is_empty() {
                    return Err(failed("it is empty"));
                }
                password.to_owned()
            }
        };
        let user = if self.user.is_empty() { "default" } else { &self.user };
        Ok(Some((user.to_owned(), password)))
    }
}

/// The URL, with `***` in place of a user and a password.
impl fmt::Display for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_file = match &self.password {
            Password::InFile(path) => Some(path),
            Password::None | Password::Given(_) => None,
        };
        match &self.address {
            Address::Unix(path) => write!(f, "unix:{}", path.display())?,
            Address::Tcp { is_encrypted, host, port } => {
                let scheme = if *is_encrypted { "rediss" } else { "redis" };
                let user = if matches!(self.password, Password::Given(_)) { ":***@" } else { "" };
                if host.contains(':') {
                    write!(f, "{scheme}://{user}[{host}]:{port}")?;
                } else {
                    write!(f, "{scheme}://{user}{host}:{port}")?;
                }
            }
        }
        match in_file {
            Some(path) if self.user.is_empty() => write!(f, "?password_file={}", path.display()),
            Some(path) => write!(f, "?user={}&password_file={}", self.user, path.display()),
            None => Ok(()),
        }
    }
}

/// Parses the prefix of the names of channels.
///
/// # Errors
/// Says which form is expected.
pub fn prefix(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"*?[]\\^".contains(&byte);
    let is_fit = !text.is_empty() && text.len() <= LARGEST_CHANNEL && text.bytes().all(is_plain);
    if is_fit { Ok(text.to_owned()) } else { Err("expected printable characters without * ? [ ] \\ and ^".to_owned()) }
}

/// The path of a Unix socket, which may begin as in a URL: `unix:///run/redis.sock`.
fn unix_path(path: &str) -> Result<PathBuf, String> {
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(path.into()) }
}

fn decoded(text: &str) -> Result<String, String> {
    percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|_| EXPECTED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Redis::parse(text).unwrap_or_else(|why| panic!("{text}: {why}")).to_string()
    }

    #[test]
    fn urls_are_parsed_and_shown_without_secrets() {
        for (text, expected) in [
            ("redis://localhost", "redis://localhost:6379"),
            (" REDIS://10.0.0.7:6380/0 ", "redis://10.0.0.7:6380"),
            ("rediss://[::1]", "rediss://[::1]:6379"),
            ("rediss://[fe80::1%eth0]:1", "rediss://[fe80::1%eth0]:1"),
            ("redis://:hunter2@db:1/", "redis://:***@db:1"),
            ("redis://:hun@ter/2:@db", "redis://:***@db:6379"),
            ("redis://app:hunter2@db", "redis://:***@db:6379"),
            ("redis://app@db?password_file=/run/secrets/redis", "redis://db:6379?user=app&password_file=/run/secrets/redis"),
            ("unix:/run/redis.sock", "unix:/run/redis.sock"),
            ("unix:///run/redis.sock?user=app&password_file=p", "unix:/run/redis.sock?user=app&password_file=p"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
            assert_eq!(shown(expected), expected, "again");
        }
        let redis = Redis::parse("redis://a%40b:p%3A%40w@db").expect("valid");
        assert_eq!(redis.credentials(), Ok(Some(("a@b".to_owned(), "p:@w".to_owned()))));
        assert!(!format!("{redis:?}").contains("p:@w"));
        assert_eq!(Redis::parse("redis://:x@db").expect("valid").credentials(), Ok(Some(("default".into(), "x".into()))));
        assert_eq!(Redis::parse("redis://db").expect("valid").credentials(), Ok(None));
    }

    #[test]
    fn mistakes_are_refused_without_quoting_a_secret() {
        for text in [
            "",
            "localhost:6379",
            "http://localhost",
            "redis:localhost",
            "redis://",
            "redis://:hunter2@",
            "redis://:hunter2@host:port",
            "redis://host:0",
            "redis://host:99999",
            "redis://[::1",
            "redis://[::1]x",
            "redis://host/db",
            "redis://ho st",
            "redis://hunter2@host",
            "unix:",
            "redis://host?password=hunter2",
            "redis://:hunter2@host?password_file=x",
            "redis://%ff:x@host",
        ] {
            let why = Redis::parse(text).expect_err(text);
            assert!(!why.contains("hunter2"), "{why}");
        }
        for text in ["", "a b", "a*", "é", "a\n"] {
            assert!(prefix(text).is_err(), "{text}");
        }
        assert_eq!(prefix("shop/live:").as_deref(), Ok("shop/live:"));
    }

    #[test]
    fn a_password_may_be_in_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        let redis = Redis::parse(&format!("redis://db?password_file={}", path.display())).expect("valid");
        assert!(redis.credentials().expect_err("no file").contains("cannot read the password of Redis from /"));
        std::fs::write(&path, "hunter2\n").expect("written");
        assert_eq!(redis.credentials(), Ok(Some(("default".to_owned(), "hunter2".to_owned()))));
        std::fs::write(&path, "\n").expect("written");
        assert!(redis.credentials().expect_err("empty").ends_with("it is empty"));
    }
}
