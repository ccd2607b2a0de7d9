//! The rings shared with the kernel: operations go into one, their results come from the other.
//!
//! Completions are delivered only while this thread is inside [`Ring::enter`] (`DEFER_TASKRUN`): between two calls the kernel
//! touches none of the memory given to it. Everything here depends on that.
#![allow(unsafe_code)]

use super::address::Address;
use super::buffers::{Buffers, GROUP};
use super::lent::Lent;
use super::refusal::Refusal;
use crate::Peer;
use io_uring::register::Restriction;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The most operations that one system call hands over. More take several calls.
const OPERATIONS: u32 = 256;

/// Completions that fit their ring; the kernel keeps any further ones.
const COMPLETIONS: u32 = 4096;

/// Room for bytes that the next call sends. A loop over 64 connections that answers each with 2 KiB fits.
pub(super) const OUTGOING_BYTES: usize = 128 << 10;

/// The most accepts that may be armed at once.
pub(super) const ACCEPTS: usize = 32;

/// The most tries to hand operations over before the kernel's refusal counts as a failure. One call takes all of them unless
/// memory is short.
const MOST_TRIES: usize = 1000;

/// `IORING_ENTER_GETEVENTS` and `IORING_ENTER_EXT_ARG` (linux/io_uring.h), which the crate does not export.
const GET_EVENTS: u32 = 1;
const EXTENDED_ARGUMENT: u32 = 1 << 3;

/// The rings, and the memory that the kernel uses for them.
pub(super) struct Ring {
    // Declared before the memory that it uses, so it is dropped first: when the ring is gone, so are its operations.
    ring: IoUring,
    pub(super) buffers: Buffers,
    /// Bytes to be sent. Its capacity never changes, so nothing in it moves.
    outgoing: Vec<u8>,
    /// The peer addresses of accepted connections.
    addresses: Lent<[Address; ACCEPTS]>,
}

/// The result of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    /// The operation's name.
    pub(super) name: u64,
    /// A count, a set of flags, or a negative error number.
    pub(super) result: i32,
    /// The number of the provided buffer that was used.
    pub(super) buffer: Option<u16>,
    /// The operation stays armed.
    pub(super) more: bool,
    /// After a receive: the socket has more bytes.
    pub(super) rest: bool,
}

impl Ring {
    pub(super) fn new() -> Result<Self, Refusal> {
        Self::with_room_for(COMPLETIONS, false)
    }

    /// Creates a ring that accepts only the operations of this file, and permits no further registration.
    pub(super) fn restricted() -> Result<Self, Refusal> {
        Self::with_room_for(COMPLETIONS, true)
    }

