//! Notifies a service manager of the state of this server, as systemd defines it (sd_notify(3)): messages of lines
//! `NAME=value`, each in one datagram to the socket that `NOTIFY_SOCKET` names.
//!
//! Only the first process of a server sends messages: systemd accepts them from no other (`NotifyAccess=main`).
//!
//! The crate `sd-notify` (0.5) cannot replace `channel.rs`: it takes `NOTIFY_SOCKET` for a path even if it names a socket in
//! the abstract namespace; its calls block while the service manager does not read; and it needs a second crate to send a
//! descriptor. All other code here is about the state of this server, and would stay.

mod channel;
mod watchdog;

pub(super) use channel::VARIABLES;

use channel::Channel;
use oribi_config::Settings;
use oribi_io::clock::monotonic;
use oribi_io::process::environment::{self, variable};
use oribi_listen::Listener;
use rustix::process::Pid;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use watchdog::Watchdog;

/// The variable with the number of descriptors that the service manager keeps for the service (`FileDescriptorStoreMax=`).
/// systemd sets it since version 254; units for earlier versions may set it themselves.
const FDSTORE: &str = "FDSTORE";

/// The prefix of the names under which the service manager stores listeners.
const PREFIX: &str = "oribi-";

/// The longest name that systemd permits, in bytes.
const LONGEST_NAME: usize = 255;

/// Notifies the service manager of the state of this server. Does nothing without a service manager.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    channel: Option<Channel>,
    watchdog: Option<Watchdog>,
    /// The reloads whose beginning has been reported, and whose end has not.
    reloading: BTreeSet<Reloading>,
    /// Whether it has been reported that this server serves.
    served: bool,
}

/// The subject of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reloading {
    /// The app with this index.
    App(usize),
    /// The program of the server.
    Program,
}

impl Notifier {
    /// Connects to the service manager that the environment names.
    pub(super) fn of_environment() -> Self {
        let Some(channel) = variable(channel::SOCKET).and_then(|address| Channel::open(&address)) else {
            return Self::default();
        };
        let watchdog = Watchdog::of(variable, std::process::id(), Instant::now());
        Self { channel: Some(channel), watchdog, ..Self::default() }
    }

    fn send_status(&self, message: &str) {
        if let Some(channel) = &self.channel {
            channel.send(message, None);
        }
    }

    /// Reports that the app is being loaded for the first time.
    pub(super) fn loading(&self) {
        self.send_status("STATUS=loading the app");
    }

    /// Reports that this process serves.
    pub(super) fn ready(&mut self, outcome: &str) {
        self.served = true;
        self.send_status(&format!("READY=1\nMAINPID={}\nSTATUS={}", std::process::id(), one_line(outcome)));
    }

    /// Whether a service manager expects notifications.
    pub(super) fn is_wanted() -> bool {
        environment::variable_os(channel::SOCKET).is_some_and(|address| !address.is_empty())
    }

    /// Reports that the process `pid` serves from now on. That process sends all further messages.
    pub(super) fn yields_to(&mut self, pid: Pid) {
        self.send_status(&format!("READY=1\nMAINPID={pid}\nSTATUS=serving"));
        *self = Self::default();
    }

    /// Reports the end of a reload with this `outcome`, if its beginning has been reported and no other reload is in progress.
    pub(super) fn reloaded(&mut self, subject: Reloading, outcome: &str) {
        if self.reloading.contains(&subject) {
            self.took_over(subject, outcome);
        }
    }

    /// Reports that the server serves with what was loaded last, unless another reload is in progress.
    pub(super) fn took_over(&mut self, subject: Reloading, outcome: &str) {
        self.reloading.remove(&subject);
        if self.reloading.is_empty() {
            self.ready(outcome);
        }
    }

    /// Reports that the app is being loaded again. May be called again if the load starts over.
    pub(super) fn reloading(&mut self, subject: Reloading) {
        if self.served {
            self.reloading.insert(subject);
            self.send_status(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading the app", monotonic_microseconds()));
        }
    }

    /// Reports that the server begins to stop.
    pub(super) fn stopping(&self) {
        self.send_status("STOPPING=1\nSTATUS=finishing what has begun");
    }

    /// Reports that the server is alive, if the interval since the last report is over. `alive` returns whether everything that
    /// the server needs runs. If it does not, nothing is sent, and the service manager restarts the server after some time.
    pub(super) fn keep_watchdog(&mut self, now: Instant, alive: impl FnOnce() -> bool) {
        let Some(watchdog) = &mut self.watchdog else { return };
        if !watchdog.is_due(now) {
            return;
        }
        if alive() {
            self.send_status("WATCHDOG=1");
        } else {
            watchdog.ask_again(now);
        }
    }

    /// Returns the longest time that the process may sleep. `None` without a deadline.
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
        self.watchdog.as_ref().map(|watchdog| watchdog.wait(now))
    }

