//! Hands connections over to an edge of the next server, and takes over connections from an edge of the previous server.

use super::EdgeLoop;
use crate::parent_link::{ParentLink, Received};
use oribi_io::Backend;
use oribi_ipc::handover::{HandoverEvent, Receiver, Room, Sender};
use oribi_listen::Vault;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// The delay before another attempt, if the next edge has not read the earlier messages.
const AGAIN_AFTER: Duration = Duration::from_millis(1);

/// The interval at which an edge that hands over checks its connections if no event arrives.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// The edges from which and to which this edge hands over connections.
#[derive(Debug, Default)]
pub(super) struct HandoverPeers<'a> {
    /// The source of connections from an edge of the previous server; `None` if there is none.
    before: Option<&'a Receiver>,
    /// The destination to which this edge is handing its connections over; `None` if it is not handing over.
    after: Option<Sender>,
    /// The destination that the parent process has named for a later handover.
    named: Option<Sender>,
    /// Whether the next edge has not read the earlier messages, so that no further message can be sent now.
    blocked: bool,
}

impl HandoverPeers<'_> {
    /// Returns the longest time that the edge may wait; `None` for no limit.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.after.as_ref().map(|_| if self.blocked { AGAIN_AFTER } else { LOOKS_EVERY })
    }
}

impl<'a, B: Backend> EdgeLoop<'_, 'a, B> {
    /// Sets the source of connections that another edge hands over.
    pub(super) fn taking_over(mut self, before: Option<&'a Receiver>) -> io::Result<Self> {
        if let (Some(before), Some(event_sources)) = (before, self.lane.event_sources()) {
            event_sources.watch(before.as_fd())?;
            self.peers.before = Some(before);
        }
        Ok(self)
    }

    /// Accepts descriptors from the parent process: reopened log files, certificates, and the destination of connections.
    pub(super) fn receive_descriptors(&mut self) {
        while let Some(given) = self.parent_link.and_then(ParentLink::next) {
            match given {
                Received::Successor(successor) => self.peers.named = Some(successor),
                Received::Certificates(vault) => {
                    match Vault::open(vault.as_fd()).map(|vault| vault.spread(self.present_listeners())) {
                        Some(Ok(())) => log::info!("the certificates were replaced"),
                        Some(Err(why)) => log::error!("{why}; keeping the current certificates"),
                        None => log::error!("no certificates arrived from the master; keeping the current ones"),
                    }
                }
                Received::Users(memory) => {
                    if let Some(router) = &mut self.router {
                        router.take_users(memory);
                    }
                }
                Received::LimitMemory(memory) => self.keep_limit_memory(memory),
                Received::Plan(plan) => self.prepare_plan(plan),
                Received::Pool(numbers, descriptors) => self.add_place(numbers, descriptors),
                Received::Commit(plan) => self.commit_plan(plan),
                Received::Cancel => self.cancel_plan(),
                Received::Listeners(descriptors) => self.applying.listeners = Some(descriptors),
                Received::EndListener(number) => self.end_listener(number),
                Received::Purge(choice) => self.purge(choice),
                Received::AccessLog(log) => self.lane.source().use_access_log(log.into()),
                Received::ErrorLog(log) => {
                    if let Err(error) = oribi_log::use_error_log(log.into()) {
                        log::error!("cannot use the reopened error log: {error}");
                    }
                }
            }
        }
    }

    /// Leaves the reopening of log files to the parent process, because this edge cannot open files.
    pub(super) fn leave_logs_to_parent(&mut self) {
        self.lane.skip_log_reopening();
        self.lane.source().expect_access_log();
    }

    /// Starts to hand connections over, on command.
    pub(super) fn begin_to_hand_over(&mut self) {
        if self.peers.after.is_some() {
            return;
        }
        // The destination may have arrived after the last check for descriptors.
        self.receive_descriptors();
        match self.peers.named.take() {
            Some(successor) => {
                log::info!("handing connections over to the next server");
                self.peers.after = Some(successor);
                self.lane.source().begin_to_hand_over();
            }
            None => self.give_up_handing_over("the next server is not known"),
        }
    }

    /// Gives up handing over, for the reason `why`: connections close after their next responses instead.
    fn give_up_handing_over(&mut self, why: &str) {
        log::error!("connections cannot be handed over, and close after their next responses: {why}");
        self.peers.after = None;
        self.lane.source().stop(false);
    }

    /// Hands over the connections that are ready for it, if the edge is doing so.
    pub(super) fn hand_over(&mut self) {
        let Some(after) = &self.peers.after else { return };
        let mut gone = false;
        let handed = self.lane.source().hand_over(|record, descriptor| match after.room() {
            Room::Yes => after.send(record, descriptor.as_fd()),
            Room::Later => Err(io::ErrorKind::WouldBlock.into()),
            Room::Gone => {
                gone = true;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        });
        self.peers.blocked = handed.is_err();
        if gone {
            self.give_up_handing_over("the next edge has ended");
        }
    }

    /// Continues with the connections that the previous server hands over.
    pub(super) fn take_over(&mut self) {
        while let Some(before) = self.peers.before {
            match before.next() {
                HandoverEvent::Connection(record, descriptor) => {
                    if !self.lane.source().take_over(record, descriptor) {
                        log::error!("a connection of the old server was lost");
                    }
                }
                HandoverEvent::Nonsense => {
                    log::error!("the old server sent a connection in an unknown form, which was closed");
                }
                HandoverEvent::Nothing => return,
                HandoverEvent::End => {
                    if let Some(event_sources) = self.lane.event_sources() {
                        // The call fails if the socket was not watched, which is harmless.
                        let _ = event_sources.unwatch(before.as_fd());
                    }
                    self.peers.before = None;
                }
            }
        }
    }
}