    fn with_room_for(completions: u32, restricted: bool) -> Result<Self, Refusal> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all().setup_cqsize(completions);
        if restricted {
            // The ring does nothing until it is enabled, and can be restricted only before that.
            builder.setup_r_disabled();
        }
        let ring: IoUring = builder.build(OPERATIONS).map_err(Refusal::of)?;
        let features = ring.params();
        if !features.is_feature_ext_arg() || !features.is_feature_nodrop() || !features.is_feature_skip_cqe_on_success() {
            return Err(Refusal::Old("a feature that deferred task work came with"));
        }
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(Refusal::Other)?;
        if let Some(operation) = missing(|code| probe.is_supported(code)) {
            return Err(Refusal::Old(operation));
        }
        let mut buffers = Buffers::new();
        // SAFETY: the fields of a structure are dropped in the order of their declaration: the ring before the buffers. If this
        // function fails, the buffers are dropped before the ring. Then nothing uses the buffers, because no receive was handed
        // over.
        unsafe { buffers.register(&ring) }.map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => Refusal::Old("rings of provided buffers"),
            Some(libc::ENOMEM) => Refusal::Memory(error),
            _ => Refusal::Other(error),
        })?;
        if restricted {
            let flags = squeue::Flags::BUFFER_SELECT | squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS;
            let mut allowed = vec![Restriction::sqe_flags_allowed(flags.bits())];
            allowed.extend(NEEDED.map(|(code, _)| Restriction::sqe_op(code)));
            let submitter = ring.submitter();
            submitter
                .register_restrictions(&mut allowed)
                .and_then(|()| submitter.register_enable_rings())
                .map_err(Refusal::Other)?;
        }
        Ok(Self { ring, buffers, outgoing: Vec::with_capacity(OUTGOING_BYTES), addresses: Lent::new(Box::default()) })
    }

    /// Receives from `socket` into a provided buffer; with `again`, into one buffer after the other until a receive fails, the
    /// peer ends its side or the buffers run out.
    pub(super) fn receive(&mut self, socket: RawFd, again: bool, name: u64) -> io::Result<()> {
        let entry = if again {
            opcode::RecvMulti::new(Fd(socket), GROUP).build()
        } else {
            let once = opcode::Recv::new(Fd(socket), std::ptr::null_mut(), 0).buf_group(GROUP).build();
            once.flags(squeue::Flags::BUFFER_SELECT)
        };
        self.push(&entry.user_data(name))
    }

    /// Accepts a connection from `listener`. `place`, below [`ACCEPTS`], is the index of the room for the peer's address.
    pub(super) fn accept(&mut self, listener: RawFd, place: usize, name: u64) -> io::Result<()> {
        assert!(place < ACCEPTS, "there is room for {ACCEPTS} addresses");
        // SAFETY: the place is inside the memory, and no armed accept writes to it: the accept for it is armed below.
        let address = unsafe { Address::clear(self.addresses.start::<Address>().add(place)) };
        let entry = opcode::Accept::new(Fd(listener), address.0, address.1).flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        self.push(&entry.build().user_data(name))
    }

    /// Returns the connection that the accept at `place` has accepted; `None` if `result` is an error.
    pub(super) fn accepted(&self, place: usize, result: i32) -> Option<(OwnedFd, Peer)> {
        // SAFETY: the kernel has made the descriptor for this ring, and each completion is processed once.
        let descriptor = (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) })?;
        assert!(place < ACCEPTS, "there is room for {ACCEPTS} addresses");
        // SAFETY: the place is inside the memory, and the accept that wrote to it has completed.
        let address = unsafe { &*self.addresses.start::<Address>().add(place) };
        Some((descriptor, address.peer()))
    }

    /// Reports once when one of `events` occurs, or with `again` each time. Hang-ups are always reported.
    pub(super) fn poll(&mut self, descriptor: RawFd, events: i16, again: bool, name: u64) -> io::Result<()> {
        self.push(&opcode::PollAdd::new(Fd(descriptor), events as u32).multi(again).build().user_data(name))
    }

    /// Cancels the operation with the name `target`, which then completes. `name` is the name of the cancellation itself.
    pub(super) fn cancel(&mut self, target: u64, name: u64) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(target).build();
        self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(name))
    }

    /// Closes a descriptor.
    pub(super) fn close(&mut self, descriptor: OwnedFd, name: u64) -> io::Result<()> {
        self.push(&close(descriptor.into_raw_fd(), name))
    }

    /// The offset at which [`Ring::keep`] stores the next bytes; `None` if `size` bytes do not fit.
    pub(super) fn room_for(&self, size: usize) -> Option<usize> {
        (self.outgoing.len() + size <= OUTGOING_BYTES).then_some(self.outgoing.len())
    }

    /// Stores bytes for [`Ring::send`]. There must be room.
    #[inline]
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        debug_assert!(self.room_for(bytes.len()).is_some());
        self.outgoing.extend_from_slice(bytes);
    }

    /// Stored bytes.
    pub(super) fn kept(&self, range: Range<usize>) -> &[u8] {
        &self.outgoing[range]
    }

    /// Forgets all stored bytes. No operation that sends them may be waiting to be handed over.
    pub(super) fn forget_kept(&mut self) {
        self.outgoing.clear();
    }

    /// Sends stored bytes as far as `socket` has room now. The operation completes only if it could not send all of them. If
    /// `then_close`, the name of a close, is given, the kernel closes `socket` after it has sent all; then the caller must not
    /// close it.
    pub(super) fn send(&mut self, socket: RawFd, range: Range<usize>, name: u64, then_close: Option<u64>) -> io::Result<()> {
        // Without waiting, so that the kernel no longer uses the memory when it has taken the operation. With WAITALL, so
        // that a partial send counts as a failure, which is reported.
        let mut flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL;
        if then_close.is_some() {
            // The last bytes leave in one segment with the end of the connection. If not all were sent, they leave with the
            // rest.
            flags |= libc::MSG_MORE;
        }
        let bytes = &self.outgoing[range];
        let entry = opcode::Send::new(Fd(socket), bytes.as_ptr(), bytes.len() as u32).flags(flags).build().user_data(name);
        match then_close {
            None => self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS)),
            Some(close_name) => {
                // The send and the close are linked, so one call must hand both over.
                let queue = self.ring.submission();
                let room = queue.capacity() - queue.len();
                drop(queue);
                if room < 2 {
                    self.hand_over()?;
                }
                self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS | squeue::Flags::IO_LINK))?;
                self.push(&close(socket, close_name))
            }
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: sends point to memory in `outgoing`. The kernel reads it until the operation has been handed over, and
            // the bytes are neither moved nor forgotten before. Receives use the buffers and accepts the addresses, which
            // outlive the ring. Other operations contain no pointers.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.hand_over()?;
        }
    }

    /// Hands over all operations without processing completions.
    pub(super) fn hand_over(&mut self) -> io::Result<()> {
        for _ in 0..MOST_TRIES {
            if self.ring.submission().is_empty() {
                return Ok(());
            }
            self.call(0, 0, None)?;
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "the kernel takes no more operations"))
    }

    /// Hands over all operations and collects completions; with `patient`, waits for the first, but at most for `timeout`.
    pub(super) fn enter(&mut self, patient: bool, timeout: Option<Duration>) -> io::Result<()> {
        let idle = {
            let queue = self.ring.submission();
            queue.is_empty() && !queue.taskrun() && !queue.cq_overflow()
        };
        if idle && !patient {
            return Ok(());
        }
        self.call(u32::from(patient), GET_EVENTS, timeout)?;
        // An interrupted call may have left some operations behind.
        self.hand_over()
    }

    /// Whether the kernel keeps completions that did not fit their ring.
    pub(super) fn overflown(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    fn call(&mut self, wanted: u32, flags: u32, timeout: Option<Duration>) -> io::Result<()> {
        let waiting = self.ring.submission().len() as u32;
        let time = timeout.map(|time| Timespec::new().sec(time.as_secs()).nsec(time.subsec_nanos()));
        let mut argument = SubmitArgs::new();
        if let Some(time) = &time {
            argument = argument.timespec(time);
        }
        // SAFETY: the argument has the type that EXTENDED_ARGUMENT announces, and lives until the call returns.
        let result = unsafe { self.ring.submitter().enter(waiting, wanted, flags | EXTENDED_ARGUMENT, Some(&argument)) };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The time is over, a signal arrived, or completions must be processed before the kernel takes more operations.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// The next completion.
    #[inline]
    pub(super) fn completion(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let flags = entry.flags();
        Some(Completion {
            name: entry.user_data(),
            result: entry.result(),
            buffer: cqueue::buffer_select(flags),
            more: cqueue::more(flags),
            rest: cqueue::sock_nonempty(flags),
        })
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns its descriptor, and is borrowed as long as the result.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

fn close(descriptor: RawFd, name: u64) -> squeue::Entry {
    opcode::Close::new(Fd(descriptor)).build().flags(squeue::Flags::SKIP_SUCCESS).user_data(name)
}

/// The operations that the backend uses.
const NEEDED: [(u8, &str); 6] = [
    (opcode::Accept::CODE, "accepting"),
    (opcode::Recv::CODE, "receiving"),
    (opcode::Send::CODE, "sending"),
    (opcode::Close::CODE, "closing"),
    (opcode::PollAdd::CODE, "polling"),
    (opcode::AsyncCancel::CODE, "cancelling"),
];

/// The first operation that the backend needs but `supports` denies.
fn missing(supports: impl Fn(u8) -> bool) -> Option<&'static str> {
    NEEDED.into_iter().find(|&(code, _)| !supports(code)).map(|(_, operation)| operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn completions_that_do_not_fit_their_ring_are_not_lost() {
        let mut ring = Ring::with_room_for(OPERATIONS, false).unwrap_or_else(|refusal| panic!("{refusal}"));
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"x").expect("the pipe has room");
        let count = u64::from(OPERATIONS) * 2;
        for name in 0..count {
            ring.poll(reader.as_raw_fd(), libc::POLLIN, false, name).expect("the kernel takes it");
        }
        ring.hand_over().expect("the kernel takes them");
        assert!(ring.overflown());
        let mut names = Vec::new();
        while names.len() < count as usize {
            let before = names.len();
            names.extend(std::iter::from_fn(|| ring.completion()).map(|completion| completion.name));
            assert!(names.len() > before, "no more come after {before}");
            ring.enter(false, None).expect("it is our ring");
        }
        names.sort_unstable();
        assert!(names.into_iter().eq(0..count));
        assert!(!ring.overflown());
    }

    #[test]
    fn a_restricted_ring_does_what_the_backend_needs_and_nothing_else() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"x").expect("the pipe has room");
        for (restricted, refused) in [(true, -libc::EACCES), (false, 0)] {
            let mut ring = Ring::with_room_for(OPERATIONS, restricted).unwrap_or_else(|refusal| panic!("{refusal}"));
            ring.poll(reader.as_raw_fd(), libc::POLLIN, false, 1).expect("the kernel takes it");
            ring.hand_over().expect("the kernel takes it");
            ring.push(&opcode::Nop::new().build().user_data(2)).expect("the ring has room");
            ring.hand_over().expect("the kernel takes it");
            let mut results = Vec::new();
            while results.len() < 2 {
                ring.enter(true, None).expect("it is our ring");
                results.extend(std::iter::from_fn(|| ring.completion()).map(|completion| (completion.name, completion.result)));
            }
            results.sort_unstable();
            assert_eq!(results, [(1, libc::POLLIN.into()), (2, refused)]);
            assert_eq!(ring.ring.submitter().register_probe(&mut Probe::new()).is_err(), restricted);
        }
    }

    #[test]
    fn a_kernel_without_an_operation_is_refused_by_its_name() {
        assert_eq!(missing(|_| true), None);
        let text = |without| Refusal::Old(missing(|code| code != without).expect("it is needed")).to_string();
        assert!(text(opcode::Accept::CODE).contains("lacks accepting"), "{}", text(opcode::Accept::CODE));
        assert!(text(opcode::Send::CODE).contains("lacks sending"), "{}", text(opcode::Send::CODE));
    }
}
