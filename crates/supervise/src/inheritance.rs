//! The inheritance of a mold from its master: the listeners, and a socket for messages.
//!
//! The environment names the descriptors:
//! - `ORIBI_MASTER=4:123`: descriptor 4 is a socket to the master, process 123;
//! - `ORIBI_LISTENERS=5,7=http%3A//127.0.0.1%3A5000=localhost;6=unix%3A/run/app.sock=localhost=lent=fcgi`: for each listener
//!   its descriptors, display name and server name, percent-encoded, whether it was lent to the master, and whether clients use
//!   FastCGI;
//! - `ORIBI_POOLS`: memory and descriptors that workers share with edges (see `edges/pools.rs`). If edges have the connections,
//!   a mold inherits these instead of the listeners;
//! - `ORIBI_BOARD=8`: a file in memory for the mold's scoreboard, which the master reads;
//! - `ORIBI_TLS=9`: a file in memory with the certificates and keys of encrypted listeners, because perhaps the mold's user may
//!   not read the files (see `listen/secure.rs`);
//! - `ORIBI_SPANS=10`: a socket to the process that exports spans, if workers have connections (see [`oribi_ipc::spans`]);
//! - `ORIBI_INQUIRIES=11`: a socket to the first process, on which workers that have connections ask for metrics
//!   (`--metrics-path`);
//! - `ORIBI_OUTBOX=12,13` and `ORIBI_RELAY_OUTBOX=14`: sockets to each edge and to the relay (see [`super::outbox`]);
//! - `ORIBI_GENERATION=1`: how many times the app has been loaded.
//!
//! A mold reads these variables once, and hides them from the app before it loads the app (see [`OWN`]). It uses them only if
//! descriptor 4 is such a socket, and process 123 has created that socket.

pub(super) use super::described::{LISTENERS, describe};
use super::described::{ListenerEntry, parse};
use super::edges::pools::{POOLS, claim_all, inherit as inherit_pools};
use super::outbox::{self, BOXES, OUTBOX, RELAY_OUTBOX};
use oribi_admin::metrics::MetricsClient;
use oribi_edge::parent_link::WorkerRequest;
use oribi_io::process::environment::{self, variable};
use oribi_io::process::{
    adopt, claim, exit_now, has_hung_up, peer, survive_failing_writes_while_loading, survive_own_signals, tell,
};
use oribi_ipc::spans::SpanSender;
use oribi_listen::{Listener, Vault};
use oribi_pool::Memory;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

pub(super) const MASTER: &str = "ORIBI_MASTER";
/// Names the socket to the master of the previous server: see [`super::upgrade`].
pub(super) const UPGRADE: &str = "ORIBI_UPGRADE";
/// Names the socket to the guardian: the first process of a server that has been upgraded.
pub(super) const GUARDIAN: &str = "ORIBI_GUARDIAN";
/// Names the file with the totals of the previous server.
pub(super) const TOTALS: &str = "ORIBI_TOTALS";
/// Names the file with the totals of the previous server by route.
pub(super) const ROUTE_TOTALS: &str = "ORIBI_ROUTE_TOTALS";
/// Names the file with the app metrics of the previous server.
pub(super) const APP_METRICS: &str = "ORIBI_FIGURES";
/// Names the metrics listeners of the previous server: their address, a space, and the listeners as in [`LISTENERS`].
pub(super) const METRICS: &str = "ORIBI_METRICS_LISTENERS";
/// Names the file with the history of the previous server's dashboard.
pub(super) const HISTORY: &str = "ORIBI_HISTORY";
pub(super) const GENERATION: &str = "ORIBI_GENERATION";

pub(super) const BOARD: &str = "ORIBI_BOARD";
/// Names the file with the certificates and keys of encrypted listeners.
pub(super) const VAULT: &str = "ORIBI_TLS";
/// Names the file with the proofs that answer an authority's challenges in TLS handshakes.
pub(super) const PROOF: &str = "ORIBI_ACME_PROOF";
/// Names the socket for spans.
pub(super) const SPANS: &str = "ORIBI_SPANS";
/// Names the socket on which workers ask the first process for metrics.
pub(super) const METRICS_REQUESTS: &str = "ORIBI_INQUIRIES";
/// Names the number of workers that was set while the previous server served: see [`super::scaled`].
pub(super) const SCALED: &str = "ORIBI_SCALED";
/// Names the file that the previous server has applied last: see [`super::applied`].
pub(super) const APPLIED: &str = "ORIBI_APPLIED";

