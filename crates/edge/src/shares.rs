//! Fair shares of the queue: a connection with many requests does not delay the others.
//!
//! A connection that carries many requests (HTTP/2, FastCGI) could fill the queue, and all other requests would wait after
//! them. That is right while there are no others: all workers serve the one connection. When a request of another connection
//! arrives, the queued requests of the first one are removed and wait *aside*. The new request takes their place, and the
//! others follow one by one, each when the queue no longer has any of its connection. In addition, the queue always holds
//! enough of them to keep workers busy; these make room for the next new request in the same way.
//!
//! The requests of one connection keep their order. None of them waits forever: a connection of which no worker has a request
//! keeps its first place in the queue, and a request that had to make room as the first of its connection does not do so
//! again.

use super::EdgeLoop;
use oribi_io::Backend;
use oribi_pool::Ticket;
use std::collections::VecDeque;

/// The least number of requests in the queue while others wait aside, besides twice the number of workers, so that workers
/// find requests while the edge is busy. Each of them costs the edge work when a request of another connection arrives.
const LEAST_IN_QUEUE: usize = 16;

/// The requests of a connection that carries several.
#[derive(Debug, Default)]
struct Share {
    /// The number of its requests in the pool, waiting or not.
    all: usize,
    /// Its requests that wait outside of the queue, in their order.
    aside: VecDeque<Ticket>,
    /// The last request that was put into the queue: while no worker has taken it, the connection has requests in the queue.
    last: Option<Ticket>,
    /// Whether the first of those aside has made room for another connection.
    has_made_room: bool,
    /// The request in the queue that does not make room again.
    stays: Option<Ticket>,
    /// The number of waiting requests counted during a pass over the queue.
    counted: usize,
}

/// The shares of all connections.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The shares, by connection number.
    of: Vec<Share>,
    /// The connections with requests aside, in the order of their turns.
    turns: VecDeque<u32>,
    /// The number of requests aside.
    aside: usize,
    /// The connection to which all requests in the queue belong; `None` if they belong to several, or if the connection
    /// carries only one.
    alone: Option<u32>,
    /// Whether a connection has more than one request in the queue, or one that may have to make room.
    loose: bool,
    /// Whether requests may be out of their order of arrival.
    disordered: bool,
    /// A buffer for the requests that are being removed from the queue.
    left: Vec<Ticket>,
}

impl Shares {
    /// Returns the number of requests that wait outside of the queue.
    #[inline]
    pub(super) const fn aside(&self) -> usize {
        self.aside
    }

    /// Whether requests may wait out of their order of arrival.
    pub(super) const fn are_out_of_order(&self) -> bool {
        self.disordered
    }

    /// Returns the first request aside of each connection; the oldest request is among these.
    pub(super) fn first_aside_of_each(&self) -> impl Iterator<Item = Ticket> {
        self.turns.iter().filter_map(|connection| self.of[*connection as usize].aside.front().copied())
    }

    /// Counts a request in the pool for a connection that may carry others.
    #[inline(never)]
    pub(super) fn begin(&mut self, connection: u32) {
        self.share(connection).all += 1;
    }

    /// Removes a request that has ended.
    #[inline(never)]
    pub(super) fn end(&mut self, connection: u32, ticket: Ticket) {
        let Some(share) = self.of.get_mut(connection as usize) else { return };
        share.all -= 1;
        if !share.aside.is_empty() {
            self.forget(connection, ticket);
        }
    }

    /// Removes a request from those aside.
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

    /// Records a request that was put into the queue; `is_only` if it is the only one there.
    #[inline]
    fn queued(&mut self, connection: u32, ticket: Ticket, is_only: bool) {
        self.share(connection).last = Some(ticket);
        if is_only {
            (self.alone, self.loose) = (Some(connection), false);
        } else if self.alone != Some(connection) {
            self.alone = None;
        }
    }

    /// Puts a request aside, after those of its connection.
    fn put_aside(&mut self, connection: u32, ticket: Ticket) {
        self.share(connection).aside.push_back(ticket);
        self.count_aside(connection);
        self.disordered = true;
    }

    /// Puts a request from the queue aside, before those of its connection. Called for the last one first.
    fn take_aside(&mut self, connection: u32, ticket: Ticket) {
        self.share(connection).aside.push_front(ticket);
        self.count_aside(connection);
    }

    /// Counts one more request aside; the first one of a connection gives it a turn.
    fn count_aside(&mut self, connection: u32) {
        if self.share(connection).aside.len() == 1 {
            self.turns.push_back(connection);
        }
        self.aside += 1;
    }

    /// Takes the next request of a connection for the queue.
    fn next_of(&mut self, connection: u32) -> Option<Ticket> {
        let ticket = self.of[connection as usize].aside.pop_front()?;
        self.aside -= 1;
        Some(ticket)
    }
}

impl<B: Backend> EdgeLoop<'_, B> {
    /// Returns the number of requests that wait for a worker.
    pub(super) fn waiting_requests(&mut self) -> usize {
        self.pool.depth() + self.table.shares.aside()
    }

    /// Makes room in the queue for a new request, or returns that it must wait aside. Called before it is submitted, with its
    /// connection if that carries several.
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
        // Usually the connection has no others in the queue; if it has, these go first.
        connection.is_some_and(|number| !self.table.shares.share(number).aside.is_empty())
    }

    /// Records the place of a request that has been submitted.
    #[inline]
    pub(super) fn record_submission(&mut self, connection: Option<u32>, ticket: Ticket, aside: bool) {
        match connection {
            None => self.table.shares.alone = None,
            Some(connection) if aside => self.table.shares.put_aside(connection, ticket),
            // The new request is counted in the depth.
            Some(connection) => self.table.shares.queued(connection, ticket, self.pool.depth() <= 1),
        }
    }

    /// Records a request that was put into the queue again, perhaps out of the order of its connection.
    pub(super) fn note_other_try(&mut self, connection: Option<u32>, ticket: Ticket) {
        self.record_submission(connection, ticket, false);
        self.table.shares.loose |= connection.is_some();
    }

    /// Removes requests from the queue to make room for one of another connection.
    fn clear_queue(&mut self) {
        let Self { table, pool, .. } = self;
        let mut left = std::mem::take(&mut table.shares.left);
        // Counts the waiting requests of each connection, which gives the number of those that workers have.
        for one_more in [false, true] {
            for ticket in pool.waiting() {
                if let Some(connection) = table.connection(ticket) {
                    let share = table.shares.share(connection);
                    share.counted = if one_more { share.counted + 1 } else { 0 };
                }
            }
        }
        pool.set_aside(
            |ticket| {
                let Some(connection) = table.connection(ticket) else { return false };
                let share = table.shares.share(connection);
                // 0 after the first of them has been visited.
                let waiting = std::mem::take(&mut share.counted);
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

    /// Puts requests whose turns have come into the queue.
    #[inline]
    pub(super) fn submit_due(&mut self) {
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

    /// Moves a connection to the end of the turns.
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
            // In a long queue the order of two requests makes no difference, and finding one would take long.
            shares.loose |= depth <= enough;
        }
        let now = self.now();
        self.timers.submitted(now, self.deadlines.are_set());
    }
}
