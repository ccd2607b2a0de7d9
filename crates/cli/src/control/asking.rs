//! Sends an order to the control socket of a server, and reads the response, within a time.

use crate::trouble::Trouble;
use oribi_control_api::Order;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time that a server may take for a response that needs no work. The server reads its control socket between two waits for
/// events, and may be busy with a fork before that.
const PROMPT: Duration = Duration::from_secs(10);

/// The longest response that is read, in bytes: a server with thousands of workers needs less.
const ANSWER: u64 = 16 << 20;

/// The shortest time for a read. A timeout of zero would mean no timeout.
const MOMENT: Duration = Duration::from_millis(1);

/// Sends an order and reads the response. Orders that wait for an operation have all the time that it takes.
///
/// # Errors
/// The server cannot be reached, or does not answer in time.
pub fn ask(path: &Path, order: &Order) -> Result<String, Trouble> {
    ask_within(path, order, PROMPT, !order.waits())
}

/// As [`ask`], in at most `time`. Unless `all` is set, the time limits only the connection, and not the wait for the response.
///
/// # Errors
/// As for [`ask`].
pub fn ask_within(path: &Path, order: &Order, time: Duration, all: bool) -> Result<String, Trouble> {
    let begun = Instant::now();
    let failed = |what: &str, error: &io::Error| Trouble::failure(format!("{}: {what}: {error}", path.display()));
    let late = || Trouble::failure(format!("{}: the server has not answered within {time:?}", path.display()));
    let mut stream = match reach(path, time) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(late()),
        Err(error) => return Err(failed("cannot reach the server", &error)),
    };
    let left = time.saturating_sub(begun.elapsed()).max(MOMENT);
    let limits = [stream.set_read_timeout(all.then_some(left)), stream.write_all(format!("{order}\n").as_bytes())];
    for limit in limits {
        // A server that refuses a client may already have closed the connection; the reason can still be read.
        if let Err(error) = limit
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(failed("cannot send the order to the server", &error));
        }
    }
    let mut answer = String::new();
    let mut reader = BufReader::new(stream.take(ANSWER));
    match reader.read_line(&mut answer) {
        Ok(_) if answer.ends_with('\n') => {}
        Ok(_) => return Err(Trouble::failure(format!("{}: the server has ended without an answer", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(late()),
        Err(error) => return Err(failed("no answer arrived", &error)),
    }
    // When a server stops, its connection ends with its process.
    let _ = reader.read_to_end(&mut Vec::new());
    Ok(answer)
}

/// Connects within a time. A server that hangs accepts no clients: when its queue is full, connecting waits.
fn reach(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // This timeout is also that of writes, and of connect (unix(7), socket(7)).
    set_socket_timeout(&socket, Timeout::Send, Some(time))?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
