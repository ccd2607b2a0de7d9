//! Sends lines to a daemon, each as one datagram: to syslog on this machine or another, or to systemd's journal.
//!
//! A Unix socket stays unconnected, and each message names its destination. So the socket need not be opened again after a
//! restart of the daemon, which an edge in its sandbox could not do. A UDP socket is connected, because otherwise the kernel
//! does not report that the daemon's port is closed.

use super::date_cache::DateCache;
use oribi_config::{LogPlace, MessageForm, SystemLog};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, sendto, socket_with, sockopt};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The longest message in bytes, including the part before its text: rsyslog cuts at 8 KiB by default.
const MESSAGE_BYTES: usize = 8000;
/// The end of a message that was cut.
const MARK: &str = "...";
/// The longest wait for a daemon: see [`Messenger::send`].
const PATIENCE: Duration = Duration::from_millis(100);

/// The severity of a message (RFC 5424, section 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Severity {
    Error = 3,
    Warning = 4,
    Informational = 6,
    Debug = 7,
}

/// The reason why a message was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The daemon has not read earlier messages, so there was no room for this message; there may be room for the next one.
    Full,
    /// An earlier message to a closed port was lost; this message was sent.
    Earlier,
    /// This message was not sent.
    Lost(Errno),
}

/// Sends messages to one daemon.
#[derive(Debug)]
pub(super) struct Messenger {
    log: SystemLog,
    socket: OwnedFd,
    /// The name of this machine, for messages to other machines.
    host: String,
}

impl Messenger {
    /// Creates a socket. A missing daemon is noticed only when a message is sent.
    ///
    /// # Errors
    /// The operating system provides no socket, or the path of the daemon's socket is too long.
    pub(super) fn open(log: &SystemLog) -> io::Result<Self> {
        let family = match &log.place {
            LogPlace::Socket(path) => SocketAddrUnix::new(path.as_path()).map(|_| AddressFamily::UNIX)?,
            LogPlace::Address(address) if address.is_ipv4() => AddressFamily::INET,
            LogPlace::Address(_) => AddressFamily::INET6,
        };
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
        if let LogPlace::Address(address) = &log.place {
            // Fails without a network, but sending may succeed later.
            let _ = connect(&socket, address);
        }
        let name = rustix::system::uname();
        let host = name.nodename().to_str().unwrap_or_default();
        let host = if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic()) { host } else { "-" };
        Ok(Self { log: log.clone(), socket, host: host.to_owned() })
    }

    /// Returns the name of the daemon for users.
    pub(super) fn name(&self) -> String {
        self.log.to_string()
    }

    /// Sends `text` as one message; bytes that would end the message are replaced. With `waits`, the call waits up to a tenth
    /// of a second for a slow daemon on this machine.
    pub(super) fn send(&self, severity: Severity, text: &[u8], waits: bool, composer: &mut Composer) -> Result<(), Failure> {
        let message = composer.compose(&self.log, &self.host, severity, text);
        let flags = if waits { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
        match self.try_send(message, flags) {
            // The error is about an earlier message, and the socket reports it once.
            Err(Errno::CONNREFUSED) if matches!(self.log.place, LogPlace::Address(_)) => match self.try_send(message, flags) {
                Ok(()) => Err(Failure::Earlier),
                Err(error) => Err(Failure::Lost(error)),
            },
            Err(Errno::AGAIN | Errno::NOBUFS) => Err(Failure::Full),
            Err(error) => Err(Failure::Lost(error)),
            Ok(()) => Ok(()),
        }
    }

    fn try_send(&self, message: &[u8], flags: SendFlags) -> Result<(), Errno> {
        retry_on_intr(|| match &self.log.place {
            LogPlace::Socket(path) => sendto(&self.socket, message, flags, &unix(path)?),
            LogPlace::Address(address) => sendto(&self.socket, message, flags, address),
        })
        .map(drop)
    }

    /// Returns the reason why the daemon would not take a message now; `None` if it would, or if messages are sent over UDP.
    pub(super) fn trouble(&self) -> Option<io::Error> {
        let LogPlace::Socket(path) = &self.log.place else { return None };
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        socket.and_then(|socket| connect(&socket, &unix(path)?)).err().map(io::Error::from)
    }
}

fn unix(path: &Path) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new(path)
}

/// Formats messages, all in the same buffer.
#[derive(Debug)]
pub(super) struct Composer {
    date_cache: DateCache,
    message: Vec<u8>,
}

impl Composer {
    pub(super) fn new() -> Self {
        Self { date_cache: DateCache::new(), message: Vec::new() }
    }

    fn compose(&mut self, log: &SystemLog, host: &str, severity: Severity, text: &[u8]) -> &[u8] {
        let Self { date_cache, message } = self;
        let (facility, severity, tag, process) = (log.facility, severity as u8, &log.tag, std::process::id());
        let (priority, now) = (u32::from(facility) << 3 | u32::from(severity), SystemTime::now());
        message.clear();
        // Writing into memory does not fail.
        let _ = match log.form {
            MessageForm::Local => {
                let _ = write!(message, "<{priority}>");
                date_cache.append_calendar(now, "%b %e %T", message);
                write!(message, " {tag}[{process}]: ")
            }
            MessageForm::Network => {
                let _ = write!(message, "<{priority}>1 ");
                date_cache.append_iso(now, message);
                write!(message, " {host} {tag} {process} - - ")
            }
            MessageForm::Journal => write!(
                message,
                "PRIORITY={severity}\nSYSLOG_FACILITY={facility}\nSYSLOG_IDENTIFIER={tag}\nSYSLOG_PID={process}\nMESSAGE="
            ),
        };
        let room = MESSAGE_BYTES.saturating_sub(message.len() + 1);
        let (text, mark) = if text.len() <= room { (text, "") } else { (whole(text, room - MARK.len()), MARK) };
        // Text of clients and apps is already escaped; this is for characters in the format itself.
        message.extend(text.iter().map(|&byte| if matches!(byte, 0..=0x1f | 0x7f) { b' ' } else { byte }));
        message.extend_from_slice(mark.as_bytes());
        if log.form == MessageForm::Journal {
            message.push(b'\n');
        }
        message
    }
}

