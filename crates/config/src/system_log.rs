//! The logs of the system as the destination of a log: a syslog daemon or systemd's journal.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// The socket to which the C library's syslog(3) sends messages.
const USUAL_SOCKET: &str = "/dev/log";
/// The socket for the protocol of systemd's journal.
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
/// The port of syslog over UDP (RFC 5426, section 3.3).
const USUAL_PORT: u16 = 514;
/// The longest tag that older daemons accept (RFC 3164, section 4.1.3).
const TAG_BYTES: usize = 32;
/// The default facility of nginx.
const USUAL_FACILITY: u8 = 23;

/// The facilities of syslog by number (RFC 5424, section 6.2.1). The first, the kernel's, is empty because programs may not use
/// it; the other empty ones have no name in syslog.conf(5).
const FACILITIES: [&str; 24] = [
    "", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "", "", "", "", "local0",
    "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// A daemon that receives messages, each as one datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemLog {
    /// The address of the daemon.
    pub place: LogPlace,
    /// The format of the messages.
    pub form: MessageForm,
    /// The facility, as syslog's number.
    pub facility: u8,
    /// The name of the program that sends the messages.
    pub tag: String,
    /// The text of the setting.
    text: String,
}

/// The address of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// A socket of this machine.
    Socket(PathBuf),
    /// A UDP port of a daemon.
    Address(SocketAddr),
}

/// The format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageForm {
    /// The local form of syslog(3).
    Local,
    /// The format of RFC 5424.
    Network,
    /// The fields of the journal's protocol.
    Journal,
}

impl SystemLog {
    /// Parses `syslog:[HOST[:PORT]|/PATH][?facility=NAME&tag=NAME]` or `journal[:/PATH][?...]`; `None` for any other text.
    pub(super) fn parse(text: &str) -> Option<Result<Self, String>> {
        let (start, options) = text.split_once('?').unwrap_or((text, ""));
        let (kind, place) = start.split_once(':').unwrap_or((start, ""));
        let form = match (kind, place) {
            ("syslog", place) if start.contains(':') && (place.is_empty() || place.starts_with('/')) => MessageForm::Local,
            ("syslog", _) if start.contains(':') => MessageForm::Network,
            ("journal", _) => MessageForm::Journal,
            _ => return None,
        };
        Some(Self::read(form, place, options, text))
    }

    fn read(form: MessageForm, place: &str, options: &str, text: &str) -> Result<Self, String> {
        let place = match form {
            MessageForm::Local | MessageForm::Journal if place.starts_with('/') => LogPlace::Socket(place.into()),
            MessageForm::Local => LogPlace::Socket(USUAL_SOCKET.into()),
            MessageForm::Journal if place.is_empty() => LogPlace::Socket(JOURNAL_SOCKET.into()),
            MessageForm::Journal => return Err(format!("expected the path of the journal's socket instead of {place:?}")),
            MessageForm::Network => LogPlace::Address(address(place)?),
        };
        let mut log = Self { place, form, facility: USUAL_FACILITY, tag: "oribi".to_owned(), text: text.to_owned() };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("facility", name)) => log.facility = facility(name)?,
                Some(("tag", tag)) if is_tag(tag) => log.tag = tag.to_owned(),
                Some(("tag", tag)) => {
                    return Err(format!("{tag:?} is not a tag: expected 1 to {TAG_BYTES} letters, digits, `.`, `_` and `-`"));
                }
                _ => return Err(format!("expected `facility=NAME` or `tag=NAME` instead of {option:?}")),
            }
        }
        Ok(log)
    }
}

impl fmt::Display for SystemLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Looks up the address of a host once at the start, so that no message has to wait for that.
fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok((address, USUAL_PORT).into());
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => {
            let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("{port:?} is not a port"))?;
            (host.trim_start_matches('[').trim_end_matches(']'), port)
        }
        None => (text, USUAL_PORT),
    };
    let mut found = (host, port).to_socket_addrs().map_err(|error| format!("cannot look up {host:?}: {error}"))?;
    found.next().ok_or_else(|| format!("{host:?} has no address"))
}

fn facility(name: &str) -> Result<u8, String> {
    let found = FACILITIES.iter().position(|known| !known.is_empty() && known.eq_ignore_ascii_case(name));
    found.map(|number| number as u8).ok_or_else(|| {
        let names: Vec<_> = FACILITIES.iter().copied().filter(|known| !known.is_empty()).collect();
        format!("{name:?} is not a facility: expected one of {}", names.join(", "))
    })
}

fn is_tag(tag: &str) -> bool {
    (1..=TAG_BYTES).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> SystemLog {
        SystemLog::parse(text).expect("one of the system's logs").expect("right")
    }

    #[test]
    fn destinations() {
        let socket = |path: &str| LogPlace::Socket(path.into());
        let port = |text: &str| LogPlace::Address(text.parse().expect("an address"));
        for (text, place, form) in [
            ("syslog:", socket("/dev/log"), MessageForm::Local),
            ("syslog:/run/log.sock", socket("/run/log.sock"), MessageForm::Local),
            ("syslog:192.0.2.1", port("192.0.2.1:514"), MessageForm::Network),
            ("syslog:192.0.2.1:5140", port("192.0.2.1:5140"), MessageForm::Network),
            ("syslog:[2001:db8::1]:5140", port("[2001:db8::1]:5140"), MessageForm::Network),
            ("syslog:2001:db8::1", port("[2001:db8::1]:514"), MessageForm::Network),
            ("journal", socket("/run/systemd/journal/socket"), MessageForm::Journal),
            ("journal:/run/j", socket("/run/j"), MessageForm::Journal),
        ] {
            let log = parsed(text);
            assert_eq!((log.place, log.form, log.facility, log.tag.as_str()), (place, form, 23, "oribi"), "{text}");
            let log = parsed(&format!("{text}?facility=LOCAL1&tag=shop-1"));
            assert_eq!((log.form, log.facility, log.tag.as_str()), (form, 17, "shop-1"), "{text}");
        }
        assert_eq!(parsed("syslog:?facility=user").facility, 1);
        assert_eq!(parsed("syslog:?tag=a").to_string(), "syslog:?tag=a");
    }

    #[test]
    fn files_are_left_alone_and_mistakes_are_told() {
        for text in ["syslog", "/var/log/syslog", "journal.log", "./journal", "syslogs:x", "a:b"] {
            assert_eq!(SystemLog::parse(text), None, "{text}");
        }
        let long = format!("syslog:?tag={}", "x".repeat(33));
        for text in [
            "syslog:?facility=kern",
            "syslog:?facility=",
            "syslog:?tag=",
            "syslog:?tag=a b",
            "syslog:?tag=a:",
            "syslog:?severity=info",
            "syslog:?tag",
            "syslog:127.0.0.1:0",
            "syslog:127.0.0.1:99999",
            "syslog:127.0.0.1:x",
            "journal:here",
            &long,
        ] {
            assert!(SystemLog::parse(text).expect("one of the system's logs").is_err(), "{text}");
        }
    }
}
