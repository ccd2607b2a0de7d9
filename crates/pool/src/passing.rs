//! Passes descriptors from one process to another: files with content, and sockets that an app takes over.
//!
//! A descriptor is sent, with a tag, before the frame or the answer that names it by that tag. Several exchanges share a line,
//! so a descriptor that comes for another exchange is kept until that one asks for it.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How many descriptors may wait that nobody has asked for. An honest peer sends at most one at a time for each of its areas.
const MOST_KEPT: usize = 64;

/// Both ends of a line. It keeps the boundaries of messages, and neither end ever blocks.
pub(crate) fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// One end of a line.
#[derive(Debug)]
pub(crate) struct Line {
    socket: Arc<OwnedFd>,
    kept: Vec<(u64, OwnedFd)>,
}

impl Line {
    pub(crate) fn new(socket: Arc<OwnedFd>) -> Self {
        Self { socket, kept: Vec::new() }
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

    /// Sends a message without a descriptor. If the line is full, the peer has unread messages and is told all the same.
    pub(crate) fn call(&self, tag: u64) {
        let _ = send(&self.socket, &tag.to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Reads what has come, and keeps the descriptors for whoever asks for them.
    ///
    /// # Errors
    /// The peer sends more than anybody asks for, or the system refuses.
    pub(crate) fn hear(&mut self) -> io::Result<()> {
        // No descriptor has this tag, because no entry and no honest count has.
        self.take(u64::MAX).map(drop)
    }

    /// The descriptor with that tag; `None` if it has not come yet.
    ///
    /// # Errors
    /// The peer sends more than anybody asks for, or the system refuses.
    pub(crate) fn take(&mut self, tag: u64) -> io::Result<Option<OwnedFd>> {
        if let Some(place) = self.kept.iter().position(|kept| kept.0 == tag) {
            return Ok(Some(self.kept.swap_remove(place).1));
        }
        while let Some((found, descriptor)) = self.receive()? {
            let Some(descriptor) = descriptor else { continue };
            if found == tag {
                return Ok(Some(descriptor));
            }
            if self.kept.len() >= MOST_KEPT {
                return Err(io::Error::other("more descriptors were sent than anybody has asked for"));
            }
            self.kept.push((found, descriptor));
        }
        Ok(None)
    }

    /// Drops everything that has come.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        while let Ok(Some(_)) = self.receive() {}
    }

    /// The next message: its tag, and its descriptor if it has one.
    fn receive(&self) -> io::Result<Option<(u64, Option<OwnedFd>)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 8];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let outcome = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        match outcome {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let rights = |message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        };
        let descriptor = control.drain().find_map(rights);
        Ok(Some((u64::from_ne_bytes(bytes), descriptor)))
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;

    #[test]
    fn descriptors_are_found_by_their_tags_in_any_order() {
        let (one, other) = line().expect("a line");
        let (sender, mut receiver) = (Line::new(Arc::new(one)), Line::new(Arc::new(other)));
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
        receiver.hear().expect("a line that works");
        assert!(receiver.take(3).expect("a line that works").is_some(), "the call was no descriptor");
    }

    #[test]
    fn a_peer_that_floods_is_found_out() {
        let (one, other) = line().expect("a line");
        let (sender, mut receiver) = (Line::new(Arc::new(one)), Line::new(Arc::new(other)));
        for tag in 0..=MOST_KEPT as u64 {
            // The line itself may hold fewer than that.
            while sender.pass(tag, sender.as_fd()).is_err() {
                assert!(receiver.take(u64::MAX).expect("not so many yet").is_none());
            }
        }
        assert!(receiver.take(u64::MAX).is_err());
        receiver.clear();
        assert!(receiver.take(0).expect("an empty line").is_none());
    }
}
