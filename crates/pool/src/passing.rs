//! Passes descriptors from one process to another: files with content, and sockets that an app takes over.
//!
//! Each descriptor is sent with a tag. A worker sends the descriptor of a file before it publishes the frame that names the
//! tag; the edge sends a requested descriptor with its exchange as the tag. Several exchanges share a line. The edge chooses
//! the order in which it reads the frames of several areas, so it keeps a descriptor for a later frame until it reads that
//! frame. A worker waits for one descriptor at a time, so it drops all others, because no exchange will ask for them.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The most descriptors that may be kept for later frames, unless a channel says otherwise.
const MOST_KEPT: usize = 512;

/// Creates both ends of a line. It keeps the boundaries of messages, and neither end ever blocks.
pub(crate) fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// One end of a line.
#[derive(Debug)]
pub(crate) struct DescriptorChannel {
    socket: Arc<OwnedFd>,
    kept: Vec<(u64, Passed)>,
    most_kept: usize,
}

/// The descriptor in a message.
#[derive(Debug)]
enum Passed {
    Descriptor(OwnedFd),
    /// The kernel closed the descriptor, because this process may not have more of them.
    Lost,
}

impl Passed {
    fn received(self) -> io::Result<OwnedFd> {
        match self {
            Self::Descriptor(descriptor) => Ok(descriptor),
            Self::Lost => Err(Errno::MFILE.into()),
        }
    }
}

impl DescriptorChannel {
    pub(crate) fn new(socket: Arc<OwnedFd>) -> Self {
        Self { socket, kept: Vec::new(), most_kept: MOST_KEPT }
    }

    /// Also keeps descriptors for a peer with this number of areas: an honest one sends at most one at a time for each of them.
    pub(crate) fn for_areas(self, areas: u32) -> Self {
        Self { most_kept: self.most_kept.max(areas as usize), ..self }
    }

    /// Sends a copy of a descriptor.
    pub(crate) fn pass(&self, tag: u64, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let bytes = tag.to_ne_bytes();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Sends a message without a descriptor. If the line is full, the peer has unread messages, which wake it as well.
    pub(crate) fn call(&self, tag: u64) {
        let _ = send(&self.socket, &tag.to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Returns the descriptor with that tag; `None` if it has not arrived yet. Other descriptors that arrived are kept.
    ///
    /// # Errors
    /// The peer sent more descriptors than frames refer to, the process may not have more descriptors ([`Errno::MFILE`]), or
    /// the operating system refuses.
    pub(crate) fn take(&mut self, tag: u64) -> io::Result<Option<OwnedFd>> {
        if let Some(index) = self.kept.iter().position(|kept| kept.0 == tag) {
            return self.kept.swap_remove(index).1.received().map(Some);
        }
        while let Some((found, passed)) = self.receive()? {
            let Some(passed) = passed else { continue };
            if found == tag {
                return passed.received().map(Some);
            }
            if self.kept.len() >= self.most_kept {
                return Err(io::Error::other("more descriptors arrived than were requested"));
            }
            self.kept.push((found, passed));
        }
        Ok(None)
    }

    /// Like [`DescriptorChannel::take`], but drops all descriptors that arrived earlier.
    pub(crate) fn take_only(&mut self, tag: u64) -> io::Result<Option<OwnedFd>> {
        while let Some((found, passed)) = self.receive()? {
            if let Some(passed) = passed.filter(|_| found == tag) {
                return passed.received().map(Some);
            }
        }
        Ok(None)
    }

    /// Whether descriptors are kept for later frames.
    pub(crate) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Drops the kept descriptors.
    pub(crate) fn drop_kept(&mut self) {
        self.kept.clear();
    }

    /// Drops all descriptors that have arrived.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        while let Ok(Some(_)) = self.receive() {}
    }

    /// Receives the next message: its tag, and its descriptor if it has one.
    fn receive(&self) -> io::Result<Option<(u64, Option<Passed>)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 8];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut receive = || recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        let outcome = match receive() {
            // The peer has ended with unread messages. The system says so once, before the messages that the peer has sent.
            Err(Errno::CONNRESET) => receive(),
            outcome => outcome,
        };
        let is_cut = match outcome {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(message) => message.flags.contains(ReturnFlags::CTRUNC),
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let rights = |message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        };
        // If the process may not have more descriptors, the kernel closes this one, and reports only that the message is
        // cut.
        let passed = control.drain().find_map(rights).map(Passed::Descriptor).or_else(|| is_cut.then_some(Passed::Lost));
        Ok(Some((u64::from_ne_bytes(bytes), passed)))
    }
}

