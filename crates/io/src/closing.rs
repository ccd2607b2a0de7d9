//! Turns new connections away while those that have arrived can still be accepted.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Makes the kernel ignore new connections to a listening TCP socket. Handshakes that have begun are still completed and
/// queued, so a server that stops can empty the queue and lose no client. A client that is ignored tries again a second later
/// and then finds the port closed.
///
/// The filter belongs to the socket, hence to every process that shares it. On a Unix socket this is an error.
///
/// # Errors
/// An error of the system.
pub fn ignore_new_connections(listener: impl AsFd) -> io::Result<()> {
    const FLAGS_OFFSET: u32 = 13; // of a TCP header: RFC 9293, section 3.1
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    // A segment that opens a connection has SYN without ACK. The kernel runs the program on the TCP header.
    let program = [
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, FLAGS_OFFSET),
        instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, SYN | ACK),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, SYN),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ];
    attach(listener.as_fd(), &program)
}

/// Makes the kernel refuse new connections to a listening TCP socket: clients get the refusal of a closed port at once.
/// Handshakes that have begun are still completed and queued. This is for systems that permit only administrators to use
/// filters, as some kernels do.
///
/// The socket is bound to a network interface that does not exist, so no packet that opens a connection finds it. Since Linux
/// 5.7 this needs no privilege. On a Unix socket it has no effect.
///
/// # Errors
/// An error of the system.
pub fn refuse_new_connections(listener: impl AsFd) -> io::Result<()> {
    // The kernel counts interfaces from 1 on.
    const NO_INTERFACE: libc::c_int = libc::c_int::MAX;
    set_option(listener.as_fd(), libc::SO_BINDTOIFINDEX, &NO_INTERFACE)
}

/// Attaches a program of the classic packet filter to a socket.
fn attach(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel only reads the program, although the type of the pointer allows writing.
    let argument = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    set_option(socket, libc::SO_ATTACH_FILTER, &argument)
}

/// Sets an option of a socket. The argument has the type `T`; pointers in it must be valid during the call.
fn set_option<T>(socket: BorrowedFd<'_>, option: libc::c_int, argument: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the argument has, and both callers pass the type that their option takes, with
    // valid pointers. The descriptor is borrowed, so it is open during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const *argument).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const fn instruction(code: u32, when_true: u8, when_false: u8, operand: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: when_true, jf: when_false, k: operand }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// The early client of `listener` is served, and others are turned away.
    fn takes_only(mut early: TcpStream, listener: &TcpListener) {
        let (mut accepted, _) = listener.accept().expect("the early one waits");
        early.write_all(b"request").expect("connected");
        let mut received = [0; 7];
        accepted.read_exact(&mut received).expect("data passes");
        accepted.write_all(b"reply").expect("connected");
        let mut received = [0; 5];
        early.read_exact(&mut received).expect("data passes");
        listener.set_nonblocking(true).expect("it is open");
        assert_eq!(listener.accept().expect_err("nobody else came").kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn what_has_arrived_is_taken_and_what_comes_later_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let early = TcpStream::connect(address).expect("the queue has room");
        match ignore_new_connections(&listener) {
            Ok(()) => drop(TcpStream::connect_timeout(&address, Duration::from_millis(50)).expect_err("nobody answers")),
            // Some kernels permit it only to administrators.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
        takes_only(early, &listener);
    }

    #[test]
    fn without_a_filter_what_comes_later_is_refused() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).expect("loopback is there");
            let address = listener.local_addr().expect("it is bound");
            let early = TcpStream::connect(address).expect("the queue has room");
            refuse_new_connections(&listener).expect("no privilege is needed");
            let late = TcpStream::connect(address).expect_err("nobody listens");
            assert_eq!(late.kind(), io::ErrorKind::ConnectionRefused);
            takes_only(early, &listener);
        }
    }
}
