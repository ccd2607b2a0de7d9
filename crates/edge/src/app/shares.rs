//! Fair shares of the queue: a connection with many requests does not delay the others.
//!
//! A connection that carries many requests (HTTP/2, FastCGI) could fill the queue, so that all other requests would wait
//! after them. While there are no other requests, that is right: all workers serve the one connection. When a request of
//! another connection arrives, the queued requests of the first connection are removed from the queue and wait *aside*. The
//! new request takes their place. The requests aside return to the queue one by one: the next one of a connection when no
//! request of that connection is left in the queue. In addition, requests return as long as the queue holds too few to keep
//! workers busy; these requests make room for the next new request in the same way.
//!
//! The requests of one connection keep their order. No request waits forever: if no worker has a request of a connection, the
//! first queued request of that connection keeps its place in the queue. And if that first request had to make room, it does
//! so only once.

use super::AppPool;
use oribi_io::Backend;
use oribi_pool::Ticket;
use std::collections::VecDeque;

/// The number of requests to which the queue is filled while others wait aside, so that workers find requests while the edge
/// is busy; with many workers it is twice their number instead. Each of these requests costs the edge work when a request of
/// another connection arrives.
const LEAST_IN_QUEUE: usize = 16;

/// The requests of a connection that may carry several at the same time.
#[derive(Debug, Default)]
struct Share {
    /// The number of the connection's requests in the pool, waiting or not.
    all: usize,
    /// The connection's requests that wait outside of the queue, in their order.
    aside: VecDeque<Ticket>,
    /// The last request of the connection that was put into the queue. Until a worker has taken it, the connection has a
    /// request in the queue.
    last: Option<Ticket>,
    /// Whether the first request aside has made room for another connection before.
    has_made_room: bool,
    /// The request in the queue that does not make room, because it has done so before.
    stays: Option<Ticket>,
    /// The number of the connection's requests in the queue, counted while [`AppPool::clear_queue`] runs.
    counted: usize,
}

/// The shares of all connections.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The shares, by connection number.
    of: Vec<Share>,
    /// The connections with requests aside, in the order in which they take turns.
    turns: VecDeque<u32>,
    /// The number of requests aside.
    aside: usize,
    /// The connection to which all requests in the queue belong. `None` if they belong to several connections, or to one that
    /// carries only one request at a time.
    alone: Option<u32>,
    /// Whether the queue may contain a request that has to make room for a new one: a connection has more than one request in
    /// the queue, or a first one that has not made room before.
    loose: bool,
    /// Whether workers may take requests in another order than that of their arrival.
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

    /// Whether workers may take requests in another order than that of their arrival.
    pub(super) const fn are_out_of_order(&self) -> bool {
        self.disordered
    }

    /// Returns the first request aside of each connection. The oldest of all requests aside is among these.
    pub(super) fn first_aside_of_each(&self) -> impl Iterator<Item = Ticket> {
        self.turns.iter().filter_map(|connection| self.of[*connection as usize].aside.front().copied())
    }

    /// Counts a request that enters the pool, of a connection that may carry several requests.
    #[inline(never)]
    pub(super) fn begin(&mut self, connection: u32) {
        self.share(connection).all += 1;
    }

    /// Removes a request that has ended from the share of its connection.
    #[inline(never)]
    pub(super) fn end(&mut self, connection: u32, ticket: Ticket) {
        let Some(share) = self.of.get_mut(connection as usize) else { return };
        share.all -= 1;
        if !share.aside.is_empty() {
            self.forget(connection, ticket);
        }
    }

    /// Removes a request of a connection from the requests aside.
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

    /// Records that a request was put into the queue. `is_only`: whether it is the only request there.
    #[inline]
    fn queued(&mut self, connection: u32, ticket: Ticket, is_only: bool) {
        self.share(connection).last = Some(ticket);
        if is_only {
            (self.alone, self.loose) = (Some(connection), false);
        } else if self.alone != Some(connection) {
            self.alone = None;
        }
    }

    /// Puts a request aside, after the other requests aside of its connection.
    fn put_aside(&mut self, connection: u32, ticket: Ticket) {
        self.share(connection).aside.push_back(ticket);
        self.count_aside(connection);
        self.disordered = true;
    }

    /// Puts a request aside that was in the queue, before the other requests aside of its connection. Called for the last
    /// request first.
    fn take_aside(&mut self, connection: u32, ticket: Ticket) {
        self.share(connection).aside.push_front(ticket);
        self.count_aside(connection);
    }

    /// Counts one more request aside. If it is the only one of its connection, the connection gets a turn.
    fn count_aside(&mut self, connection: u32) {
        if self.share(connection).aside.len() == 1 {
            self.turns.push_back(connection);
        }
        self.aside += 1;
    }

    /// Takes the next request of a connection from the requests aside, for the queue.
    fn next_of(&mut self, connection: u32) -> Option<Ticket> {
        let ticket = self.of[connection as usize].aside.pop_front()?;
        self.aside -= 1;
        Some(ticket)
    }
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Returns the number of requests that wait for a worker, in the queue or aside.
    pub(in super::super) fn waiting_requests(&mut self) -> usize {
        self.pool.depth() + self.table.shares.aside()
    }

    /// Makes room in the queue for a new request. Returns whether the new request must wait aside instead. Called before the
    /// request is submitted. `connection` is its connection, if that may carry several requests.
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
        // Usually no request of this connection had to make room. If one had, it must be answered before the new request.
        connection.is_some_and(|number| !self.table.shares.share(number).aside.is_empty())
    }

    /// Records where a submitted request waits. `aside`: whether it waits aside, and not in the queue.
    #[inline]
    pub(super) fn record_submission(&mut self, connection: Option<u32>, ticket: Ticket, aside: bool) {
        match connection {
            None => self.table.shares.alone = None,
            Some(connection) if aside => self.table.shares.put_aside(connection, ticket),
            // The new request is counted in the depth already.
            Some(connection) => self.table.shares.queued(connection, ticket, self.pool.depth() <= 1),
        }
    }

    /// Records a request that was put into the queue for another try, perhaps not in the order of its connection.
    pub(super) fn note_other_try(&mut self, connection: Option<u32>, ticket: Ticket) {
        self.record_submission(connection, ticket, false);
        self.table.shares.loose |= connection.is_some();
    }

    /// Moves requests from the queue aside, to make room for a request of another connection.
    fn clear_queue(&mut self) {
        let Self { table, pool, .. } = self;
        let mut left = std::mem::take(&mut table.shares.left);
        // Counts the queued requests of each connection. The number of requests that workers have follows from that.
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
                // The value is zero after the first request of the connection has been visited.
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

    /// Moves requests whose turns have come from aside into the queue.
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
        let enough = LEAST_IN_QUEUE.max(2 * self.settings.workers.most());
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

    /// Gives a connection the last turn, if it still has requests aside.
    fn go_to_the_end(&mut self, connection: u32) {
        let shares = &mut self.table.shares;
        if !shares.of[connection as usize].aside.is_empty() {
            shares.turns.push_back(connection);
        }
    }

    /// Moves the next request of a connection from aside into the queue. `enough`: the number of queued requests that keeps
    /// workers busy.
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
            // In a long queue the order of two requests makes little difference, and to find a request there would take long.
            shares.loose |= depth <= enough;
        }
        let now = self.now();
        self.timers.submitted(now, self.deadlines.are_set());
    }
}