impl AsFd for DescriptorChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Event, Memory, Shape, Worker};
    use rustix::fs::fstat;

    #[test]
    fn descriptors_are_found_by_their_tags_in_any_order() {
        let (one, other) = line().expect("a line");
        let (sender, mut receiver) = (DescriptorChannel::new(Arc::new(one)), DescriptorChannel::new(Arc::new(other)));
        let files: Vec<_> = (0..3).map(|_| line().expect("something to send").0).collect();
        assert!(receiver.take(0).expect("an empty line").is_none());
        for (tag, file) in files.iter().enumerate() {
            sender.pass(tag as u64, file.as_fd()).expect("room");
        }
        for tag in [2, 0, 1] {
            let got = receiver.take(tag).expect("a line that works").expect("it was sent");
            let inode = |file: &OwnedFd| fstat(file).expect("a descriptor").st_ino;
            assert_eq!(inode(&got), inode(&files[tag as usize]));
        }
        assert!(receiver.take(1).expect("an empty line").is_none());
        sender.call(3);
        sender.pass(3, sender.as_fd()).expect("room");
        assert!(receiver.take(4).expect("a line that works").is_none());
        assert!(receiver.take(3).expect("a line that works").is_some(), "the call was no descriptor");
    }

    #[test]
    fn who_waits_for_one_descriptor_keeps_no_other() {
        let (one, other) = line().expect("a line");
        let (sender, mut receiver) = (DescriptorChannel::new(Arc::new(one)), DescriptorChannel::new(Arc::new(other)));
        // More than may be kept, one after the other: each of them arrives too late.
        for tag in 0..2 * MOST_KEPT as u64 {
            sender.pass(tag, sender.as_fd()).expect("room");
            assert!(receiver.take_only(u64::MAX).expect("a line that works").is_none());
        }
        assert!(!receiver.keeps());
        sender.pass(1, sender.as_fd()).expect("room");
        sender.pass(2, sender.as_fd()).expect("room");
        assert!(receiver.take_only(2).expect("a line that works").is_some());
        assert!(receiver.take_only(1).expect("a line that works").is_none(), "it was dropped");
    }

    const SHAPE: Shape = Shape { slots: 8, request_bytes: 256, workers: 1, areas: 2, area_bytes: 4096 };

    fn submit(edge: &mut Edge) {
        let reserved = edge.reserve().expect("a free slot");
        edge.submit(reserved, 0);
    }

    /// Reads all frames of a worker, and counts the files that arrived with them.
    fn files(edge: &mut Edge) -> usize {
        let mut bytes = Vec::new();
        edge.gather();
        let mut events = std::iter::from_fn(|| edge.next(&mut bytes)).collect::<Vec<_>>();
        events.retain(|event| matches!(event, Event::File(_, Some(_), _)));
        events.len()
    }

    #[test]
    fn descriptors_that_no_frame_has_named_are_dropped_with_the_last_request_of_their_worker() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("an edge");
        let mut worker = Worker::attach(&memory, 0).expect("a place");
        submit(&mut edge);
        submit(&mut edge);
        let (mut one, two) = (worker.take().expect("a request"), worker.take().expect("a request"));
        // The worker does not send the frame.
        worker.passing().pass(u64::MAX - 1, worker_file().as_fd()).expect("room");
        worker.file(&mut one, worker_file().as_fd(), 0, 1).expect("room");
        worker.finish(one);
        assert_eq!(files(&mut edge), 1);
        assert!(edge.keeps_descriptors(), "the other request may name it");
        worker.finish(two);
        assert_eq!(files(&mut edge), 0);
        assert!(!edge.keeps_descriptors());
    }

    fn worker_file() -> std::fs::File {
        std::fs::File::open("/dev/null").expect("the system has it")
    }

    #[test]
    fn a_peer_that_floods_is_found_out() {
        let (one, other) = line().expect("a line");
        let (sender, mut receiver) = (DescriptorChannel::new(Arc::new(one)), DescriptorChannel::new(Arc::new(other)));
        for tag in 0..=MOST_KEPT as u64 {
            // The line itself may hold fewer.
            while sender.pass(tag, sender.as_fd()).is_err() {
                assert!(receiver.take(u64::MAX).expect("not so many yet").is_none());
            }
        }
        assert!(receiver.take(u64::MAX).is_err());
        receiver.clear();
        assert!(receiver.take(0).expect("an empty line").is_none());
    }
}