/// All variables by which processes of a server pass something on. They are hidden from apps. A program that is executed for an
/// upgrade does not inherit them either, but gets new values for those that it needs.
pub(super) const OWN: [&str; 22] = [
    MASTER,
    UPGRADE,
    GUARDIAN,
    LISTENERS,
    POOLS,
    TOTALS,
    ROUTE_TOTALS,
    APP_METRICS,
    METRICS,
    HISTORY,
    GENERATION,
    BOARD,
    VAULT,
    PROOF,
    SPANS,
    METRICS_REQUESTS,
    OUTBOX,
    RELAY_OUTBOX,
    BOXES,
    SCALED,
    APPLIED,
    // A service manager's information about the process that it has started.
    "WATCHDOG_PID",
];

/// Messages between master and mold, one byte each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Message {
    /// Mold to master: the app is loaded, and workers are started.
    Loaded = b'm',
    /// Mold to master: this generation serves, so it may replace the previous one.
    Ready = b'r',
    /// Master to mold: the whole server stops; finish running and waiting requests.
    Stop = b's',
    /// Master to mold: the whole server stops soon; fail readiness probes.
    Announce = b'a',
    /// Master to mold: as `Announce`; in addition, each response is the last one on its connection.
    Part = b'p',
    /// Master to mold: kill the workers and end now.
    Quit = b'q',
    /// Master to mold: another generation has taken over; finish running requests.
    Retire = b'x',
    /// Master to mold: reopen the log files.
    Reopen = b'l',
    /// Master to mold: from now on no other server shares the listeners.
    Own = b'o',
    /// Master to mold: another server serves. So report this generation as ready only when all its workers are ready.
    Complete = b'c',
    /// Mold to master: some workers of this generation serve and others cannot start. The reason was sent in an earlier
    /// message.
    Incomplete = b'i',
    /// Mold to master: this process got a signal to end, and there are edges or a drain period. Unless the master stops anyway,
    /// it replaces this process.
    TerminationRequested = b't',
}

const MESSAGES: [Message; 12] = [
    Message::Own,
    Message::Complete,
    Message::Loaded,
    Message::Ready,
    Message::Stop,
    Message::Announce,
    Message::Part,
    Message::Quit,
    Message::Retire,
    Message::Reopen,
    Message::Incomplete,
    Message::TerminationRequested,
];

/// The first byte of a message with the request of an edge about a worker, which follows.
const WORKER_REQUEST: u8 = b'e';
/// The first byte of a message with an order to change the number of workers. Two numbers of 32 bits follow: the target number
/// of workers, and the number that identifies the order.
const SCALE: u8 = b'n';
/// The first byte of a message that reports an order as carried out. The number that identifies the order follows, in 32 bits.
const SETTLED: u8 = b'=';

/// The first byte of a message with the reason why a generation cannot serve. The length of the text in bytes follows, as two
/// bytes, least significant first; then the text.
const FAILURE: u8 = b'w';

/// The longest text of a [`FAILURE`] message in bytes: enough for an error with its backtrace.
const LONGEST_FAILURE: usize = 16 << 10;

/// Encodes the reason why a generation cannot serve.
fn failure(text: &str) -> Vec<u8> {
    let mut end = text.len().min(LONGEST_FAILURE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = vec![FAILURE];
    bytes.extend_from_slice(&(end as u16).to_le_bytes());
    bytes.extend_from_slice(&text.as_bytes()[..end]);
    bytes
}

/// The first byte of a message with a time in milliseconds, which follows as [`DIGITS`] decimal digits. No digit is a
/// [`Message`], so a mold of a version that does not know this message skips all of it.
const TIME: u8 = b'd';
const DIGITS: usize = 12;

/// The result of reading from the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Message(Message),
    /// Master to mold: the request of an edge about a process, which may be one of the mold's workers.
    WorkerRequest(WorkerRequest),
    /// Mold to master: the reason why this generation cannot serve.
    Failure(String),
    /// Master to mold: the time left for the stop that the next message orders.
    TimeLeft(Duration),
    /// Master to mold: the target number of workers. `order` is the number that identifies this order.
    Scale {
        workers: u32,
        order: u32,
    },
    /// Mold to master: there are as many workers as this order has set, and all of them take requests.
    Settled {
        order: u32,
    },
    /// The other process has ended.
    End,
    /// No message is available now.
    None,
}

