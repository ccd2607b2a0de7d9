//! The lower limit of cost with io_uring: a loop that answers every request with the bytes of the native host, but parses
//! nothing and has no deadlines. It uses the same means as the backend: receives that stay armed and take provided buffers, and
//! sends that leave together with the next wait. `bare_uring ADDRESS [--body BYTES] [--close] [--pipelined] [--registered]`:
//! with `--registered`, sockets are registered with the ring.

mod bare;

use bare::{Answers, Heads, Options};
use io_uring::types::{BufRingEntry, Fd, Fixed};
use io_uring::{IoUring, cqueue, opcode, squeue};
use memchr::memmem::Finder;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

const BUFFERS: u16 = 64;
const BUFFER_BYTES: usize = 4096;
/// Registered sockets, with `--registered`.
const PLACES: u32 = 16 << 10;
/// The kind of an operation, above the socket's number.
const ACCEPT: u64 = 1 << 32;
const RECEIVE: u64 = 2 << 32;
const SEND: u64 = 3 << 32;
const CLOSE: u64 = 4 << 32;
/// The ring waits for room until everything is sent.
const WHOLE: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;

fn main() -> io::Result<()> {
    let options = Options::from_command_line(true);
    let listener = options.listen()?;
    Server::new(&options, listener)?.serve()
}

/// The start of the ring of provided buffers: aligned to a page, as the kernel demands.
#[repr(C, align(4096))]
struct Entries([u8; BUFFERS as usize * size_of::<BufRingEntry>()]);

/// Buffers that the kernel receives into. They are never freed.
struct Buffers {
    entries: *mut BufRingEntry,
    bytes: *mut u8,
    tail: u16,
}

impl Buffers {
    fn register(ring: &IoUring) -> io::Result<Buffers> {
        let entries = Box::leak(Box::new(Entries([0; BUFFERS as usize * size_of::<BufRingEntry>()])));
        let entries = (&raw mut *entries).cast::<BufRingEntry>();
        let bytes = Box::leak(vec![0_u8; BUFFERS as usize * BUFFER_BYTES].into_boxed_slice()).as_mut_ptr();
        // SAFETY: entries and buffers are leaked, so they outlive the ring.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, BUFFERS, 0, 0)? };
        let mut buffers = Buffers { entries, bytes, tail: 0 };
        (0..BUFFERS).for_each(|number| buffers.provide(number));
        Ok(buffers)
    }

