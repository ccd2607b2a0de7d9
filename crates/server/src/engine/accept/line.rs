//! The line: how lanes that share their listeners carry out what the [policy](super::policy) decides.
//!
//! Where the kernel tells one lane of a connection, a lane that leaves it to others rings a bell; where it tells all, they know.

use super::policy::{Decision, Situation, Work};
use super::{Accepting, Deadline, Engine};
use crate::listen::{Bell, Door};
use crate::scoreboard::Presence;
use oribi_io::{Backend, Event};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often a lane that stands aside looks whether it may come back: who comes meanwhile waits no longer for that.
const LOOKS_AFTER: Duration = Duration::from_millis(2);

/// What a lane knows of the line that it stands in with others.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Line {
    /// It has been told of a connection with the news that are being handled.
    told: bool,
    /// It is counted as one that has nothing to do. That it was woken to look at a listener does not make it busy.
    idle: bool,
    /// See [`Situation::left_until`].
    left_until: Option<Duration>,
    /// The first request of the client that came last is expected until then.
    pub(super) expects_until: Duration,
    /// Whoever is told of has been accepted already.
    pub(super) ahead: bool,
}

/// Who has how many connections, among lanes that share their listeners.
#[derive(Clone, Copy, Debug)]
pub struct Census<'a> {
    /// Connections of this worker, whose lanes share the count.
    pub here: &'a AtomicU32,
    /// Connections of all workers.
    pub everywhere: &'a AtomicU32,
    /// How many lanes there are in all.
    pub lanes: usize,
    /// How many of them each worker has.
    pub lanes_each: usize,
    /// Lanes of this worker that have nothing to do.
    pub idle: &'a AtomicU32,
    /// All workers, this one among them.
    pub workers: &'a [Presence],
    /// Where a lane leaves a connection to another.
    pub bell: Option<&'a Bell>,
}

impl Census<'_> {
    /// The fewest connections of a lane that has nothing to do. `mine` says whether the lane that asks is counted among those.
    fn fewest_of_idle(&self, mine: bool) -> Option<usize> {
        let counted = |worker: &&Presence| u32::from(mine && std::ptr::eq(worker.idle, self.idle));
        let idle = self.workers.iter().filter(|worker| worker.idle.load(Relaxed) > counted(worker));
        idle.map(|worker| worker.connections.load(Relaxed) as usize / self.lanes_each.max(1)).min()
    }
}

impl<'a, B: Backend> Engine<'a, B> {
    /// Somebody waits at a door, or another lane says so.
    pub(in crate::engine) fn hear(&mut self, door: usize) {
        self.hear_of_connections();
        let rung = door >= self.doors.len();
        if self.accepting != Accepting::Yes {
            // This lane has left the line since. When it did so it told others of who waited at the door.
            if rung {
                self.ring();
            }
            return;
        }
        if !rung {
            if !self.shares(door) || self.is_mine() {
                self.accept(door);
            }
        } else if let Some(bell) = self.bell() {
            bell.answer();
            for door in 0..self.doors.len() {
                if self.accepting == Accepting::Yes && self.shares(door) && self.is_mine() {
                    self.accept(door);
                }
            }
        }
    }

    /// Decides on a connection that this lane was told of. If it is left to others, this lane leaves the line and tells the next.
    fn is_mine(&mut self) -> bool {
        let decision = if self.line.ahead { Decision::Take } else { self.situation().decide() };
        match decision {
            Decision::Take => {
                self.line.left_until = None;
                true
            }
            Decision::StandAside(until) => {
                self.line.left_until = Some(until);
                self.unlisten();
                self.ring();
                self.accepting = Accepting::Aside(until);
                false
            }
        }
    }

    /// What the policy wants to know.
    pub(super) fn situation(&self) -> Situation {
        // Those that wait for a prompt host are about to be answered, and may go.
        let leaving = if self.prompt { self.ready.len() } else { 0 };
        let census = self.census.as_ref();
        Situation {
            now: self.backend.now(),
            work: self.work(),
            connections: self.connections.len().saturating_sub(leaving),
            share: census.map_or(0, |census| census.everywhere.load(Relaxed) as usize / census.lanes.max(1)),
            fewest_of_idle: census.and_then(|census| census.fewest_of_idle(self.line.idle)),
            left_until: self.line.left_until,
        }
    }

    pub(super) fn work(&self) -> Work {
        let is_of_socket = |event: &Event| matches!(event, Event::Socket { .. });
        if self.prompt {
            Work::None
        } else if !self.ready.is_empty() || self.events[self.handled..].iter().any(is_of_socket) {
            Work::Waiting
        } else {
            self.expects_until().map_or(Work::None, Work::Expected)
        }
    }

    /// Until when the first request of a client is expected. Where several clients have sent nothing, they come without a request,
    /// and the next one will, too: waiting for each of them would take one client in that time and no more.
    fn expects_until(&self) -> Option<Duration> {
        let until = self.line.expects_until;
        (!self.prompt && self.backend.now() < until && self.deadlines.is_single(Deadline::Head)).then_some(until)
    }

    /// Called before this lane is busy for a time that nobody knows: a connection that it was told of and has yet to come to is left
    /// to a lane that is idle.
    pub(in crate::engine) fn tell_others(&mut self) {
        self.count_as_idle(false);
        if self.line.told && self.census.is_some_and(|census| census.fewest_of_idle(false).is_some()) {
            self.line.told = false;
            self.ring();
        }
    }