/// Returns as much of `text` as fits into `room` without splitting a character of UTF-8.
fn whole(text: &[u8], room: usize) -> &[u8] {
    let mut end = room.min(text.len());
    // A character has at most three continuation bytes.
    for _ in 0..3 {
        if text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::LogTarget;
    use oribi_config::value::log_target;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;

    fn log(text: &str) -> SystemLog {
        match log_target(text) {
            Ok(LogTarget::System(log)) => log,
            other => panic!("{other:?}"),
        }
    }

    fn composed(target: &str, severity: Severity, text: &[u8]) -> String {
        let mut composer = Composer::new();
        String::from_utf8(composer.compose(&log(target), "host-1", severity, text).to_vec()).expect("UTF-8")
    }

    #[test]
    fn messages() {
        let process = std::process::id();
        let local = composed("syslog:?facility=daemon", Severity::Error, b"no way");
        let (front, rest) = local.split_at(5 + 15);
        assert!(front.starts_with("<27>") && front.matches(':').count() == 2, "{local}");
        assert_eq!(rest.trim_start(), format!("oribi[{process}]: no way"));
        let network = composed("syslog:127.0.0.1:1?tag=shop", Severity::Informational, b"GET /");
        let words: Vec<_> = network.split(' ').collect();
        assert_eq!((words[0], words[2], words[3]), ("<190>1", "host-1", "shop"), "{network}");
        assert!(words[1].ends_with('Z') && words[4] == process.to_string(), "{network}");
        assert!(network.ends_with(" - - GET /"), "{network}");
        assert_eq!(
            composed("journal?facility=user", Severity::Warning, b"careful"),
            format!("PRIORITY=4\nSYSLOG_FACILITY=1\nSYSLOG_IDENTIFIER=oribi\nSYSLOG_PID={process}\nMESSAGE=careful\n")
        );
    }

    #[test]
    fn no_byte_ends_a_message_or_begins_a_field() {
        let every: Vec<u8> = (0..=0x7f).collect();
        for target in ["syslog:", "syslog:127.0.0.1", "journal"] {
            let plain = composed(target, Severity::Debug, b"x");
            let message = composed(target, Severity::Debug, &every);
            let controls = |text: &str| text.chars().filter(|character| character.is_control()).count();
            assert_eq!(controls(&message), controls(&plain), "{message:?}");
        }
    }

    #[test]
    fn long_messages_are_cut_between_characters_and_marked() {
        for target in ["syslog:", "syslog:127.0.0.1", "journal"] {
            for shift in 0..4 {
                let text = format!("{}{}", "x".repeat(shift), "\u{1f980}".repeat(MESSAGE_BYTES));
                let message = composed(target, Severity::Error, text.as_bytes());
                assert!((MESSAGE_BYTES - 5..=MESSAGE_BYTES).contains(&message.len()), "{}", message.len());
                assert!(message.trim_end().ends_with("\u{1f980}..."), "{target}");
            }
        }
    }

    #[test]
    fn a_restarted_daemon_gets_the_next_message_and_a_full_one_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("log");
        let messenger = Messenger::open(&log(&format!("syslog:{}", path.display()))).expect("a socket");
        let mut composer = Composer::new();
        let mut send = |text: &str| messenger.send(Severity::Error, text.as_bytes(), false, &mut composer);
        assert_eq!(send("nobody is there"), Err(Failure::Lost(Errno::NOENT)));
        assert!(messenger.trouble().is_some());
        for _ in 0..2 {
            let daemon = UnixDatagram::bind(&path).expect("the path is free");
            assert!(messenger.trouble().is_none());
            assert_eq!(send("hello"), Ok(()));
            let mut bytes = [0; 100];
            let size = daemon.recv(&mut bytes).expect("a message");
            assert!(bytes[..size].ends_with(b"]: hello"));
            drop(daemon);
            assert_eq!(send("it has gone"), Err(Failure::Lost(Errno::CONNREFUSED)));
            std::fs::remove_file(&path).expect("it is there");
        }
        let _daemon = UnixDatagram::bind(&path).expect("the path is free");
        let text = "x".repeat(1000);
        let failure = (0..100_000).find_map(|_| send(&text).err());
        assert_eq!(failure, Some(Failure::Full));
    }

    #[test]
    fn over_udp_it_is_told_that_nobody_listens_and_the_next_message_leaves() {
        let daemon = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = daemon.local_addr().expect("bound");
        let messenger = Messenger::open(&log(&format!("syslog:{address}"))).expect("a socket");
        let mut composer = Composer::new();
        let mut send = |text: &str| messenger.send(Severity::Error, text.as_bytes(), false, &mut composer);
        drop(daemon);
        assert_eq!(send("nobody is there"), Ok(()));
        assert_eq!(send("nobody is there"), Err(Failure::Earlier));
        let daemon = UdpSocket::bind(address).expect("the port is free");
        assert_eq!(send("hello"), Err(Failure::Earlier), "that before was lost");
        let mut bytes = [0; 100];
        let size = daemon.recv(&mut bytes).expect("a message");
        assert!(bytes[..size].ends_with(b" - - hello"));
    }
}
