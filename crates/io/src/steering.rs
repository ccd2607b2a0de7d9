//! Choosing the socket that a connection arrives at by the processor that has received it, for the study of I/O models.

use crate::closing::{attach, instruction};
use std::io;
use std::os::fd::AsFd;

/// Where the kernel keeps what is no part of a packet: linux/filter.h.
const ANCILLARY: u32 = (-0x1000_i32) as u32;
const PROCESSOR: u32 = ANCILLARY + 36;
const RANDOM: u32 = ANCILLARY + 56;

/// Has the kernel choose among `sockets` TCP sockets that listen at one address (SO_REUSEPORT), by the processor that has received
/// the first segment of a connection: the one at place `n` of `processors` leads to socket `n`, or, if there are fewer sockets, to
/// `n` modulo their number; if there are more, chance decides among those whose number modulo that of the processors is `n`. Others
/// lead to the first socket. Any of the sockets may be given; their numbers follow the order in which they began to listen.
///
/// # Errors
/// The system's refusal, or more processors than a program has room for.
pub fn steer_by_processor(socket: impl AsFd, sockets: usize, processors: &[usize]) -> io::Result<()> {
    let too_many = || io::Error::from(io::ErrorKind::InvalidInput);
    let number = |value: usize| u32::try_from(value).map_err(|_| too_many());
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, PROCESSOR)];
    for (place, &processor) in processors.iter().enumerate() {
        let first = place % sockets.max(1);
        let choices = sockets.saturating_sub(first).div_ceil(processors.len()).max(1);
        let chosen = if choices == 1 {
            vec![instruction(libc::BPF_RET | libc::BPF_K, 0, 0, number(first)?)]
        } else {
            vec![
                instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, RANDOM),
                instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, number(choices)?),
                instruction(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, 0, 0, number(processors.len())?),
                instruction(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K, 0, 0, number(first)?),
                instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
            ]
        };
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, chosen.len() as u8, number(processor)?));
        program.extend(chosen);
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0));
    attach(socket.as_fd(), libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketAddrV4, SocketFlags, SocketType, sockopt};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::net::{Ipv4Addr, TcpStream};
    use std::os::fd::OwnedFd;

    fn listener(port: u16) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket");
        sockopt::set_socket_reuseport(&socket, true).expect("it is TCP");
        rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).expect("it is free");
        rustix::net::listen(&socket, 100).expect("it is bound");
        socket
    }

    #[test]
    fn connections_go_where_their_processor_leads() {
        let all = sched_getaffinity(None).expect("it is known");
        let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor)).take(8).collect();
        for count in [1, 2, 3, 5] {
            let first = listener(0);
            let address = rustix::net::getsockname(&first).and_then(std::net::SocketAddr::try_from).expect("it is bound");
            let sockets: Vec<OwnedFd> = std::iter::once(first).chain((1..count).map(|_| listener(address.port()))).collect();
            steer_by_processor(&sockets[0], count, &processors).expect("no privilege is needed");
            for (place, &processor) in processors.iter().enumerate() {
                let mut only = CpuSet::new();
                only.set(processor);
                sched_setaffinity(None, &only).expect("it is one of ours");
                let clients: Vec<_> = (0..40).map(|_| TcpStream::connect(address).expect("it listens")).collect();
                for (number, socket) in sockets.iter().enumerate() {
                    let taken = std::iter::from_fn(|| rustix::net::accept(socket).ok()).count();
                    let leads = number == place % count || (count > processors.len() && number % processors.len() == place);
                    assert_eq!(taken > 0, leads, "processor {place} of {}, socket {number} of {count}", processors.len());
                }
                assert_eq!(clients.len(), 40);
            }
            sched_setaffinity(None, &all).expect("it was so before");
        }
    }
}