    /// Where the kernel tells one lane of a connection, that lane has to tell the others.
    fn bell(&self) -> Option<&'a Bell> {
        self.census.filter(|census| B::TELLS_ONE && census.lanes > 1)?.bell
    }

    fn ring(&self) {
        if let Some(bell) = self.bell() {
            bell.ring();
        }
    }

    fn somebody_waits(&self) -> bool {
        let mut doors = self.doors.iter().enumerate().filter(|(number, _)| self.shares(*number));
        doors.any(|(number, door)| self.backend.is_waited_at(number, door.socket))
    }

    /// Tells the next one of those whom this lane may have been told of and will not take.
    pub(super) fn ring_if_waited_for(&self) {
        if let Some(bell) = self.bell()
            && self.somebody_waits()
        {
            bell.ring();
        }
    }

    /// Waits at the bell, too.
    pub(in crate::engine) fn hear_the_bell(&mut self) -> io::Result<()> {
        match self.bell() {
            Some(bell) => self.backend.listen(self.doors.len(), bell.as_fd()),
            None => Ok(()),
        }
    }

    /// The backend is about to be asked for news. A lane that will wait for them, and not for a request that it expects, is idle.
    /// So is one that stands aside, since it will soon look whether it has the fewest connections of those that are.
    pub(in crate::engine) fn begin_waiting(&mut self, timeout: Option<Duration>) {
        if self.line.left_until.is_some() {
            self.look_after_those_left();
        }
        let takes = matches!(self.accepting, Accepting::Yes | Accepting::Aside(_));
        if takes && timeout != Some(Duration::ZERO) && self.expects_until().is_none() {
            self.count_as_idle(true);
        }
    }

    /// The backend has told what stands behind the `known` events.
    pub(in crate::engine) fn end_waiting(&mut self, known: usize) {
        if !self.has_company() {
            return;
        }
        let news = &self.events[known..];
        if news.iter().any(|event| !matches!(event, Event::Connection(_))) {
            self.count_as_idle(false);
        }
        self.hear_of_connections();
    }

    /// Notes whether there are connections among the news that are yet to be handled.
    pub(in crate::engine) fn hear_of_connections(&mut self) {
        let news = &self.events[self.handled..];
        self.line.told = news.iter().any(|event| matches!(event, Event::Connection(_)));
    }

    pub(in crate::engine) fn count_as_idle(&mut self, idle: bool) {
        let Some(census) = self.census.filter(|census| census.lanes > 1 && self.line.idle != idle) else { return };
        self.line.idle = idle;
        if idle {
            census.idle.fetch_add(1, Relaxed);
        } else {
            census.idle.fetch_sub(1, Relaxed);
        }
    }

    /// Ends standing aside early if those who were left to others have been taken, or if this lane would take them now.
    fn look_after_those_left(&mut self) {
        let taken = !self.somebody_waits();
        if taken {
            self.line.left_until = None;
        }
        if matches!(self.accepting, Accepting::Aside(_)) && (taken || self.situation().decide() == Decision::Take) {
            self.join_line();
        }
    }

    /// When something is due that has to do with new connections.
    pub(in crate::engine) fn due_at_doors(&self) -> Option<Duration> {
        match self.accepting {
            Accepting::Paused(until) => Some(until),
            Accepting::Aside(until) => Some(until.min(self.backend.now() + LOOKS_AFTER)),
            // Then it is idle.
            Accepting::Yes if self.has_company() => self.expects_until(),
            Accepting::Yes | Accepting::Left | Accepting::Never => None,
        }
    }

    /// Whether there are other lanes.
    fn has_company(&self) -> bool {
        self.census.is_some_and(|census| census.lanes > 1)
    }

    /// Whether other lanes take connections at the same door.
    pub(in crate::engine) fn shares(&self, door: usize) -> bool {
        self.doors[door].shared && self.has_company()
    }

    /// The kernel wakes the one who has waited at the listener longest and is asleep, which is always the same one while there
    /// is little to do. Who leaves the line and joins it again stands at its end. Where it wakes all, there is no such order.
    pub(super) fn let_others_go_first(&mut self, door: usize) {
        if !B::TELLS_ONE {
            return;
        }
        let Door { listener, socket, .. } = self.doors[door];
        let rejoined = self.backend.unlisten(door, socket).and_then(|()| self.backend.listen(door, socket));
        if let Err(error) = rejoined {
            log::error!("cannot wait at {} again: {error}", self.listeners[listener].display);
        }
    }

    /// Leaves new connections to other lanes until the next request is asked for: who came here now would wait behind an app that
    /// is held up. A lane that is alone, or alone at its doors, may as well take them.
    pub fn leave_line(&mut self) {
        if self.accepting == Accepting::Yes && (0..self.doors.len()).any(|door| self.shares(door)) {
            self.unlisten();
            self.ring_if_waited_for();
            self.accepting = Accepting::Left;
        }
    }

    pub(in crate::engine) fn join_line(&mut self) {
        self.listen();
        self.accepting = Accepting::Yes;
    }

    fn listen(&mut self) {
        for (number, door) in self.doors.iter().enumerate() {
            if let Err(error) = self.backend.listen(number, door.socket) {
                log::error!("cannot accept on {} again: {error}", self.listeners[door.listener].display);
            }
        }
        if let Err(error) = self.hear_the_bell() {
            log::error!("cannot wait at the bell again: {error}");
        }
    }

    pub(super) fn unlisten(&mut self) {
        self.count_as_idle(false);
        for (number, door) in self.doors.iter().enumerate() {
            if let Err(error) = self.backend.unlisten(number, door.socket) {
                log::error!("cannot stop watching {}: {error}", self.listeners[door.listener].display);
            }
        }
        if let Some(bell) = self.bell()
            && let Err(error) = self.backend.unlisten(self.doors.len(), bell.as_fd())
        {
            log::error!("cannot stop watching the bell: {error}");
        }
    }
}