/// One end of the socket between master and mold.
#[derive(Debug)]
pub(super) struct Link(pub(super) OwnedFd);

impl Link {
    /// Returns the next message. Skips unknown messages, because the other process may be of a later version.
    pub(super) fn receive(&self) -> Received {
        loop {
            let mut byte = [0];
            let first = match recv(&self.0, &mut byte, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Received::End,
                Ok(_) => byte[0],
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return Received::None,
                Err(_) => return Received::End,
            };
            if first == WORKER_REQUEST {
                let mut bytes = [0; WorkerRequest::SIZE];
                // The sender has sent the request together with the first byte.
                match recv(&self.0, &mut bytes, RecvFlags::DONTWAIT).map(|_| WorkerRequest::from_bytes(bytes)) {
                    Ok(Some(request)) => return Received::WorkerRequest(request),
                    Ok(None) | Err(_) => continue,
                }
            }
            if first == SCALE {
                match (self.receive_number(), self.receive_number()) {
                    (Some(workers), Some(order)) => return Received::Scale { workers, order },
                    _ => continue,
                }
            }
            if first == SETTLED {
                match self.receive_number() {
                    Some(order) => return Received::Settled { order },
                    None => continue,
                }
            }
            if first == FAILURE {
                match self.receive_failure() {
                    Some(text) => return Received::Failure(text),
                    None => continue,
                }
            }
            if first == TIME {
                let mut digits = [0; DIGITS];
                let read = recv(&self.0, &mut digits, RecvFlags::DONTWAIT);
                let time = read.ok().and_then(|_| std::str::from_utf8(&digits).ok()?.parse().ok());
                match time {
                    Some(milliseconds) => return Received::TimeLeft(Duration::from_millis(milliseconds)),
                    None => continue,
                }
            }
            if let Some(message) = MESSAGES.into_iter().find(|known| *known as u8 == first) {
                return Received::Message(message);
            }
        }
    }

    /// Reads 32 bits that were sent together with the first byte of the message.
    fn receive_number(&self) -> Option<u32> {
        let mut bytes = [0; 4];
        recv(&self.0, &mut bytes, RecvFlags::DONTWAIT).ok()?;
        Some(u32::from_ne_bytes(bytes))
    }

