//! Hands connections over to an edge of the next server, and takes over connections from an edge of the previous server.

use super::EdgeLoop;
use super::app::AppPool;
use super::live::{Heard, Up};
use crate::parent_link::{ParentLink, Received};
use oribi_io::Backend;
use oribi_ipc::handover::{HandoverEvent, Receiver, Room, Sender};
use oribi_listen::Renewed;
use oribi_stats::scoreboard::WorkerCommand;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// The delay before another attempt, if the next edge has not read the earlier messages.
const AGAIN_AFTER: Duration = Duration::from_millis(1);

/// The interval at which an edge that hands over checks its connections if no event arrives.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// The longest time that this edge leaves new connections to an old edge: one that hangs must not keep clients from the new server.
const ACCEPTS_AFTER: Duration = Duration::from_secs(2);

/// The wait for the end of the first process after that of an old edge, because the old edge may only seem to have ended: the first
/// process of this server knows it until both servers serve.
const ENDS_WITHIN: Duration = Duration::from_millis(100);

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
    /// Whether there may be more to send or to receive, which waits while this edge does other work.
    is_behind: bool,
    /// Whether messages wait for the old edge, and whether more of its messages may have arrived.
    owes: bool,
    has_unread: bool,
    /// Whether this edge does not hand over, because it cannot.
    has_given_up: bool,
    /// The time at which this edge accepts connections although no old edge has left them to it.
    accepts_at: Option<Duration>,
    /// The first process of this server.
    parent: u32,
    /// The number of waits since this edge has nothing else to do.
    pub(super) last_waits: u32,
}

/// The most messages of another edge that are read before this edge does other work.
const READ_BETWEEN: usize = 128;

/// The most waits of an edge without connections for others to read its messages: it must not stay for one that hangs.
const MOST_LAST_WAITS: u32 = 2000;

impl HandoverPeers<'_> {
    /// Whether others may still read the last messages of this edge.
    pub(super) const fn may_wait_on(&self) -> bool {
        self.last_waits < MOST_LAST_WAITS
    }

    /// Returns the longest time that the edge may wait; `None` for no limit.
    pub(super) fn patience(&self, now: impl Fn() -> Duration) -> Option<Duration> {
        if self.is_behind || self.has_unread {
            return Some(Duration::ZERO);
        }
        let waits = self.blocked || self.owes;
        let looks = if waits { Some(AGAIN_AFTER) } else { self.after.as_ref().map(|_| LOOKS_EVERY) };
        looks.into_iter().chain(self.accepts_at.map(|at| at.saturating_sub(now()))).min()
    }
}