    /// Stores the listeners in the service manager, if it has room for all of them. Then they stay open while the server is
    /// restarted, and clients wait. Stored listeners count as lent from now on.
    pub(super) fn store(&self, listeners: &mut [Listener], settings: &Settings) {
        let Some(channel) = &self.channel else { return };
        let room = variable(FDSTORE).and_then(|room| room.trim().parse::<usize>().ok()).unwrap_or(0);
        let own: Vec<&mut Listener> = listeners.iter_mut().filter(|listener| !listener.lent).collect();
        if own.is_empty() || room == 0 {
            return;
        }
        if settings.sockets_of_address() > 1 {
            return log::info!("the service manager does not keep the listeners: with --accept own there is one for each lane");
        }
        if own.len() > room {
            let count = own.len();
            return log::warn!(
                "the service manager keeps no listeners: there are {count}, and FileDescriptorStoreMax is {room}"
            );
        }
        for listener in own {
            let name = name_in_store(&listener.display);
            if channel.send(&format!("FDSTORE=1\nFDNAME={name}"), Some(listener.as_fd())) {
                log::info!("the service manager keeps {} while the server is restarted", listener.display);
                listener.lend();
                listener.stored = true;
            }
        }
    }
}

/// Returns the name of a listener in the store of the service manager, which must not contain a colon.
fn name_in_store(display: &str) -> String {
    let mut name = PREFIX.to_owned();
    name.extend(display.chars().map(|letter| if letter.is_ascii_graphic() && letter != ':' { letter } else { '_' }));
    name.truncate(LONGEST_NAME);
    name
}

/// Makes the service manager close the listener with this name.
pub(super) fn forget_listener(display: &str) {
    remove_from_store(&name_in_store(display));
}

/// Whether an earlier run of the server has stored the descriptor with this name.
pub(super) fn is_name_in_store(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Makes the service manager close the descriptors stored under `name`.
pub(super) fn remove_from_store(name: &str) {
    if let Some(channel) = variable(channel::SOCKET).and_then(|address| Channel::open(&address)) {
        channel.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None);
    }
}

/// Replaces control characters by escapes, because each value of a message must be on one line.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for letter in text.chars() {
        if letter.is_control() {
            // Writing to a String cannot fail.
            let _ = write!(line, "{}", letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// Returns the current time of the monotonic clock in microseconds. By this time systemd distinguishes a reload that follows
/// its signal from an earlier one.
fn monotonic_microseconds() -> u128 {
    monotonic().as_micros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_store_are_such_as_the_service_manager_takes() {
        let name = name_in_store("http://[::1]:5000");
        assert_eq!(name, "oribi-http_//[__1]_5000");
        assert!(is_name_in_store(&name) && !is_name_in_store("web"));
        assert_eq!(name_in_store(&"é x".repeat(200)).len(), LONGEST_NAME);
    }

    #[test]
    fn a_status_stays_on_its_line() {
        assert_eq!(one_line("it failed:\nREADY=0"), "it failed:\\nREADY=0");
    }

    #[test]
    fn without_a_service_manager_nothing_is_due() {
        let mut nobody = Notifier::default();
        nobody.ready("");
        nobody.reloading(Reloading::Program);
        nobody.keep_watchdog(Instant::now(), || panic!("nobody wants to know"));
        assert_eq!(nobody.patience(Instant::now()), None);
    }

    #[test]
    fn a_server_that_is_not_alive_does_not_feed_the_watchdog() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let path = folder.path().join("notify");
        let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("the folder is ours");
        socket.set_nonblocking(true).expect("it is ours");
        let now = Instant::now();
        let time = |name: &str| (name == "WATCHDOG_USEC").then(|| "2000000".to_owned());
        let channel = Channel::open(path.to_str().expect("it is ASCII"));
        let mut notifier = Notifier { channel, watchdog: Watchdog::of(time, 1, now), ..Notifier::default() };
        notifier.keep_watchdog(now, || false);
        assert!(socket.recv(&mut [0; 64]).is_err(), "nothing was sent");
        notifier.keep_watchdog(now + Duration::from_millis(500), || true);
        let mut message = [0; 64];
        let size = socket.recv(&mut message).expect("it was sent");
        assert_eq!(&message[..size], b"WATCHDOG=1");
    }
}
