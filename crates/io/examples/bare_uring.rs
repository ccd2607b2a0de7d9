//! The physical limit of io_uring: a loop that answers whatever is received with the same bytes and parses nothing, by the same
//! means as the backend: receives that stay armed and take provided buffers, sends that leave together with the next wait.
//! `bare_uring PORT [fixed]`: with `fixed`, sockets are registered with the ring.

use io_uring::types::{BufRingEntry, Fd, Fixed};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\nHello World";
const BUFFERS: u16 = 64;
const BUFFER_BYTES: usize = 4096;
const ACCEPT: u64 = u64::MAX;
const SEND: u64 = 1 << 63;

/// Where the ring of provided buffers begins: aligned to a page, as the kernel demands.
#[repr(C, align(4096))]
struct Entries([u8; BUFFERS as usize * size_of::<BufRingEntry>()]);

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(5000);
    let fixed = std::env::args().nth(2).as_deref() == Some("fixed");
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let mut ring: IoUring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(4096).build(256)?;
    let entries = Box::leak(Box::new(Entries([0; BUFFERS as usize * size_of::<BufRingEntry>()])));
    let base = (&raw mut *entries).cast::<BufRingEntry>();
    let buffers = Box::leak(vec![0_u8; BUFFERS as usize * BUFFER_BYTES].into_boxed_slice()).as_mut_ptr();
    // SAFETY: entries and buffers are leaked, so they outlive the ring.
    unsafe { ring.submitter().register_buf_ring_with_flags(base as u64, BUFFERS, 0, 0)? };
    let mut tail = 0_u16;
    let mut provide = |number: u16| {
        // SAFETY: the index stays below the number of entries, and the kernel reads an entry only once the tail has passed it.
        unsafe {
            let entry = &mut *base.add((tail & (BUFFERS - 1)) as usize);
            entry.set_addr(buffers.add(number as usize * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
            tail = tail.wrapping_add(1);
            (*BufRingEntry::tail(base).cast::<AtomicU16>()).store(tail, Ordering::Release);
        }
    };
    (0..BUFFERS).for_each(&mut provide);
    if fixed {
        ring.submitter().register_files_sparse(1024)?;
    }
    let push = |ring: &mut IoUring, entry: &squeue::Entry| {
        // SAFETY: what entries point to is static or leaked.
        while unsafe { ring.submission().push(entry) }.is_err() {
            ring.submit()?;
        }
        io::Result::Ok(())
    };
    let accept = if fixed {
        opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).allocate_file_index(true).build()
    } else {
        opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build()
    };
    push(&mut ring, &accept.user_data(ACCEPT))?;
    let receive = |socket: i32| {
        let entry = if fixed {
            opcode::RecvMulti::new(Fixed(socket as u32), 0).build()
        } else {
            opcode::RecvMulti::new(Fd(socket), 0).build()
        };
        entry.user_data(socket as u64)
    };
    let send = |socket: i32| {
        let (buffer, size, flags) =
            (ANSWER.as_ptr(), ANSWER.len() as u32, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL);
        let entry = if fixed {
            opcode::Send::new(Fixed(socket as u32), buffer, size).flags(flags).build()
        } else {
            opcode::Send::new(Fd(socket), buffer, size).flags(flags).build()
        };
        entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(SEND | socket as u64)
    };
    let mut completions: Vec<cqueue::Entry> = Vec::with_capacity(4096);
    loop {
        ring.submit_and_wait(1)?;
        completions.extend(ring.completion());
        for completion in completions.drain(..) {
            let (name, result) = (completion.user_data(), completion.result());
            if name == ACCEPT {
                push(&mut ring, &receive(result))?;
                continue;
            }
            if name & SEND != 0 {
                continue;
            }
            if let Some(number) = cqueue::buffer_select(completion.flags()) {
                provide(number);
            }
            let socket = name as i32;
            if result > 0 {
                push(&mut ring, &send(socket))?;
                if !cqueue::more(completion.flags()) {
                    push(&mut ring, &receive(socket))?;
                }
            } else if result == -libc::ENOBUFS {
                push(&mut ring, &receive(socket))?;
            } else {
                let close = if fixed {
                    opcode::Close::new(Fixed(socket as u32)).build()
                } else {
                    opcode::Close::new(Fd(socket)).build()
                };
                push(&mut ring, &close.flags(squeue::Flags::SKIP_SUCCESS).user_data(SEND))?;
            }
        }
    }
}
