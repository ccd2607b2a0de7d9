//! The times of connections: until they are connected, answer, or have rested.

use super::{Failure, ProxyHost};
use crate::connection::{CONNECT, Connection};
use oribi_host::Outlet;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The time between two attempts to connect to an upstream whose queue is full.
pub(super) const AGAIN: Duration = Duration::from_millis(10);

impl ProxyHost {
    /// Wakes the lane at this time, or earlier.
    pub(super) fn arm(&mut self, outlet: &dyn Outlet, deadline: Instant) {
        if self.armed.is_some_and(|armed| armed <= deadline) {
            return;
        }
        match outlet.wake_after(Some(deadline.saturating_duration_since(Instant::now()))) {
            Ok(()) => self.armed = Some(deadline),
            Err(error) => log::error!("cannot set a timer for upstreams: {error}"),
        }
    }

    /// Tries again to connect to an upstream whose queue was full. Returns whether it is connected.
    fn connect_again(&mut self, token: u64, connection: &mut Connection) -> io::Result<bool> {
        let connected = connection.try_again(self.balance.address(connection.upstream).1)?;
        if connected {
            self.poller.add(connection.as_fd(), token)?;
            connection.deadline = self.response_timeout.map(|timeout| Instant::now() + timeout);
        }
        Ok(connected)
    }

    /// Handles deadlines that have passed.
    pub(super) fn see_to_deadlines(&mut self, outlet: &dyn Outlet) {
        let now = Instant::now();
        if self.armed.is_none_or(|armed| armed > now) {
            return;
        }
        self.armed = None;
        let due: Vec<u64> = self
            .connections
            .tokens()
            .filter(|(_, connection)| connection.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(token, _)| token)
            .collect();
        for token in due {
            let Some(mut connection) = self.connections.take(token) else { continue };
            if let Some(until) = connection.tries_until {
                match self.connect_again(token, &mut connection) {
                    Ok(true) => {
                        self.connections.put_back(token, connection);
                        self.advance(outlet, token);
                        continue;
                    }
                    Ok(false) if now < until => {
                        connection.deadline = Some(now + AGAIN);
                        self.connections.put_back(token, connection);
                        continue;
                    }
                    Ok(false) => {}
                    Err(error) => {
                        let failure = Failure { status: 502, why: &format!("cannot connect: {error}") };
                        let outcome = self.fail(outlet, &mut connection, &failure);
                        self.conclude(outlet, token, connection, outcome);
                        continue;
                    }
                }
            }
            let why = match (connection.connecting, self.response_timeout) {
                (true, _) => format!("no connection within {} s", CONNECT.as_secs()),
                (false, timeout) => format!("nothing came for {} s", timeout.unwrap_or_default().as_secs_f64()),
            };
            let outcome = self.fail(outlet, &mut connection, &Failure { status: 504, why: &why });
            self.conclude(outlet, token, connection, outcome);
        }
        let next = self.connections.tokens().filter_map(|(_, connection)| connection.deadline).min();
        if let Some(next) = next {
            self.arm(outlet, next);
        }
    }
}
