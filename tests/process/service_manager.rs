//! The socket of a service manager, and the messages of a server to it.

use crate::server::{Folder, wait_for};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

/// A message: its lines, and the descriptor that arrived with it.
#[derive(Debug)]
pub struct Message {
    pub lines: Vec<String>,
    pub descriptor: Option<OwnedFd>,
}

impl Message {
    /// The value that the message has for `name`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }
}

pub struct ServiceManager {
    socket: UnixDatagram,
    waiting: RefCell<VecDeque<Message>>,
    folder: Folder,
}

impl ServiceManager {
    pub fn new() -> Self {
        let folder = Folder::new();
        let socket = UnixDatagram::bind(folder.file("notify")).expect("the folder is ours");
        socket.set_nonblocking(true).expect("it is ours");
        Self { socket, waiting: RefCell::default(), folder }
    }

    /// The value of NOTIFY_SOCKET.
    pub fn address(&self) -> PathBuf {
        self.folder.file("notify")
    }

    fn receive(&self) -> Option<Message> {
        let (mut bytes, mut space) = ([0; 4096], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))]);
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let count = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags).ok()?.bytes;
        let rights = |message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        };
        let descriptor = control.drain().find_map(rights);
        let text = String::from_utf8(bytes[..count].to_vec()).expect("messages are text");
        Some(Message { lines: text.lines().map(str::to_owned).collect(), descriptor })
    }

    /// Discards all messages that have arrived and were not read. Returns how many of them had a value for `name`.
    pub fn forget(&self, name: &str) -> usize {
        let waiting = self.waiting.take().into_iter().chain(std::iter::from_fn(|| self.receive()));
        waiting.filter(|message| message.value(name).is_some()).count()
    }

    /// Waits for the next message that has a value for `name`; discards the messages before it.
    pub fn hear(&self, name: &str) -> Message {
        wait_for(&format!("a message with {name}"), || {
            while let Some(message) = self.receive() {
                self.waiting.borrow_mut().push_back(message);
            }
            let mut waiting = self.waiting.borrow_mut();
            while let Some(message) = waiting.pop_front() {
                if message.value(name).is_some() {
                    return Some(message);
                }
            }
            None
        })
    }
}
