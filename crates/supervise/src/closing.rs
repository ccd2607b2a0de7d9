//! Stops accepting without losing queued connections or half-done handshakes. The kernel turns new connections away;
//! connections that have arrived, or whose handshakes are in progress, are still answered. The accepting processes continue
//! until these handshakes are complete, and only then get the command to finish. So no client waits in the queue of a process
//! that has ended.

use super::LOOK_FOR_HANDSHAKES;
use oribi_listen::{Listener, handshake_begun};
use oribi_stats::scoreboard::WorkerCommand;
use std::time::{Duration, Instant};

/// The most processes that are forked, one after the other, to empty the queues of the listeners after all accepting processes
/// have ended.
const LAST_PROCESSES: usize = 3;

/// The time after which listeners with empty queues are closed, counted from the moment when new connections are turned away:
/// enough for the first retransmission of a handshake (RFC 6298, section 2.1).
const HANDSHAKES: Duration = Duration::from_secs(1);

/// The last phase of the listeners.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Whether no other process accepts connections after this server.
    drains: bool,
    /// The wait of the accepting processes for clients whose handshakes are in progress. `None` when all such clients have
    /// arrived, or if the processes wait for none.
    arrivals: Option<Arrivals>,
    /// The number of processes that may still be forked to empty the queues.
    last_processes: usize,
    /// The time from which listeners with empty queues are closed. `None` if the listeners stay open, or are closed already.
    close_at: Option<Instant>,
    /// The end of the wait for handshakes in progress.
    handshakes_until: Option<Instant>,
}

/// The wait for the last clients.
#[derive(Clone, Copy, Debug)]
struct Arrivals {
    /// The time of the next look.
    look_at: Instant,
    /// Whether the last look found no client. Only two such looks in a row end the wait: the kernel may have let a client pass
    /// while the filter was being installed, and the second look finds that client.
    quiet: bool,
}

/// The next step after all accepting processes have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Nothing is left to do.
    Nothing,
    /// A handshake is in progress, or a client may still arrive.
    Wait,
    /// Fork one more process, which answers the waiting clients. It starts with this command. If the command is `Serve`, the
    /// process gets the command to finish when all clients have arrived.
    ForkOneMore(WorkerCommand),
}

impl Closing {
    /// Turns new connections away. Lent listeners stay as they are, because the next server accepts the clients that wait
    /// there.
    pub(super) fn begin(&mut self, listeners: &mut [Listener]) {
        let mut all = true;
        for listener in listeners.iter_mut() {
            listener.remove_file();
            all &= listener.turn_away();
        }
        let now = Instant::now();
        *self = Self {
            drains: true,
            arrivals: (!listeners.is_empty()).then_some(Arrivals { look_at: now, quiet: false }),
            last_processes: LAST_PROCESSES,
            close_at: all.then(|| now + HANDSHAKES),
            // The timers of both ends delay the retransmission by less than half a second.
            handshakes_until: Some(now + HANDSHAKES * 3 / 2),
        };
    }

    /// Gives up all waits.
    pub(super) fn give_up(&mut self) {
        *self = Self { drains: self.drains, ..Self::default() };
    }

    /// Whether the accepting processes must continue, because clients may still arrive.
    pub(super) const fn awaits_clients(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Ends the wait for clients, because no process would answer them.
    pub(super) const fn stop_awaiting_clients(&mut self) {
        self.arrivals = None;
    }

    /// Whether the accepting processes may finish: no client waits or is in its handshake at two looks in a row, or the time
    /// for handshakes is over. Returns `true` only once.
    pub(super) fn have_all_arrived(&mut self, listeners: &[Listener]) -> bool {
        let now = Instant::now();
        let Some(arrivals) = self.arrivals.as_mut().filter(|arrivals| now >= arrivals.look_at) else { return false };
        let too_late = self.handshakes_until.is_none_or(|end| now >= end);
        let quiet = !has_client(listeners);
        let all = too_late || quiet && arrivals.quiet;
        *arrivals = Arrivals { look_at: now + LOOK_FOR_HANDSHAKES, quiet };
        if all {
            self.arrivals = None;
        }
        all
    }

    /// Returns the time of the next look at the listeners.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.arrivals.map(|arrivals| arrivals.look_at).into_iter().chain(self.close_at).min()
    }

