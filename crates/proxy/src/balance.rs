//! Step 2, choose: which upstream gets an exchange, and which of its connections.

use crate::address::{Address, Target};
use rustix::io::Errno;
use std::io;
use std::time::{Duration, Instant};

/// The time for which an upstream is left out after a failure; it doubles with each further failure in a row.
const LEFT_OUT: Duration = Duration::from_secs(1);

/// The longest such time.
const MOST_LEFT_OUT: Duration = Duration::from_secs(60);

/// The most kept connections of an upstream.
const KEPT: usize = 64;

/// A connection without an exchange.
#[derive(Clone, Copy, Debug)]
struct Kept {
    token: u64,
    since: Instant,
}

#[derive(Debug)]
struct State {
    target: Target,
    /// The index of the address that is tried first.
    address: usize,
    open: usize,
    /// The connection that was used last is at the end.
    kept: Vec<Kept>,
    failures: u32,
    left_out_until: Option<Instant>,
}

/// The upstreams, with their load and their failures.
#[derive(Debug)]
pub(crate) struct Balance {
    upstreams: Vec<State>,
    /// The upstream from which the next search begins, so that equal ones take turns.
    turn: usize,
}

impl Balance {
    pub(crate) fn of(targets: Vec<Target>) -> Self {
        let state = |target| State { target, address: 0, open: 0, kept: Vec::new(), failures: 0, left_out_until: None };
        Self { upstreams: targets.into_iter().map(state).collect(), turn: 0 }
    }

    /// Chooses the upstream with the fewest open exchanges, and counts an exchange. `failed` is chosen only if all others are left
    /// out and it is not, or if there is no other. If all are left out, chooses the one whose time is over first.
    pub(crate) fn choose(&mut self, failed: Option<usize>, now: Instant) -> usize {
        let count = self.upstreams.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let key = |number: &usize| {
            let state = &self.upstreams[*number];
            let out = state.left_out_until.filter(|until| *until > now);
            (out.is_some(), Some(*number) == failed, out, state.open)
        };
        let chosen = in_turn.min_by_key(key).unwrap_or_default();
        self.turn = (chosen + 1) % count;
        self.upstreams[chosen].open += 1;
        chosen
    }

    /// An exchange has ended.
    pub(crate) fn release(&mut self, upstream: usize) {
        let open = &mut self.upstreams[upstream].open;
        *open = open.saturating_sub(1);
    }

    /// The upstream has answered.
    pub(crate) fn note_success(&mut self, upstream: usize) {
        let state = &mut self.upstreams[upstream];
        if state.failures > 0 {
            log::info!("upstream {} answers again", state.target.name);
            (state.failures, state.left_out_until) = (0, None);
        }
    }

    /// No connection to an address of the upstream could be opened. Limits of this process say nothing about the upstream.
    pub(crate) fn note_unopened(&mut self, upstream: usize, address: usize, error: &io::Error, now: Instant) {
        let is_own = |errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC);
        if !Errno::from_io_error(error).is_some_and(is_own) {
            self.note_failure(upstream, Some(address), now);
        }
    }

    /// The upstream has failed. `unconnected`: the address that could not be connected to, so another one is next.
    pub(crate) fn note_failure(&mut self, upstream: usize, unconnected: Option<usize>, now: Instant) {
        let alone = self.upstreams.len() == 1;
        let state = &mut self.upstreams[upstream];
        // Of several attempts that fail at once, the first one has turned to the next address already.
        if unconnected == Some(state.address) {
            state.address = (state.address + 1) % state.target.addresses.len();
        }
        // Exchanges that failed together count once.
        if state.left_out_until.is_some_and(|until| until > now) {
            return;
        }
        let time = LEFT_OUT.saturating_mul(1 << state.failures.min(6)).min(MOST_LEFT_OUT);
        state.failures = state.failures.saturating_add(1);
        state.left_out_until = Some(now + time);
        if !alone {
            log::warn!("upstream {} gets no requests for {} s, while others answer", state.target.name, time.as_secs());
        }
    }

    /// The number of failures in a row.
    #[cfg(test)]
    pub(crate) fn failures(&self, upstream: usize) -> u32 {
        self.upstreams[upstream].failures
    }

    /// Whether there is another place to connect to.
    pub(crate) fn has_other(&self, upstream: usize) -> bool {
        self.upstreams.len() > 1 || self.upstreams[upstream].target.addresses.len() > 1
    }

    pub(crate) fn name(&self, upstream: usize) -> &str {
        &self.upstreams[upstream].target.name
    }

    /// The value of Host for clients that send none.
    pub(crate) fn authority(&self) -> &str {
        &self.upstreams[0].target.authority
    }

    /// The address that is tried next, after its index.
    pub(crate) fn address(&self, upstream: usize) -> (usize, &Address) {
        let state = &self.upstreams[upstream];
        (state.address, &state.target.addresses[state.address])
    }

    /// Keeps a connection. Returns `false` if there are enough of them.
    pub(crate) fn keep(&mut self, upstream: usize, token: u64, now: Instant) -> bool {
        let kept = &mut self.upstreams[upstream].kept;
        if kept.len() >= KEPT {
            return false;
        }
        kept.push(Kept { token, since: now });
        true
    }

    /// Takes the kept connection that was used last; `most`: at most so long ago.
    pub(crate) fn take_kept(&mut self, upstream: usize, most: Option<Duration>, now: Instant) -> Option<u64> {
        let kept = &mut self.upstreams[upstream].kept;
        let last = kept.last()?;
        if most.is_some_and(|most| now.saturating_duration_since(last.since) > most) {
            return None;
        }
        kept.pop().map(|kept| kept.token)
    }

    /// Forgets a kept connection that is closed.
    pub(crate) fn forget(&mut self, upstream: usize, token: u64) {
        self.upstreams[upstream].kept.retain(|kept| kept.token != token);
    }
}

