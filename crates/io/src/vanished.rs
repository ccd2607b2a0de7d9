//! Finds out that the peer of a connection has vanished, by probes of TCP (SO_KEEPALIVE).

use rustix::io::Result;
use rustix::net::sockopt;
use std::os::fd::AsFd;
use std::time::Duration;

/// The silence after which the peer is probed.
const SILENCE: Duration = Duration::from_secs(60);

/// The time between two probes.
const INTERVAL: Duration = Duration::from_secs(15);

/// The number of probes without an answer that end the connection.
const PROBES: u32 = 4;

/// Makes a connection fail two minutes after its peer has vanished without an end: for connections that may be silent for any
/// time. A peer that is there answers the probes without its program. A Unix socket stays as it is: its peer cannot vanish.
pub fn notice_vanished_peer(socket: impl AsFd) {
    // Only sockets of other kinds, and connections that have ended already, refuse.
    let _ = probe(socket);
}

fn probe(socket: impl AsFd) -> Result<()> {
    sockopt::set_tcp_keepidle(&socket, SILENCE)?;
    sockopt::set_tcp_keepintvl(&socket, INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, PROBES)?;
    sockopt::set_socket_keepalive(&socket, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_silent_peer_is_probed_from_the_first_minute_to_the_second() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (server, _) = listener.accept().expect("it has connected");
        for socket in [client, server] {
            assert_eq!(sockopt::socket_keepalive(&socket), Ok(false));
            notice_vanished_peer(&socket);
            let times = (sockopt::tcp_keepidle(&socket), sockopt::tcp_keepintvl(&socket), sockopt::tcp_keepcnt(&socket));
            assert_eq!(sockopt::socket_keepalive(&socket), Ok(true));
            assert_eq!(times, (Ok(Duration::from_secs(60)), Ok(Duration::from_secs(15)), Ok(4)));
        }
    }

    #[test]
    fn a_unix_socket_stays_as_it_is() {
        let (socket, _peer) = UnixStream::pair().expect("sockets are there");
        notice_vanished_peer(&socket);
        assert_eq!(sockopt::socket_keepalive(&socket), Ok(false));
    }
}
