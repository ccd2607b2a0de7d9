//! Finds TCP handshakes in progress: the kernel has answered the client, but the client's acknowledgement has not arrived. Such
//! a connection cannot be accepted yet, and closing the listener now would reset the connection.
//!
//! No option of a listening socket reports such handshakes. The kernel keeps them in one table with all connections, and
//! returns those of a port over netlink: sock_diag(7), which needs no privilege. The same table as text, in `/proc/net`, takes
//! much longer with many connections (100,000: 280 ms instead of 19 ms). It is the fallback without netlink, as under a seccomp
//! filter or `RestrictAddressFamilies=`.

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::fs;

/// SYN-RECEIVED, one of the states in the kernel's `tcp_states.h`.
const SYN_RECEIVED: u8 = 3;

/// Whether a handshake is in progress at one of `ports`. `false` if the kernel does not say.
pub(super) fn begun(ports: &[u16]) -> bool {
    // An IPv4 client at a socket for both families appears in the IPv6 table.
    let families = [AddressFamily::INET, AddressFamily::INET6];
    let mut questions = families.iter().flat_map(|&family| ports.iter().map(move |&port| (family, port)));
    questions.try_fold(false, |begun, (family, port)| Ok(begun || begun_at(family, port)?)).unwrap_or_else(|_: Errno| {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        tables.iter().any(|table| fs::read_to_string(table).is_ok_and(|text| shows(&text, ports)))
    })
}

/// Asks the kernel whether a handshake is in progress at `port`. The answer is available once the question has been sent, and
/// the first message of the answer suffices.
fn begun_at(family: AddressFamily, port: u16) -> Result<bool, Errno> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    sendto(&socket, &question(family, port), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 4096];
    let (size, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    understand(&answer[..size]).ok_or(Errno::PROTO)
}

/// Message types: `linux/netlink.h`, `linux/sock_diag.h`.
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// The offset of the type in the header of a message, after its length.
const TYPE: usize = 4;

/// Returns a `struct nlmsghdr` and a `struct inet_diag_req_v2` that asks for all sockets at `port` with a handshake in
/// progress.
fn question(family: AddressFamily, port: u16) -> [u8; 72] {
    const NLM_F_REQUEST_AND_DUMP: u16 = 0x301;
    const IPPROTO_TCP: u8 = 6;
    let mut message = [0; 72];
    message[..4].copy_from_slice(&72_u32.to_ne_bytes());
    message[TYPE..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST_AND_DUMP.to_ne_bytes());
    message[16] = family.as_raw() as u8;
    message[17] = IPPROTO_TCP;
    message[20..24].copy_from_slice(&(1_u32 << SYN_RECEIVED).to_ne_bytes());
    message[24..26].copy_from_slice(&port.to_be_bytes());
    message
}

/// Whether the first message of an answer describes a socket; `None` if the kernel does not support the question.
fn understand(answer: &[u8]) -> Option<bool> {
    match u16::from_ne_bytes(answer.get(TYPE..TYPE + 2)?.try_into().ok()?) {
        SOCK_DIAG_BY_FAMILY => Some(true),
        NLMSG_DONE => Some(false),
        _ => None,
    }
}

/// Whether one of the kernel's tables in proc(5) shows a handshake.
fn shows(table: &str, ports: &[u16]) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let port = fields.next().and_then(|address| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok());
        let state = fields.nth(1).and_then(|state| u8::from_str_radix(state, 16).ok());
        state == Some(SYN_RECEIVED) && port.is_some_and(|port| ports.contains(&port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_handshake_is_seen_at_its_port_and_while_it_lasts() {
        let line = |address: &str, state: &str| {
            format!(
                "  sl  local_address rem_address   st tx_queue\n   0: {address} 0100007F:C350 {state} 00000000:00000000 01:00000063\n"
            )
        };
        assert!(shows(&line("0100007F:1388", "03"), &[80, 5000]));
        assert!(shows(&line("00000000000000000000000001000000:1388", "03"), &[5000]));
        assert!(!shows(&line("0100007F:1388", "01"), &[5000]), "it is over");
        assert!(!shows(&line("0100007F:1388", "03"), &[80]), "it is another server's");
        assert!(!begun(&[]));
    }

    #[test]
    fn the_kernel_is_asked_without_privileges_and_tells_of_none_where_all_are_over() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let _client = TcpStream::connect(address).expect("it listens");
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            assert_eq!(begun_at(family, address.port()), Ok(false));
        }
    }

    #[test]
    fn a_refusal_of_the_kernel_is_no_answer() {
        const NLMSG_ERROR: u16 = 2;
        let answer = |kind: u16| {
            let mut message = [0; 20];
            message[TYPE..6].copy_from_slice(&kind.to_ne_bytes());
            understand(&message)
        };
        assert_eq!([SOCK_DIAG_BY_FAMILY, NLMSG_DONE, NLMSG_ERROR].map(answer), [Some(true), Some(false), None]);
        assert_eq!(understand(&[]), None);
    }
}
