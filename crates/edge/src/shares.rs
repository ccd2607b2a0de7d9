//! Shares of the queue: no connection keeps others waiting by the number of its requests.
//!
//! A connection that carries many requests (HTTP/2, FastCGI) could fill the queue, and everybody else would wait behind all of them.
//! While nobody else waits, that is right: all workers are for the one connection. When a request of another connection comes,
//! the requests that the first has in the queue are taken out again and wait *aside*. The one that comes takes their place, and the
//! others follow one by one, each when the queue has none of its connection any more. Besides, so many of them are in the queue that
//! workers always find some; these make room for the next that comes in the same way.
//!
//! The requests of one connection keep their order. None of them waits for ever: a connection of which no worker has a request keeps
//! its first place in the queue, and a request that had to make room at the head of its connection's does not do so again.

use super::EdgeLoop;
use oribi_io::Backend;
use oribi_pool::Ticket;
use std::collections::VecDeque;

/// If there are so many requests, at least so many of them are in the queue, and twice as many as there are workers: these are to find
/// some while the edge does something else. Each of them makes work for the edge when a request of another connection comes.
const LEAST_IN_QUEUE: usize = 16;

/// The requests of a connection that carries several.
#[derive(Debug, Default)]
struct Share {
    /// Those in the pool, whether they wait or not.
    all: usize,
    /// Those that wait outside of the queue, in their order.
    aside: VecDeque<Ticket>,
    /// The last one that was put into the queue: if no worker has taken it, some of this connection wait in the queue.
    last: Option<Ticket>,
    /// The first of those that are aside has made room for another connection's.
    has_made_room: bool,
    /// The one in the queue that makes room for no other: it has done so.
    stays: Option<Ticket>,
    /// How many of those that wait have been counted while the queue is looked through.
    seen: usize,
}

/// The shares of all connections.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// By the number of the connection.
    of: Vec<Share>,
    /// The connections that have requests aside, in the order of their turns.
    turns: VecDeque<u32>,
    /// How many requests are aside.
    aside: usize,
    /// All requests in the queue are of this connection; `None`: they are not, or it carries no others.
    alone: Option<u32>,
    /// Some connection has more than one request in the queue, or one that may have to make room.
    loose: bool,
    /// Requests may have left the order in which they came.
    disordered: bool,
    /// The requests that are being taken out of the queue.
    left: Vec<Ticket>,
}

impl Shares {
    /// The number of requests that wait outside of the queue.
    #[inline]
    pub(super) const fn aside(&self) -> usize {
        self.aside
    }

    /// Whether requests may wait in another order than that in which they came.
    pub(super) const fn are_disordered(&self) -> bool {
        self.disordered
    }

    /// The oldest requests of all that are aside are among these.
    pub(super) fn first_ones_aside(&self) -> impl Iterator<Item = Ticket> {
        self.turns.iter().filter_map(|connection| self.of[*connection as usize].aside.front().copied())
    }

    /// A request of a connection that may carry others has come into the pool.
    #[inline(never)]
    pub(super) fn begin(&mut self, connection: u32) {
        self.share(connection).all += 1;
    }

    /// A request has ended.
    #[inline(never)]
    pub(super) fn end(&mut self, connection: u32, ticket: Ticket) {
        let Some(share) = self.of.get_mut(connection as usize) else { return };
        share.all -= 1;
        if !share.aside.is_empty() {
            self.forget(connection, ticket);
        }
    }

    /// A request that was aside does not wait any more.
    #[cold]
    fn forget(&mut self, connection: u32, ticket: Ticket) {
        let aside = &mut self.of[connection as usize].aside;
        let Some(position) = aside.iter().position(|one| *one == ticket) else { return };
        aside.remove(position);
        self.aside -= 1;
        if aside.is_empty() {
            self.turns.retain(|one| *one != connection);
        }
    }

    fn share(&mut self, connection: u32) -> &mut Share {
        let index = connection as usize;
        if self.of.len() <= index {
            self.of.resize_with(index + 1, Share::default);
        }
        &mut self.of[index]
    }

    /// A request was put into the queue, in which it is the only one, or not.
    #[inline]
    fn queued(&mut self, connection: u32, ticket: Ticket, is_only: bool) {
        self.share(connection).last = Some(ticket);
        if is_only {
            (self.alone, self.loose) = (Some(connection), false);
        } else if self.alone != Some(connection) {
            self.alone = None;
        }
    }

    /// A request waits outside of the queue, behind those of its connection.
    fn put_aside(&mut self, connection: u32, ticket: Ticket) {
        self.share(connection).aside.push_back(ticket);
        self.count_aside(connection);
        self.disordered = true;
    }

    /// A request was taken out of the queue, and so will be, or were, all that came before it: it is put before those of its
    /// connection that are aside.
    fn take_aside(&mut self, connection: u32, ticket: Ticket) {
        self.share(connection).aside.push_front(ticket);
        self.count_aside(connection);
    }

    /// One more request of a connection is aside: with the first one it gets a turn.
    fn count_aside(&mut self, connection: u32) {
        if self.share(connection).aside.len() == 1 {
            self.turns.push_back(connection);
        }
        self.aside += 1;
    }

    /// Takes the next request of a connection that is to go into the queue.
    fn next_of(&mut self, connection: u32) -> Option<Ticket> {
        let ticket = self.of[connection as usize].aside.pop_front()?;
        self.aside -= 1;
        Some(ticket)
    }
}