    /// Gives a buffer to the kernel.
    fn provide(&mut self, number: u16) {
        // SAFETY: the index stays below the number of entries, and the kernel reads an entry only once the tail has passed it.
        unsafe {
            let entry = &mut *self.entries.add((self.tail & (BUFFERS - 1)) as usize);
            entry.set_addr(self.bytes.add(number as usize * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
            self.tail = self.tail.wrapping_add(1);
            (*BufRingEntry::tail(self.entries).cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }

    /// The bytes that the kernel has put into a buffer that has not been provided again.
    fn received(&self, number: u16, count: usize) -> &[u8] {
        // SAFETY: the buffer lies inside the allocation, and the kernel has written `count` bytes into it and does not use it
        // until it is provided again.
        unsafe { std::slice::from_raw_parts(self.bytes.add(number as usize * BUFFER_BYTES), count.min(BUFFER_BYTES)) }
    }
}

#[derive(Clone, Copy, Default)]
struct Connection {
    heads: Heads,
    /// Bytes of answers that are still to be sent, including those being sent.
    left: usize,
    /// Bytes being sent, if the ring reports their completion.
    on_their_way: usize,
}

struct Server<'a> {
    options: &'a Options,
    listener: OwnedFd,
    ring: IoUring,
    buffers: Buffers,
    answers: Answers,
    /// By descriptor or place.
    connections: Vec<Connection>,
    /// The answers are so large that a socket may not take one at once: then the next answer must wait until the last one has
    /// been sent.
    large: bool,
}

impl<'a> Server<'a> {
    fn new(options: &'a Options, listener: OwnedFd) -> io::Result<Self> {
        let ring: IoUring =
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(4096).build(256)?;
        // The ring waits by itself; with a non-blocking socket each attempt would fail.
        rustix::io::ioctl_fionbio(&listener, false)?;
        let buffers = Buffers::register(&ring)?;
        if options.registered {
            ring.submitter().register_files_sparse(PLACES)?;
        }
        let answers = Answers::new(options);
        let large = answers.bytes.len() > 64 << 10;
        Ok(Server { options, listener, ring, buffers, answers, connections: Vec::new(), large })
    }

    fn serve(&mut self) -> io::Result<()> {
        let finder = Finder::new(b"\r\n\r\n");
        let mut completions: Vec<cqueue::Entry> = Vec::with_capacity(4096);
        self.accept()?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            completions.extend(self.ring.completion());
            for completion in completions.drain(..) {
                let (what, socket) = (completion.user_data() & !0xffff_ffff, completion.user_data() as u32);
                match what {
                    ACCEPT => self.accepted(&completion)?,
                    RECEIVE => self.received(socket, &completion, &finder)?,
                    SEND => self.sent(socket, completion.result())?,
                    // Cancelled, because the send before it has failed.
                    _ if completion.result() == -libc::ECANCELED => self.close(socket, squeue::Flags::empty())?,
                    _ => {}
                }
            }
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the memory to which entries point, the answers and the provided buffers, stays in place as long as the
        // ring.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        let listener = Fd(self.listener.as_raw_fd());
        let accept = opcode::AcceptMulti::new(listener).allocate_file_index(self.options.registered).build();
        self.push(&accept.user_data(ACCEPT))
    }

    fn accepted(&mut self, completion: &cqueue::Entry) -> io::Result<()> {
        if let Ok(socket) = u32::try_from(completion.result()) {
            if self.connections.len() <= socket as usize {
                self.connections.resize(socket as usize + 1, Connection::default());
            }
            self.connections[socket as usize] = Connection::default();
            self.receive(socket)?;
        }
        if cqueue::more(completion.flags()) { Ok(()) } else { self.accept() }
    }

    /// Arms a receive that stays armed. If the connection is closed after the answer, arms a receive for once, because one that
    /// stays armed would delay the close.
    fn receive(&mut self, socket: u32) -> io::Result<()> {
        let entry = match (self.options.close, self.options.registered) {
            (false, false) => opcode::RecvMulti::new(Fd(socket as i32), 0).build(),
            (false, true) => opcode::RecvMulti::new(Fixed(socket), 0).build(),
            (true, false) => opcode::Recv::new(Fd(socket as i32), std::ptr::null_mut(), 0)
                .buf_group(0)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
            (true, true) => opcode::Recv::new(Fixed(socket), std::ptr::null_mut(), 0)
                .buf_group(0)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
        };
        self.push(&entry.user_data(RECEIVE | u64::from(socket)))
    }

    fn received(&mut self, socket: u32, completion: &cqueue::Entry, finder: &Finder<'_>) -> io::Result<()> {
        let result = completion.result();
        let mut requests = 0;
        if let Some(number) = cqueue::buffer_select(completion.flags()) {
            let received = self.buffers.received(number, result.max(0) as usize);
            requests = self.connections[socket as usize].heads.count(self.options, finder, received);
            self.buffers.provide(number);
        }
        if result <= 0 && result != -libc::ENOBUFS {
            return self.close(socket, squeue::Flags::SKIP_SUCCESS);
        }
        self.connections[socket as usize].left += requests * self.answers.each;
        if requests > 0 {
            self.send(socket)?;
        }
        let armed = cqueue::more(completion.flags());
        if armed || (self.options.close && requests > 0) { Ok(()) } else { self.receive(socket) }
    }

    fn send(&mut self, socket: u32) -> io::Result<()> {
        loop {
            let connection = &mut self.connections[socket as usize];
            if connection.left == 0 || connection.on_their_way > 0 {
                return Ok(());
            }
            let bytes = self.answers.next(connection.left);
            let (address, length) = (bytes.as_ptr(), bytes.len() as u32);
            let last = bytes.len() == connection.left;
            let mut flags = squeue::Flags::empty();
            if self.large {
                connection.on_their_way = bytes.len();
            } else {
                connection.left -= bytes.len();
                flags |= squeue::Flags::SKIP_SUCCESS;
            }
            let entry = if self.options.registered {
                opcode::Send::new(Fixed(socket), address, length).flags(WHOLE).build()
            } else {
                opcode::Send::new(Fd(socket as i32), address, length).flags(WHOLE).build()
            };
            let entry = entry.flags(flags).user_data(SEND | u64::from(socket));
            if self.options.close && last {
                self.push(&entry.flags(squeue::Flags::IO_LINK))?;
                return self.close(socket, squeue::Flags::SKIP_SUCCESS);
            }
            self.push(&entry)?;
        }
    }

    /// Handles the completion of a send. Only large sends and failed sends report it; after a failed send, the receive finds
    /// that the connection is broken.
    fn sent(&mut self, socket: u32, result: i32) -> io::Result<()> {
        let connection = &mut self.connections[socket as usize];
        connection.left = if result > 0 { connection.left.saturating_sub(result as usize) } else { 0 };
        connection.on_their_way = 0;
        self.send(socket)
    }

    fn close(&mut self, socket: u32, flags: squeue::Flags) -> io::Result<()> {
        let close = if self.options.registered {
            opcode::Close::new(Fixed(socket)).build()
        } else {
            opcode::Close::new(Fd(socket as i32)).build()
        };
        self.push(&close.flags(flags).user_data(CLOSE | u64::from(socket)))
    }
}
