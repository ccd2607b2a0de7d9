//! Encrypts the bytes of the app in records of up to 16 KiB, into one buffer that all connections share, and sends them.
//!
//! Encrypted bytes that the backend does not accept stay with the connection. The caller learns only of bytes that have left,
//! and passes the others again, as with any backend. Those that are already encrypted are then skipped (`owed`). So the caller
//! notices a client that does not keep up, and at most one batch of records waits here.

use crate::session::Session;
use oribi_io::{Attempt, Backend};
use std::io::IoSlice;

/// The bytes of the app in one record: the most that TLS permits.
const RECORD: usize = 16 << 10;

/// The bytes of the app that are encrypted before a send: four records fill the kernel's usual socket buffer.
const BATCH: usize = 64 << 10;

/// The buffers of a lane.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    encrypted: Vec<u8>,
    /// The app's bytes for one record, if they come from several pieces.
    gathered: Vec<u8>,
    /// For each record in `encrypted`: its end, and the number of the app's bytes up to there.
    ends: Vec<(usize, usize)>,
}

/// The time at which a batch leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// At once.
    Now,
    /// Perhaps together with the end of the connection, which follows immediately.
    WithEnd,
}

impl Outgoing {
    /// Sends `pieces` as far as `backend` accepts them.
    pub(crate) fn send<B: Backend>(
        &mut self,
        backend: &mut B,
        socket: &mut B::Socket,
        session: &mut Session,
        pieces: &[IoSlice<'_>],
        haste: Haste,
    ) -> Attempt {
        let size: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut sent = 0;
        if session.owed > 0 {
            match flush(backend, socket, session) {
                Flushed::All => {}
                Flushed::Later => return Attempt::Later,
                Flushed::Broken => return Attempt::Broken,
            }
            sent = session.owed.min(size);
            session.owed -= sent;
        }
        if !session.is_established() {
            return Attempt::Broken;
        }
        while sent < size {
            let first = std::mem::take(&mut session.waiting);
            self.encrypted.clear();
            self.encrypted.extend_from_slice(&first);
            if !self.encrypt(session, pieces, sent, size.min(sent + BATCH)) {
                return Attempt::Broken;
            }
            let last = haste == Haste::WithEnd && size <= sent + BATCH;
            if last {
                session.say_goodbye(&mut self.encrypted);
            }
            let attempt = if last { backend.send_last(socket, &self.encrypted) } else { backend.send(socket, &self.encrypted) };
            let taken = match attempt {
                Attempt::Done(taken) => taken,
                Attempt::Later => 0,
                Attempt::End | Attempt::Broken => return Attempt::Broken,
            };
            if taken == self.encrypted.len() {
                sent = size.min(sent + BATCH);
                continue;
            }
            // Only whole records count as sent. The caller learns later of the others, even of bytes that the socket has
            // accepted.
            let left = self.ends.iter().take_while(|(end, _)| *end <= taken).last().map_or(sent, |(_, bytes)| *bytes);
            session.waiting = self.encrypted[taken..].to_vec();
            session.owed = size.min(sent + BATCH) - left;
            return match flush(backend, socket, session) {
                // The socket had room after all.
                Flushed::All => {
                    let more = std::mem::take(&mut session.owed);
                    Attempt::Done(left + more)
                }
                Flushed::Later if left == 0 => Attempt::Later,
                Flushed::Later => Attempt::Done(left),
                Flushed::Broken => Attempt::Broken,
            };
        }
        Attempt::Done(sent)
    }

    /// Encrypts the bytes from `start` to `end` of `pieces` and appends them to `encrypted`. Returns `false` if the session
    /// encrypts nothing more.
    fn encrypt(&mut self, session: &mut Session, pieces: &[IoSlice<'_>], start: usize, end: usize) -> bool {
        let Self { encrypted, gathered, ends } = self;
        ends.clear();
        let mut position = 0;
        let mut done = start;
        gathered.clear();
        for piece in pieces {
            let (from, to) = (start.clamp(position, position + piece.len()), end.clamp(position, position + piece.len()));
            let mut bytes = &piece[from - position..to - position];
            position += piece.len();
            while !bytes.is_empty() {
                let last = done + gathered.len() + bytes.len() == end;
                if gathered.is_empty() && (bytes.len() >= RECORD || last) {
                    let (record, rest) = bytes.split_at(bytes.len().min(RECORD));
                    if !session.encrypt(record, encrypted) {
                        return false;
                    }
                    done += record.len();
                    ends.push((encrypted.len(), done));
                    bytes = rest;
                    continue;
                }
                let (more, rest) = bytes.split_at(bytes.len().min(RECORD - gathered.len()));
                gathered.extend_from_slice(more);
                bytes = rest;
                if gathered.len() == RECORD || done + gathered.len() == end {
                    if !session.encrypt(gathered, encrypted) {
                        return false;
                    }
                    done += gathered.len();
                    ends.push((encrypted.len(), done));
                    gathered.clear();
                }
            }
        }
        true
    }
}

/// The result of sending the waiting bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    All,
    /// The backend will report the socket as writable.
    Later,
    Broken,
}

/// Sends the waiting bytes until all have left or the backend accepts no more and will report room.
pub(crate) fn flush<B: Backend>(backend: &mut B, socket: &mut B::Socket, session: &mut Session) -> Flushed {
    let mut sent = 0;
    let outcome = loop {
        if sent == session.waiting.len() {
            break Flushed::All;
        }
        match backend.send(socket, &session.waiting[sent..]) {
            Attempt::Done(count) => sent += count,
            Attempt::Later => break Flushed::Later,
            Attempt::End | Attempt::Broken => break Flushed::Broken,
        }
    };
    if outcome == Flushed::All {
        session.waiting = Vec::new();
    } else {
        session.waiting.drain(..sent);
    }
    outcome
}