impl<B: Backend> EdgeLoop<'_, B> {
    /// The number of requests that wait for a worker.
    pub(super) fn waiting_requests(&mut self) -> usize {
        self.pool.depth() + self.table.shares.aside()
    }

    /// Called before a request is submitted, with its connection if that carries several: makes room for it in the queue, or returns
    /// that it is to wait aside.
    #[inline]
    pub(super) fn make_room(&mut self, connection: Option<u32>) -> bool {
        let Shares { alone, loose, .. } = self.table.shares;
        if connection.is_none() && alone.is_none() && !loose { false } else { self.make_room_among_others(connection) }
    }

    #[inline(never)]
    fn make_room_among_others(&mut self, connection: Option<u32>) -> bool {
        let depth = self.pool.depth();
        let Self { table, pool, .. } = self;
        let shares = &mut table.shares;
        if let Some(number) = connection {
            let is_alone = shares.alone == connection;
            let share = shares.share(number);
            if !share.aside.is_empty() {
                return true;
            }
            if depth == 0 || is_alone {
                return false;
            }
            if share.last.is_some_and(|last| pool.is_queued(last)) {
                return true;
            }
        }
        if depth > 0 && (shares.loose || shares.alone.is_some()) {
            self.clear_queue();
        }
        // Mostly it has no others in the queue; if it has, these come first.
        connection.is_some_and(|number| !self.table.shares.share(number).aside.is_empty())
    }

    /// Called when a request has been submitted.
    #[inline]
    pub(super) fn note_place(&mut self, connection: Option<u32>, ticket: Ticket, aside: bool) {
        match connection {
            None => self.table.shares.alone = None,
            Some(connection) if aside => self.table.shares.put_aside(connection, ticket),
            // It is one of them.
            Some(connection) => self.table.shares.queued(connection, ticket, self.pool.depth() <= 1),
        }
    }

    /// Called when a request was put into the queue once more, which may not be its place in the order of its connection's.
    pub(super) fn note_other_try(&mut self, connection: Option<u32>, ticket: Ticket) {
        self.note_place(connection, ticket, false);
        self.table.shares.loose |= connection.is_some();
    }

    /// Takes those out of the queue that are to make room for a request of another connection.
    fn clear_queue(&mut self) {
        let Self { table, pool, .. } = self;
        let mut left = std::mem::take(&mut table.shares.left);
        // How many of each connection wait, to know how many do not.
        for one_more in [false, true] {
            for ticket in pool.waiting() {
                if let Some(connection) = table.connection(ticket) {
                    let share = table.shares.share(connection);
                    share.seen = if one_more { share.seen + 1 } else { 0 };
                }
            }
        }
        pool.set_aside(
            |ticket| {
                let Some(connection) = table.connection(ticket) else { return false };
                let share = table.shares.share(connection);
                // 0: the first of them has been looked at.
                let waiting = std::mem::take(&mut share.seen);
                let is_first = waiting > 0;
                let with_workers = share.all.saturating_sub(waiting + share.aside.len());
                if is_first && (with_workers == 0 || share.stays == Some(ticket)) {
                    share.last = Some(ticket);
                    return false;
                }
                share.has_made_room |= is_first;
                true
            },
            &mut left,
        );
        for ticket in left.drain(..).rev() {
            if let Some(connection) = table.connection(ticket) {
                table.shares.take_aside(connection, ticket);
            }
        }
        let shares = &mut table.shares;
        (shares.left, shares.alone, shares.loose, shares.disordered) = (left, None, false, true);
    }

    /// Puts requests into the queue whose turn has come.
    #[inline]
    pub(super) fn give_turns(&mut self) {
        if !self.table.shares.turns.is_empty() {
            self.fill_queue();
        } else if self.table.shares.disordered && self.pool.depth() == 0 {
            self.table.shares.disordered = false;
        }
    }

    #[inline(never)]
    fn fill_queue(&mut self) {
        let enough = LEAST_IN_QUEUE.max(2 * self.settings.workers);
        for _ in 0..self.table.shares.turns.len() {
            let Some(connection) = self.table.shares.turns.pop_front() else { return };
            let share = &mut self.table.shares.of[connection as usize];
            if !share.last.is_some_and(|last| self.pool.is_queued(last)) {
                self.give_turn(connection, enough);
            }
            self.go_to_the_end(connection);
        }
        while self.pool.depth() < enough
            && let Some(connection) = self.table.shares.turns.pop_front()
        {
            self.give_turn(connection, enough);
            self.go_to_the_end(connection);
        }
    }

    /// The next turn of a connection comes after those of the others.
    fn go_to_the_end(&mut self, connection: u32) {
        let shares = &mut self.table.shares;
        if !shares.of[connection as usize].aside.is_empty() {
            shares.turns.push_back(connection);
        }
    }

    /// Puts the next request of a connection into the queue.
    fn give_turn(&mut self, connection: u32, enough: usize) {
        let shares = &mut self.table.shares;
        let Some(ticket) = shares.next_of(connection) else { return };
        if !self.pool.put_back(ticket) {
            return;
        }
        let depth = self.pool.depth();
        shares.queued(connection, ticket, depth <= 1);
        let share = &mut shares.of[connection as usize];
        if std::mem::take(&mut share.has_made_room) {
            share.stays = Some(ticket);
        } else {
            // In a long queue it makes no difference which of two comes first, and to look for it would take long.
            shares.loose |= depth <= enough;
        }
        let now = self.now();
        self.timers.submitted(now, self.deadlines.are_set());
    }
}