#[cfg(test)]
mod tests {
    use super::Balance;
    use crate::address::{Address, Upstream};
    use rustix::io::Errno;
    use std::time::{Duration, Instant};

    fn balance(count: usize) -> Balance {
        let targets = (0..count).map(|number| Upstream::parse(&format!("http://127.0.0.{}:1", number + 1)).expect("valid"));
        Balance::of(targets.map(|upstream| upstream.resolve().expect("an address")).collect())
    }

    #[test]
    fn equal_upstreams_take_turns_and_the_one_with_fewer_exchanges_gets_the_next() {
        let (mut balance, now) = (balance(3), Instant::now());
        assert_eq!([0; 6].map(|_| balance.choose(None, now)), [0, 1, 2, 0, 1, 2]);
        balance.release(1);
        balance.release(1);
        balance.release(2);
        assert_eq!([0; 3].map(|_| balance.choose(None, now)), [1, 2, 1]);
    }

    #[test]
    fn a_failed_upstream_is_left_out_for_times_that_double() {
        let (mut balance, start) = (balance(2), Instant::now());
        let gets = |balance: &mut Balance, now| {
            let chosen = balance.choose(None, now);
            balance.release(chosen);
            let other = balance.choose(None, now);
            balance.release(other);
            [chosen, other]
        };
        let mut now = start;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            balance.note_failure(0, Some(0), now);
            balance.note_failure(0, Some(0), now);
            assert_eq!(gets(&mut balance, now), [1, 1]);
            let end = now + Duration::from_secs(seconds);
            assert_eq!(gets(&mut balance, end - Duration::from_millis(1)), [1, 1], "{seconds}");
            assert!(gets(&mut balance, end).contains(&0), "{seconds}");
            now = end;
        }
        balance.note_success(0);
        balance.note_failure(0, Some(0), now);
        assert!(gets(&mut balance, now + Duration::from_secs(1)).contains(&0));
    }

    #[test]
    fn if_all_have_failed_the_one_that_returns_first_is_asked_and_a_retry_goes_elsewhere() {
        let (mut two, now) = (balance(2), Instant::now());
        two.note_failure(0, Some(0), now);
        two.note_failure(1, Some(0), now + Duration::from_millis(1));
        assert_eq!(two.choose(None, now + Duration::from_millis(2)), 0);
        assert_eq!(two.choose(Some(0), now + Duration::from_millis(2)), 1);
        assert_eq!(balance(1).choose(Some(0), now), 0);
    }

    #[test]
    fn attempts_that_fail_at_once_turn_to_the_next_address_once() {
        let mut target = Upstream::parse("http://127.0.0.1:1").expect("valid").resolve().expect("an address");
        target.addresses.push(Address::Internet(([127, 0, 0, 2], 1).into()));
        let (mut balance, now) = (Balance::of(vec![target]), Instant::now());
        for (failed, next) in [(0, 1), (0, 1), (1, 0), (1, 0), (0, 1)] {
            balance.note_failure(0, Some(failed), now);
            assert_eq!(balance.address(0).0, next);
        }
        balance.note_failure(0, None, now);
        assert_eq!(balance.address(0).0, 1);
    }

    #[test]
    fn limits_of_this_process_are_no_failures_of_an_upstream() {
        let (mut balance, now) = (balance(2), Instant::now());
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::NOSPC] {
            balance.note_unopened(0, 0, &errno.into(), now);
            assert_eq!(balance.failures(0), 0, "{errno}");
        }
        balance.note_unopened(0, 0, &Errno::CONNREFUSED.into(), now);
        assert_eq!(balance.failures(0), 1);
    }

    #[test]
    fn kept_connections_are_bounded_and_the_last_one_is_taken_first() {
        let (mut balance, now) = (balance(1), Instant::now());
        assert!((0..64).all(|token| balance.keep(0, token, now)));
        assert!(!balance.keep(0, 64, now));
        balance.forget(0, 63);
        let later = now + Duration::from_secs(2);
        assert_eq!(balance.take_kept(0, Some(Duration::from_secs(1)), later), None);
        assert_eq!(balance.take_kept(0, None, later), Some(62));
    }
}
