//! Connections that an edge hands over to one of the next server, and those that it takes over from the server before.

use super::EdgeLoop;
use crate::keeper::{Given, Keeper};
use oribi_io::Backend;
use oribi_ipc::handover::{Receipt, Receiver, Room, Sender};
use oribi_listen::Vault;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// How soon the edge tries again when the next one has not read what was sent.
const AGAIN_AFTER: Duration = Duration::from_millis(1);

/// How often an edge that hands over looks at its connections even if nothing happens.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// The edges before and after this one.
#[derive(Debug, Default)]
pub(super) struct Neighbours<'a> {
    /// Where connections come from; `None`: from clients alone.
    before: Option<&'a Receiver>,
    /// Where connections go to; `None`: they stay.
    after: Option<Sender>,
    /// Where the keeper says that connections are to go, when they are.
    named: Option<Sender>,
    /// The next one has not read what was sent.
    blocked: bool,
}

impl Neighbours<'_> {
    /// How long the edge may wait at most; `None`: as long as nothing happens.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.after.as_ref().map(|_| if self.blocked { AGAIN_AFTER } else { LOOKS_EVERY })
    }
}

impl<'a, B: Backend> EdgeLoop<'a, B> {
    /// Sets where connections come from that another edge hands over.
    pub(super) fn taking_over(mut self, before: Option<&'a Receiver>) -> io::Result<Self> {
        if let (Some(before), Some(attention)) = (before, self.lane.attention()) {
            attention.watch(before.as_fd())?;
            self.neighbours.before = Some(before);
        }
        Ok(self)
    }

    /// Takes what the keeper has given: log files that it has opened again, and where connections are to go.
    pub(super) fn accept_gifts(&mut self) {
        while let Some(given) = self.keeper.and_then(Keeper::next) {
            match given {
                Given::Successor(successor) => self.neighbours.named = Some(successor),
                Given::Certificates(vault) => match Vault::open(vault.as_fd()).map(|vault| vault.spread(self.listeners)) {
                    Some(Ok(())) => log::info!("the certificates were exchanged"),
                    Some(Err(why)) => log::error!("{why}; the certificates stay as they are"),
                    None => log::error!("the master has sent no certificates; the present ones stay"),
                },
                Given::AccessLog(log) => self.lane.source().use_access_log(log.into()),
                Given::ErrorLog(log) => {
                    if let Err(error) = oribi_log::use_error_log(log.into()) {
                        log::error!("cannot use the error log that was opened again: {error}");
                    }
                }
            }
        }
    }

    /// From now on the keeper opens log files again, because this edge cannot.
    pub(super) fn leave_logs_to_keeper(&mut self) {
        self.lane.leave_logs_to_others();
        self.lane.source().expect_access_log();
    }

    /// The edge was told to hand its connections over.
    pub(super) fn begin_to_hand_over(&mut self) {
        if self.neighbours.after.is_some() {
            return;
        }
        // The command may have come after the last look.
        self.accept_gifts();
        match self.neighbours.named.take() {
            Some(successor) => {
                log::info!("handing connections over to the next server");
                self.neighbours.after = Some(successor);
                self.lane.source().begin_to_hand_over();
            }
            None => self.give_up_handing_over("it is not known to whom"),
        }
    }

    /// Connections close after their next answers.
    fn give_up_handing_over(&mut self, why: &str) {
        log::error!("connections cannot be handed over, and close after their next responses: {why}");
        self.neighbours.after = None;
        self.lane.source().stop(false);
    }

    /// Hands over the connections that can be, if this edge was told to.
    pub(super) fn hand_over(&mut self) {
        let Some(after) = &self.neighbours.after else { return };
        let mut gone = false;
        let handed = self.lane.source().hand_over(|record, descriptor| match after.room() {
            Room::Yes => after.send(record, descriptor.as_fd()),
            Room::Later => Err(io::ErrorKind::WouldBlock.into()),
            Room::Gone => {
                gone = true;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        });
        self.neighbours.blocked = handed.is_err();
        if gone {
            self.give_up_handing_over("the next edge has ended");
        }
    }

    /// Goes on with the connections that have come from the server before.
    pub(super) fn take_over(&mut self) {
        while let Some(before) = self.neighbours.before {
            match before.next() {
                Receipt::Connection(record, descriptor) => {
                    if !self.lane.source().take_over(record, descriptor) {
                        log::error!("lost a connection of the old server");
                    }
                }
                Receipt::Nonsense => {
                    log::error!("the old server has sent a connection in an unknown form; the connection is lost");
                }
                Receipt::Nothing => return,
                Receipt::End => {
                    if let Some(attention) = self.lane.attention() {
                        // It fails if it was not watched, which does no harm.
                        let _ = attention.unwatch(before.as_fd());
                    }
                    self.neighbours.before = None;
                }
            }
        }
    }
}