    /// Reads the rest of a [`FAILURE`] message, which was sent together with its first byte.
    fn receive_failure(&self) -> Option<String> {
        let mut length = [0; 2];
        recv(&self.0, &mut length, RecvFlags::DONTWAIT).ok()?;
        let mut text = vec![0; usize::from(u16::from_le_bytes(length))];
        let (size, _) = recv(&self.0, text.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
        text.truncate(size);
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Sends the reason why this generation cannot serve.
    pub(super) fn send_failure(&self, text: &str) {
        let _ = send(&self.0, &failure(text), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Passes the request of an edge on to a mold.
    pub(super) fn pass_on(&self, request: WorkerRequest) {
        let mut bytes = [WORKER_REQUEST; 1 + WorkerRequest::SIZE];
        bytes[1..].copy_from_slice(&request.to_bytes());
        let _ = send(&self.0, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Commands a mold to stop, and sends the time left.
    pub(super) fn stop_within(&self, left: Duration) {
        let most = 10_u128.pow(DIGITS as u32) - 1;
        let message = format!("{}{:0DIGITS$}{}", TIME as char, left.as_millis().min(most), Message::Stop as u8 as char);
        let _ = send(&self.0, message.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Sends the target number of workers. `order` is the number that identifies this order.
    pub(super) fn scale(&self, workers: u32, order: u32) {
        let mut bytes = [SCALE; 9];
        bytes[1..5].copy_from_slice(&workers.to_ne_bytes());
        bytes[5..].copy_from_slice(&order.to_ne_bytes());
        let _ = send(&self.0, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Reports to the master that there are as many workers as this order has set.
    pub(super) fn send_settled(&self, order: u32) {
        let mut bytes = [SETTLED; 5];
        bytes[1..].copy_from_slice(&order.to_ne_bytes());
        let _ = send(&self.0, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Sends a message. Ignores errors: reading shows whether the other process has ended.
    pub(super) fn send(&self, message: Message) {
        let _ = send(&self.0, &[message as u8], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

/// The inheritance of a mold.
#[derive(Debug)]
pub(super) struct Inheritance {
    pub(super) master: Link,
    /// Empty if edges have the connections.
    pub(super) listeners: Vec<Listener>,
    /// The memory that workers share with edges; empty if there are none.
    pub(super) pools: Vec<Memory>,
    /// The file for the scoreboard.
    pub(super) board: Option<OwnedFd>,
    /// The certificates and keys of encrypted listeners.
    pub(super) vault: Option<Vault>,
    /// The file with the proofs for authorities in handshakes.
    pub(super) proof: Option<OwnedFd>,
    /// The number of loads of the app so far, including this one.
    pub(super) generation: u64,
}

/// Hides the descriptors that this process inherits from the master, or from the previous server, from programs that the app
/// starts while it is loaded. Such a program would hold the listeners until it ends, perhaps for days. If the process inherits
/// anything, also hides the variables that name the descriptors. A process that has a master ends if the master dies before the
/// app is loaded, because it would also hold the listeners for that time.
///
/// Should be called as early as possible. Otherwise [`supervise`](super::supervise) does it; but then, without a master, each
/// descriptor stays open twice.
pub fn claim_inheritance() {
    if claim_descriptors() {
        environment::hide(&OWN);
    }
}

/// Hides the descriptors. Returns whether the process inherits anything.
fn claim_descriptors() -> bool {
    let socket = |name: &str| variable(name).and_then(|value| number_of_master(&value));
    let (master, before) = (socket(MASTER), socket(UPGRADE));
    if master.is_none() && before.is_none() {
        return false;
    }
    environment::keep();
    if let Some((number, process)) = variable(MASTER).and_then(|value| socket_of_master(&value)) {
        end_with(process, number);
        let _ = survive_own_signals();
        // If the log has lost its reader, output of the app during its load must not kill this process.
        let _ = survive_failing_writes_while_loading();
    }
    if let Some(value) = variable(POOLS)
        && master.is_some()
    {
        claim_all(&value);
        outbox::claim_all();
    }
    let board = number_of_board().filter(|_| master.is_some());
    let vault = number_of_vault();
    let proof = number_of_line(PROOF).filter(|_| master.is_some());
    let lines = [SPANS, METRICS_REQUESTS].into_iter().filter_map(number_of_line).filter(|_| master.is_some());
    let guardian = socket(GUARDIAN).filter(|_| before.is_some());
    let file = |name: &str| variable(name).and_then(|value| value.parse().ok()).filter(|_| before.is_some());
    let totals = [TOTALS, ROUTE_TOTALS, APP_METRICS].into_iter().filter_map(file);
    let metrics = metrics_left().filter(|_| before.is_some()).map(|(_, listeners)| listeners);
    let values = variable(LISTENERS).into_iter().chain(metrics);
    let entries = values.filter_map(|value| parse(&value).ok()).flatten();
    let numbers = entries.flat_map(|entry| entry.numbers);
    for number in
        numbers.chain(board).chain(vault).chain(proof).chain(lines).chain(master).chain(before).chain(guardian).chain(totals)
    {
        // Errors are reported when the descriptors are taken over.
        let _ = claim(number);
    }
    true
}

/// Makes this process end when `master` dies before the app is loaded. `socket` is the descriptor of the socket to the master.
/// If the parent of this process is a wrapper and not the master, the death of the master after this call is noticed only when
/// the app is loaded.
fn end_with(master: i32, socket: i32) {
    if getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == master) {
        // An app that is being loaded may have changed the handlers of other signals.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    if has_hung_up(socket).unwrap_or(false) {
        exit_now(1);
    }
}

/// Whether a master has started this process.
#[must_use]
pub fn has_master() -> bool {
    variable(MASTER).is_some_and(|value| number_of_master(&value).is_some())
}

/// Returns the number of loads of the app so far, including this one.
fn number_of_generation() -> u64 {
    variable(GENERATION).and_then(|value| value.parse().ok()).unwrap_or(1)
}

/// Reports to the master why the app cannot be loaded. The process that loads the app calls this function and then ends. Does
/// nothing in a process without a master.
pub fn report_load_failure(text: &str) {
    if let Some(number) = variable(MASTER).and_then(|value| number_of_master(&value)) {
        // The log has the text as well.
        let _ = tell(number, &failure(text.trim_end()));
    }
}

/// Takes over the inheritance of this process. `None` without a master.
///
/// # Errors
/// There is a master, but its listeners cannot be used.
pub(super) fn inherit() -> Result<Option<Inheritance>, String> {
    claim_descriptors();
    let Some(master) = variable(MASTER).and_then(|value| find_master(&value)) else { return Ok(None) };
    let pools = inherit_pools(&variable(POOLS).unwrap_or_default())?;
    outbox::inherit();
    let listeners = if pools.is_empty() { inherit_listeners()? } else { Vec::new() };
    let generation = number_of_generation();
    let board = number_of_board().and_then(|number| adopt(number).ok());
    let vault = inherit_vault();
    let proof = number_of_line(PROOF).and_then(|number| adopt(number).ok());
    let line = |variable| number_of_line(variable).and_then(|number| adopt(number).ok());
    line(SPANS).into_iter().for_each(SpanSender::adopt);
    line(METRICS_REQUESTS).into_iter().for_each(MetricsClient::adopt);
    // The app is loaded, and running requests must be finished if the master dies. From now on the end of the socket shows the
    // death of the master.
    let _ = set_parent_process_death_signal(None);
    master.send(Message::Loaded);
    Ok(Some(Inheritance { master, listeners, pools, board, vault, proof, generation }))
}

/// Takes over the listeners that the environment names.
///
/// # Errors
/// A listener cannot be used; the message says which, and why.
pub(super) fn inherit_listeners() -> Result<Vec<Listener>, String> {
    adopt_listeners(&variable(LISTENERS).ok_or_else(|| format!("there is no {LISTENERS}"))?)
}

/// Takes over the metrics listeners of the previous server; returns their address and the listeners. `None` if there are no
/// such listeners, or if they cannot be used.
pub(super) fn inherit_metrics() -> Option<(String, Vec<Listener>)> {
    let (address, listeners) = metrics_left()?;
    let adopted = adopt_listeners(&listeners).inspect_err(|why| log::warn!("metrics: {why}; they are opened again")).ok()?;
    Some((address, adopted))
}

fn metrics_left() -> Option<(String, String)> {
    let value = variable(METRICS)?;
    // The description of listeners has no spaces, and the path of a socket may have some.
    value.rsplit_once(' ').map(|(address, listeners)| (address.to_owned(), listeners.to_owned()))
}

fn adopt_listeners(value: &str) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    for entry in parse(value)? {
        let ListenerEntry { numbers, display, server_name, lent, stored, protocol, proxy_protocol, offer, thumbprint } = entry;
        let adopt = |number: i32| {
            let failed = |why: String| format!("{LISTENERS}: descriptor {number}: {why}");
            let socket = adopt(number).map_err(|error| failed(error.to_string()))?;
            Listener::adopted(socket, "", protocol).map_err(failed)
        };
        let mut adopted = numbers.into_iter().map(adopt).collect::<Result<Vec<_>, String>>()?;
        let mut listener = adopted.remove(0);
        listener.add_sockets(adopted);
        (listener.display, listener.server_name) = (display, server_name);
        (listener.lent, listener.stored) = (lent, stored);
        listener.expect_greeting(proxy_protocol);
        listener.offer = offer;
        listener.thumbprint = thumbprint.map(Arc::from);
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Whether the previous server has started this process as its successor. Valid until the socket is inherited.
pub(super) fn is_upgrade() -> bool {
    variable(UPGRADE).is_some_and(|value| number_of_master(&value).is_some())
}

/// Returns the descriptor of the file for the scoreboard, as the environment names it.
fn number_of_board() -> Option<i32> {
    variable(BOARD)?.parse().ok()
}

/// Returns the descriptor of the file with the certificates and keys.
fn number_of_vault() -> Option<i32> {
    variable(VAULT)?.parse().ok()
}

/// Returns the descriptor that this variable names: a socket to another process of the server, or a file.
fn number_of_line(variable: &str) -> Option<i32> {
    environment::variable(variable)?.parse().ok()
}

/// Reads the certificates and keys that the master or the previous server has left for this process.
pub(super) fn inherit_vault() -> Option<Vault> {
    let file = adopt(number_of_vault()?).ok()?;
    Vault::open(file.as_fd())
}

/// Takes over the socket to the master. `None` if `value` names no such socket.
fn find_master(value: &str) -> Option<Link> {
    inherit_socket(value).map(|(socket, _)| Link(socket))
}

/// Takes over the socket that `value` names; returns it and the process id of its creator. `None` if there is no such socket.
pub(super) fn inherit_socket(value: &str) -> Option<(OwnedFd, i32)> {
    let number = number_of_master(value)?;
    Some((adopt(number).ok()?, peer(number).ok()?))
}

/// Returns the descriptor that `value` names, if the process that `value` names has created that socket. `None` otherwise: then
/// a program between the two processes has passed on the variable without the socket.
fn number_of_master(value: &str) -> Option<i32> {
    socket_of_master(value).map(|(number, _)| number)
}

/// Returns the descriptor that `value` names, and the process id of the creator of that socket.
fn socket_of_master(value: &str) -> Option<(i32, i32)> {
    let (number, process) = value.split_once(':')?;
    let (number, process) = (number.parse().ok()?, process.parse::<i32>().ok()?);
    peer(number).is_ok_and(|peer| peer == process).then_some((number, process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::Protocol;
    use oribi_edge::parent_link::Reason;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::{AsRawFd, IntoRawFd};

    #[test]
    fn a_socket_that_does_not_listen_is_refused() {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket is to be had");
        let message = Listener::adopted(socket, "", Protocol::Http).expect_err("it does not listen");
        assert_eq!(message, "the descriptor is not a listening socket");
    }

    #[test]
    fn messages_pass_and_the_end_is_noticed() {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("sockets are to be had");
        let (one, other) = (Link(one), Link(other));
        assert_eq!(other.receive(), Received::None);
        one.send(Message::Stop);
        send(&one.0, b"?", SendFlags::NOSIGNAL).expect("the other end is open");
        one.send(Message::Quit);
        assert_eq!(other.receive(), Received::Message(Message::Stop));
        assert_eq!(other.receive(), Received::Message(Message::Quit), "behind a message that is not known");
        let request = WorkerRequest { process: 0x7273_7871, reason: Reason::Broken };
        one.pass_on(request);
        one.send_failure("syntax error\nnear é");
        one.send_failure(&"é".repeat(LONGEST_FAILURE));
        one.scale(0x6e6e_6e65, 0x6e6e_6e3d);
        one.send_settled(0x6e6e_6e3d);
        one.send(Message::TerminationRequested);
        assert_eq!(other.receive(), Received::WorkerRequest(request));
        assert_eq!(other.receive(), Received::Failure("syntax error\nnear é".to_owned()));
        assert_eq!(other.receive(), Received::Failure("é".repeat(LONGEST_FAILURE / 2)), "as much as fits");
        assert_eq!(other.receive(), Received::Scale { workers: 0x6e6e_6e65, order: 0x6e6e_6e3d });
        assert_eq!(other.receive(), Received::Settled { order: 0x6e6e_6e3d });
        assert_eq!(other.receive(), Received::Message(Message::TerminationRequested));
        for (left, heard) in [(1500, 1500), (0, 0), (u64::MAX, 999_999_999_999)] {
            one.stop_within(Duration::from_millis(left));
            assert_eq!(other.receive(), Received::TimeLeft(Duration::from_millis(heard)));
            assert_eq!(other.receive(), Received::Message(Message::Stop));
        }
        drop(one);
        assert_eq!(other.receive(), Received::End);
        other.send(Message::Ready);
    }

    #[test]
    fn a_master_is_believed_only_if_it_made_the_socket() {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None).expect("sockets are to be had");
        let process = std::process::id();
        assert!(find_master(&format!("{}:{}", other.as_raw_fd(), process + 1)).is_none());
        assert!(find_master("nonsense").is_none());
        let number = one.into_raw_fd();
        assert!(find_master(&format!("{number}:{process}")).is_some());
        assert!(find_master(&format!("{number}:{process}")).is_none(), "it has been taken over already");
    }
}