    /// Closes the listeners when no client waits at them. Without this, a client that connects while the last requests take
    /// long would wait; now it is refused at once.
    pub(super) fn close_if_quiet(&mut self, listeners: &[Listener]) {
        let now = Instant::now();
        if self.close_at.is_none_or(|time| now < time) {
            return;
        }
        let begun = self.handshakes_until.is_some_and(|end| now < end) && handshake_begun(listeners);
        let waiting = begun || listeners.iter().any(Listener::has_waiting);
        self.close_at = waiting.then(|| now + HANDSHAKES);
        if !waiting {
            listeners.iter().for_each(Listener::close);
            // `poll` reports a closed socket as if a client waited at it.
            self.drains = false;
        }
    }

    /// Returns the next step after all accepting processes have ended. They may have died, or a signal may have killed them. So
    /// clients may be left in the queues or in their handshakes, or may have passed while the filter was being installed
    /// ([`Arrivals::quiet`]).
    pub(super) fn next_step(&mut self, listeners: &[Listener], deadline: Instant) -> NextStep {
        let now = Instant::now();
        // The handshakes are checked before the queues: the check of the queues finds a handshake that completes between the
        // two checks.
        let begun = self.drains && self.handshakes_until.is_some_and(|end| now < end) && handshake_begun(listeners);
        let waiting = self.drains && listeners.iter().any(Listener::has_waiting);
        let may_come = self.drains && self.arrivals.is_some();
        if (begun || may_come) && !waiting && now < deadline {
            return NextStep::Wait;
        }
        if !waiting || self.last_processes == 0 || now >= deadline {
            return NextStep::Nothing;
        }
        self.last_processes -= 1;
        NextStep::ForkOneMore(if may_come { WorkerCommand::Serve } else { WorkerCommand::Drain })
    }
}

/// Whether a client waits to be accepted or is in its handshake. The handshakes are checked before the queues: the check of the
/// queues finds a handshake that completes between the two checks.
fn has_client(listeners: &[Listener]) -> bool {
    handshake_begun(listeners) || listeners.iter().any(Listener::has_waiting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::{ListenAddress, Settings};
    use oribi_listen::open;
    use std::net::{SocketAddr, TcpStream};
    use std::thread::sleep;

    const LONG: Duration = Duration::from_secs(60);

    /// Opens a listener whose clients are about to be turned away.
    fn listeners() -> Vec<Listener> {
        let listen = vec![ListenAddress::tcp("127.0.0.1", 0)];
        open(&Settings { listen, ..Settings::default() }).expect("the loopback has a free port")
    }

    fn address(listeners: &[Listener]) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], listeners[0].server_port.parse().expect("it is a port")))
    }

    /// Looks until the accepting processes may finish.
    fn wait_for_all(closing: &mut Closing, listeners: &[Listener]) {
        while !closing.have_all_arrived(listeners) {
            sleep(LOOK_FOR_HANDSHAKES);
        }
    }

    #[test]
    fn one_look_for_clients_is_not_enough_although_nobody_is_left_to_accept() {
        let mut listeners = listeners();
        let mut closing = Closing::default();
        closing.begin(&mut listeners);
        let deadline = Instant::now() + LONG;
        assert!(!closing.have_all_arrived(&listeners), "one look is not enough");
        assert_eq!(closing.next_step(&listeners, deadline), NextStep::Wait);
        wait_for_all(&mut closing, &listeners);
        assert_eq!(closing.next_step(&listeners, deadline), NextStep::Nothing);
    }

    #[test]
    fn whoever_accepts_for_those_who_have_ended_serves_until_all_have_come() {
        let mut listeners = listeners();
        let _client = TcpStream::connect(address(&listeners)).expect("it listens");
        let mut closing = Closing::default();
        closing.begin(&mut listeners);
        let deadline = Instant::now() + LONG;
        assert_eq!(closing.next_step(&listeners, deadline), NextStep::ForkOneMore(WorkerCommand::Serve));
        // No process has accepted the client so far.
        wait_for_all(&mut closing, &listeners);
        assert_eq!(closing.next_step(&listeners, deadline), NextStep::ForkOneMore(WorkerCommand::Drain));
        assert_eq!(closing.next_step(&listeners, deadline), NextStep::ForkOneMore(WorkerCommand::Drain));
        assert_eq!(closing.next_step(&listeners, deadline), NextStep::Nothing, "it ends each time");
    }

    #[test]
    fn nobody_is_awaited_beyond_the_time_to_finish_or_for_another_server() {
        let mut listeners = listeners();
        let mut closing = Closing::default();
        assert_eq!(closing.next_step(&listeners, Instant::now() + LONG), NextStep::Nothing, "others accept there");
        closing.begin(&mut listeners);
        assert_eq!(closing.next_step(&listeners, Instant::now()), NextStep::Nothing);
        closing.give_up();
        assert_eq!(closing.next_step(&listeners, Instant::now() + LONG), NextStep::Nothing);
    }
}