impl<'a, B: Backend> EdgeLoop<'_, 'a, B> {
    /// Sets the source of connections that another edge hands over.
    pub(super) fn taking_over(mut self, before: Option<&'a Receiver>) -> io::Result<Self> {
        if let (Some(before), Some(event_sources)) = (before, self.lane.event_sources()) {
            event_sources.watch(before.as_fd())?;
            self.peers.before = Some(before);
            if self.live.borrow_mut().follow_old_edge() {
                // Until the old edge stops, it alone has clients.
                self.lane.source().postpone_accepting();
                self.peers.accepts_at = Some(self.now() + ACCEPTS_AFTER);
                self.peers.parent = std::os::unix::process::parent_id();
                self.pay_old_edge();
            }
        }
        Ok(self)
    }

    /// Accepts descriptors from the parent process: reopened log files, certificates, and the destination of connections.
    pub(super) fn receive_descriptors(&mut self) {
        while let Some(given) = self.parent_link.and_then(ParentLink::next) {
            match given {
                Received::Successor(successor) => self.peers.named = Some(successor),
                Received::Certificates(vault) => {
                    match Renewed::open(vault.as_fd()).map(|renewed| renewed.spread(&self.present_listeners())) {
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
        // An edge between two others waits until the one before it hands over, because a box has one reader.
        if self.peers.after.is_some() || self.peers.has_given_up || self.live.borrow().awaits_old_edge() {
            return;
        }
        // The destination may have arrived after the last check for descriptors.
        self.receive_descriptors();
        match self.peers.named.take() {
            Some(successor) => {
                log::info!("handing connections over to the next server");
                let up = match successor.next() {
                    HandoverEvent::Piece(piece, _) => Up::greeted(&piece, self.live.borrow().edges()),
                    _ => None,
                };
                self.lane.source().begin_to_hand_over();
                match up {
                    Some(up) => self.begin_to_move(&successor, up),
                    None => self.live.borrow_mut().leave(&mut self.lane.source(), AppPool::with_workers(&self.apps)),
                }
                self.peers.after = Some(successor);
            }
            None => self.give_up_handing_over("the next server is not known"),
        }
    }

    /// Begins to move connections that stay open, and leaves the messages for this edge to the next one.
    fn begin_to_move(&self, successor: &Sender, up: Up) {
        self.unwatch_posts();
        if let Some(Err(error)) = self.lane.event_sources().map(|event_sources| event_sources.watch(successor.as_fd())) {
            log::error!("cannot watch the next edge: {error}");
        }
        self.live.borrow_mut().begin_to_move(up, self.now());
    }

    /// Gives up handing over, for the reason `why`: connections close after their next responses instead.
    fn give_up_handing_over(&mut self, why: &str) {
        log::error!("connections cannot be handed over, and close after their next responses: {why}");
        // A next edge that has not greeted has another box.
        let leaves_box = self.peers.after.is_none() || self.live.borrow().moves();
        (self.peers.after, self.peers.has_given_up) = (None, true);
        (self.peers.blocked, self.peers.is_behind) = (false, false);
        if leaves_box {
            self.unwatch_posts();
        }
        {
            let (mut live, mut engine) = (self.live.borrow_mut(), self.lane.source());
            let apps = &self.apps;
            if leaves_box {
                live.leave_box();
            }
            let has_workers = AppPool::with_workers(apps);
            live.lose_next_edge(&mut engine, |name| apps.iter().position(|app| app.is_named(name)), &has_workers);
            live.leave(&mut engine, has_workers);
        }
        self.lane.source().stop(false);
    }

    /// Hands over the connections that are ready for it, if the edge is doing so. `is_last`: whether nothing follows in this turn.
    pub(super) fn hand_over(&mut self, is_last: bool) {
        self.pay_old_edge();
        if self.peers.after.is_some() {
            self.hand_over_all(is_last);
        }
    }

    #[inline(never)]
    fn hand_over_all(&mut self, is_last: bool) {
        let Some(after) = &self.peers.after else { return };
        let (mut gone, mut is_late) = (false, false);
        let (mut is_behind, mut waits) = (false, false);
        if self.live.borrow().moves() {
            let now = self.now();
            let apps = &self.apps;
            let (mut live, mut engine) = (self.live.borrow_mut(), self.lane.source());
            // One that moves would miss a text that is due.
            live.beat(&mut engine, now);
            // An event that the engine still has would stay behind.
            live.take_socket_events(&mut engine);
            is_behind = true;
            for _ in 0..READ_BETWEEN {
                match after.next() {
                    HandoverEvent::Piece(piece, _) => {
                        if live.hear(&mut engine, &piece) == Heard::Accepting {
                            live.leave_immovable(&mut engine, AppPool::with_workers(apps));
                        }
                    }
                    HandoverEvent::End => {
                        gone = true;
                        break;
                    }
                    _ => {
                        is_behind = false;
                        break;
                    }
                }
            }
            live.take_socket_events(&mut engine);
            if !gone {
                is_behind |= live.move_some(&mut engine, |app| apps.get(app).map_or_else(String::new, AppPool::name));
            }
            // Requests that were just received are with no app yet.
            let opens = !is_last || self.apps.iter().any(AppPool::may_open_websocket);
            live.leave_bridge(opens);
            if let Err(error) = live.flush_up(after, now) {
                (gone, is_late) = (true, error.kind() == io::ErrorKind::TimedOut);
            }
            live.leave_bridge(opens);
            waits = live.owes_next_edge();
        }
        self.peers.is_behind = is_behind && !gone;
        if !gone && !self.live.borrow().next_edge_is_prepared() {
            self.peers.blocked = true;
            return;
        }
        let handed = self.lane.source().hand_over(|record, descriptor| match after.room() {
            Room::Yes => after.send(record, descriptor.as_fd()),
            Room::Later => Err(io::ErrorKind::WouldBlock.into()),
            Room::Gone => {
                gone = true;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        });
        self.peers.blocked = handed.is_err() || waits;
        if gone {
            let why = if is_late { "the next edge does not read its messages" } else { "the next edge has ended" };
            self.give_up_handing_over(why);
        }
    }

    /// Sends the old edge the messages that wait for it.
    fn pay_old_edge(&mut self) {
        let Some(before) = self.peers.before else { return };
        self.peers.owes = self.live.borrow_mut().flush_down(before);
        if !self.peers.has_unread && self.live.borrow().old_edge_is_stuck() {
            log::error!("the old edge does not read its messages: the connections that it still has are closed");
            before.end();
            // The end comes behind all that it has sent.
            self.peers.has_unread = true;
        }
    }

    /// Reads more of the old edge's messages, if there may be more, and does not wait for it too long.
    pub(super) fn take_over_more(&mut self) {
        if self.peers.has_unread {
            self.take_over();
        }
        if self.peers.accepts_at.is_some_and(|at| at <= self.now()) {
            self.peers.accepts_at = None;
            self.accept_without_old_edge();
        }
    }

    #[cold]
    fn accept_without_old_edge(&mut self) {
        if self.peers.before.is_some() {
            log::warn!("the old server has not handed its clients over yet: accepting connections beside it");
            self.lane.source().begin_accepting();
        } else if self.peers.parent == std::os::unix::process::parent_id() {
            self.live.borrow_mut().take_box();
            self.begin_in_place_of_old_edge();
        }
    }

    /// Continues with the connections that the previous server hands over.
    pub(super) fn take_over(&mut self) {
        self.peers.has_unread = false;
        let mut count = 0;
        while let Some(before) = self.peers.before {
            if count == READ_BETWEEN {
                self.peers.has_unread = true;
                return;
            }
            count += 1;
            match before.next() {
                HandoverEvent::Connection(record, descriptor) => {
                    if !self.lane.source().take_over(record, descriptor) {
                        log::error!("a connection of the old server was lost");
                    }
                }
                HandoverEvent::Piece(piece, descriptor) => {
                    let apps = &self.apps;
                    let place_of = |name: &str| apps.iter().position(|app| app.is_named(name));
                    let has_begun = {
                        let (mut live, mut engine) = (self.live.borrow_mut(), self.lane.source());
                        live.take_in(&mut engine, (&piece, descriptor), place_of)
                    };
                    if has_begun {
                        self.begin_in_place_of_old_edge();
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
                    (self.peers.before, self.peers.owes) = (None, false);
                    if !self.live.borrow_mut().forget_old_edge() {
                        self.peers.accepts_at = Some(self.now() + ENDS_WITHIN);
                    }
                }
            }
        }
    }

    /// Accepts connections, and reads the messages for this edge, because the old edge does neither any longer.
    fn begin_in_place_of_old_edge(&mut self) {
        self.peers.accepts_at = None;
        if let Err(error) = self.watch_posts() {
            log::error!("cannot watch the messages of other edges: {error}");
        }
        self.lane.source().begin_accepting();
        self.receive_posts();
        if self.slot.command() == WorkerCommand::HandOver {
            self.begin_to_hand_over();
        }
    }
}
