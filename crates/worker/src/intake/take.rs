//! Steps 2 and 3, take and lend: a worker that asks for a request gets the oldest one.

use super::descriptors::ask;
use super::lent::{Lent, Received};
use super::{Intake, IntakeState};
use oribi_engine::shortage::is_of_descriptors;
use oribi_ipc::slot::{Content, encode_head};
use oribi_message::{FieldPair, ResponseHead, Version};
use oribi_pool::{DescriptorRequest, Taken, Worker};
use std::io;

/// The number of unused boxes kept.
const SPARE: usize = 64;

impl Intake<'_> {
    /// Takes the oldest request of one of the pools, if this worker may take another one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Lent> {
        while self.stage != IntakeState::Stopping {
            let Some((pool, taken)) = self.take_in_turn() else {
                if self.stage == IntakeState::Emptying && self.is_empty_for_good() {
                    self.stage = IntakeState::Stopping;
                }
                return None;
            };
            if let Some(lent) = self.lend(pool, taken) {
                return Some(lent);
            }
        }
        None
    }

    /// Asks each pool in turn, starting after that of the last request.
    #[inline]
    fn take_in_turn(&mut self) -> Option<(usize, Taken)> {
        for _ in 0..self.pools.len() {
            let pool = self.turn;
            self.turn = if pool + 1 == self.pools.len() { 0 } else { pool + 1 };
            self.pools[pool].set_time(self.now.0);
            if let Some(taken) = self.pools[pool].take() {
                return Some((pool, taken));
            }
        }
        None
    }

    /// Whether the queues are empty, and no further request can arrive.
    #[cold]
    fn is_empty_for_good(&mut self) -> bool {
        // The second check finds requests that an edge submitted before its end.
        self.pools.iter_mut().all(|pool| !pool.has_queued() && pool.edge_is_gone() && !pool.has_queued())
    }

    #[inline]
    fn lend(&mut self, pool: usize, mut taken: Taken) -> Option<Lent> {
        let worker = &mut self.pools[pool];
        let mut received = self.spare.pop().unwrap_or_default();
        if let Err(error) = read(worker, &mut taken, &mut received) {
            self.decline(pool, taken, &error);
            return None;
        }
        let (gateway, head) = (received.stored.has_gateway(), received.stored.head());
        let shared = gateway || head.version() == Version::Http2;
        let waited = received.stored.complete_at().map(|complete| self.now.0.saturating_sub(complete));
        let bodiless = head.method() == b"HEAD";
        let id = self.opened.add(pool, taken, waited, gateway, shared, bodiless);
        if let Some(running) = &self.running {
            running.enter(id, &head);
        }
        Some(Lent { id, received })
    }

    /// Rejects a request that could not be read.
    #[cold]
    fn decline(&mut self, pool: usize, taken: Taken, error: &io::Error) {
        let worker = &mut self.pools[pool];
        if worker.orders(&taken).gone {
            // Its client has disconnected, or was connected to an edge that has died: no client waits for an answer.
            log::debug!("a request was dropped: {error}");
            return worker.abandon(taken);
        }
        log::error!("cannot read a request: {error}");
        if !is_of_descriptors(error) {
            return worker.abandon(taken);
        }
        self.answer_unavailable(pool, taken);
    }

    /// Answers 503: the client may try again soon.
    #[cold]
    pub(super) fn answer_unavailable(&mut self, pool: usize, taken: Taken) {
        let worker = &mut self.pools[pool];
        self.head.clear();
        let content = b"Service Unavailable\n";
        let fields: [FieldPair<'_>; 2] = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Retry-After", b"1")];
        let size = content.len() as u64;
        encode_head(&ResponseHead { status: 503, fields: &fields }, Content::Whole { size }, &mut self.head);
        if let Err(taken) = worker.respond(taken, &self.head, &[content]) {
            worker.abandon(taken);
        }
    }

    /// Takes back a request whose host has returned.
    #[inline]
    pub(super) fn give_back(&mut self, lent: Lent) {
        let Lent { id, mut received } = lent;
        if let Some(open) = self.opened.get_mut(id) {
            open.lent = false;
            // A concurrent host has passed the request on by now, so it must not be refused: a worker without an area takes none.
            if !self.client_changes.reported {
                self.note_postponed(id);
            }
        }
        if let Some(running) = &self.running {
            running.end(id);
        }
        received.content = None;
        received.data = None;
        if self.spare.len() < SPARE {
            self.spare.push(received);
        }
    }
}

/// Copies the request out of its slot, and fetches its files.
#[inline]
fn read(worker: &mut Worker, taken: &mut Taken, received: &mut Received) -> io::Result<()> {
    received.stored.read(worker.request(taken)).map_err(io::Error::other)?;
    if received.stored.has_content_file() {
        received.content = Some(ask(worker, taken, DescriptorRequest::Content)?);
    }
    if received.stored.has_data_file() {
        received.data = Some(ask(worker, taken, DescriptorRequest::Data)?);
    }
    if received.is_complete() { Ok(()) } else { Err(io::Error::other("a file with its content is missing")) }
}
