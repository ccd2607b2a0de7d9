//! Decides when the number of workers of one app changes, from samples of its queue.
//!
//! The policy has no clock and reads nothing: time and samples are arguments. A sample is taken twice a second. Its waiting time
//! is that of the oldest request in the queue. Workers take requests in the order of their arrival, so this is about the time
//! that the requests which are taken at this moment have waited.
//!
//! * **One worker more** starts when the median of the last samples is above a threshold; or, without waiting for more samples,
//!   when a request has waited that long and no worker has taken any meanwhile. It then has to serve, and fresh samples have to
//!   show that it does not suffice, before another one starts.
//! * **One worker less**: if for some time at least one worker had nothing to do in each sample, one ends. If there were always
//!   two, the next one ends with the next sample.
//! * **No flapping**: if a worker is missed soon after one has ended, the time until the next one ends doubles, up to sixteen
//!   times. It halves again when the number has been right for as long.
//! * A worker that cannot start is given up; the next attempt comes after a pause that doubles, too.

use std::collections::VecDeque;
use std::time::Duration;

/// The number of samples of which the median counts.
const PERIOD: usize = 5;

/// The number of samples that are needed since the last change.
const FRESH: usize = 3;

/// The highest factor of the time until a worker ends.
const MOST_PATIENCE: u32 = 16;

/// The pause after a worker that could not start, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// The limits of an app's number of workers, and the times after which it changes.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Rules {
    /// The lowest number of workers; 0 if the app may sleep.
    pub(in super::super) least: usize,
    /// The highest number of workers.
    pub(in super::super) most: usize,
    /// The waiting time above which one more worker starts.
    pub(in super::super) up_wait: Duration,
    /// The time after which a surplus worker ends.
    pub(in super::super) down_idle: Duration,
    /// The time after which a worker that does not become ready is given up.
    pub(in super::super) start: Duration,
}

/// The state of an app at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Sample {
    /// The workers that take requests. Dead ones do not count.
    pub(in super::super) ready: usize,
    /// The workers that have requests.
    pub(in super::super) busy: usize,
    /// The requests that wait.
    pub(in super::super) waiting: usize,
    /// The time that the oldest of these has waited.
    pub(in super::super) wait: Duration,
    /// Whether a request has arrived since the last sample.
    pub(in super::super) arrived: bool,
}

/// The change of the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Decision {
    /// The number is right.
    Stay,
    /// One more is needed, because requests have waited this long. Whether it starts depends on the room that is left; then
    /// [`Policy::has_grown`] is called.
    Grow(Duration),
    /// One is too many.
    Shrink,
    /// The last worker has nothing to do, and the app may sleep.
    Sleep,
    /// A worker has not become ready: the number falls back to those that are.
    GiveUp,
}

/// The memory of the policy.
#[derive(Debug, Default)]
pub(in super::super) struct Policy {
    /// The waiting times of the last samples since the last change.
    waits: VecDeque<Duration>,
    /// The time and the waiting time of the last sample, if requests waited.
    before: Option<(Duration, Duration)>,
    /// Element `n`: since when more than `n` workers have had nothing to do.
    idle_since: Vec<Duration>,
    /// Since when the app has had no request.
    quiet_since: Option<Duration>,
    /// Since when fewer workers are ready than wanted.
    missing_since: Option<Duration>,
    /// The factor of the time until a worker ends, as a power of two.
    doublings: u32,
    /// The time of the last end of a worker.
    shrunk_at: Option<Duration>,
    /// The time of the last change of `doublings`.
    patience_changed_at: Duration,
    /// No worker starts before this time.
    paused_until: Duration,
    /// The number of workers in a row that could not start.
    failed_starts: u32,
}

impl Policy {
    /// Returns the decision after a sample. `wanted` is the present target number of workers, which is at least 1.
    pub(in super::super) fn decide(&mut self, now: Duration, rules: &Rules, wanted: usize, sample: &Sample) -> Decision {
        self.note(now, sample);
        if wanted < rules.least {
            return Decision::Grow(sample.wait);
        }
        if sample.ready < wanted {
            return self.await_worker(now, rules, sample);
        }
        if self.missing_since.take().is_some() {
            // It serves from now on: what was before says nothing about it.
            self.forget_waits();
            self.failed_starts = 0;
        }
        self.calm_down(now, rules);
        if wanted > rules.most {
            return Decision::Shrink;
        }
        if wanted < rules.most
            && now >= self.paused_until
            && let Some(wait) = self.long_wait(now, rules, sample)
        {
            return Decision::Grow(wait);
        }
        let idle = self.idle_time(rules);
        if wanted > rules.least.max(1) && self.idle_since.first().is_some_and(|since| now.saturating_sub(*since) >= idle) {
            return Decision::Shrink;
        }
        let is_quiet = self.quiet_since.is_some_and(|since| now.saturating_sub(since) >= idle);
        if rules.least == 0 && wanted == 1 && is_quiet { Decision::Sleep } else { Decision::Stay }
    }

    /// Records that one more worker starts.
    pub(in super::super) fn has_grown(&mut self, now: Duration, rules: &Rules) {
        self.forget_waits();
        self.miss_worker(now, rules);
        self.missing_since = Some(now);
    }

    /// Records that one worker ends.
    pub(in super::super) fn has_shrunk(&mut self, now: Duration) {
        self.forget_waits();
        self.shrunk_at = Some(now);
        // Of the workers that had nothing to do, one is left out.
        if !self.idle_since.is_empty() {
            self.idle_since.remove(0);
        }
    }

    /// Records that the app falls asleep.
    pub(in super::super) fn has_fallen_asleep(&mut self, now: Duration) {
        let Self { doublings, patience_changed_at, .. } = *self;
        *self = Self { doublings, patience_changed_at, shrunk_at: Some(now), ..Self::default() };
    }

    /// Records that the app wakes up.
    pub(in super::super) fn has_woken(&mut self, now: Duration, rules: &Rules) {
        self.miss_worker(now, rules);
    }

    /// Records that a worker could not start.
    pub(in super::super) fn start_has_failed(&mut self, now: Duration) {
        self.missing_since = None;
        self.forget_waits();
        let (first, most) = PAUSES;
        self.paused_until = now + first.saturating_mul(1 << self.failed_starts.min(8)).min(most);
        self.failed_starts += 1;
    }

    /// Forgets the samples, because others have changed the workers: a reload, or an order.
    pub(in super::super) fn interrupt(&mut self) {
        self.forget_waits();
        self.idle_since.clear();
        (self.quiet_since, self.missing_since) = (None, None);
    }
}

impl Policy {
    fn note(&mut self, now: Duration, sample: &Sample) {
        if self.waits.len() == PERIOD {
            self.waits.pop_front();
        }
        self.waits.push_back(if sample.waiting > 0 { sample.wait } else { Duration::ZERO });
        let idle = sample.ready.saturating_sub(sample.busy.saturating_add(sample.waiting));
        self.idle_since.resize(idle, now);
        let is_quiet = !sample.arrived && sample.busy == 0 && sample.waiting == 0;
        self.quiet_since = is_quiet.then(|| self.quiet_since.unwrap_or(now));
    }

    fn forget_waits(&mut self) {
        self.waits.clear();
        self.before = None;
    }

    /// Returns the time that requests have waited, if that is too long.
    fn long_wait(&mut self, now: Duration, rules: &Rules, sample: &Sample) -> Option<Duration> {
        let before = std::mem::replace(&mut self.before, (sample.waiting > 0).then_some((now, sample.wait)));
        if sample.waiting == 0 {
            return None;
        }
        // The oldest request is still the same: no worker has taken any.
        let is_stuck = before.is_some_and(|(then, wait)| sample.wait >= wait + now.saturating_sub(then));
        if is_stuck && sample.wait > rules.up_wait {
            return Some(sample.wait);
        }
        let mut sorted: Vec<Duration> = self.waits.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied()?;
        (sorted.len() >= FRESH && median > rules.up_wait).then_some(median)
    }

    /// Decides while a worker is missing: it starts, or has died and is being replaced.
    fn await_worker(&mut self, now: Duration, rules: &Rules, sample: &Sample) -> Decision {
        let since = *self.missing_since.get_or_insert(now);
        let lowest = rules.least.max(1);
        if now.saturating_sub(since) < rules.start || sample.ready < lowest { Decision::Stay } else { Decision::GiveUp }
    }

    /// The time for which a worker must have nothing to do before it ends.
    fn idle_time(&self, rules: &Rules) -> Duration {
        rules.down_idle.saturating_mul((1 << self.doublings).min(MOST_PATIENCE))
    }

    /// Becomes more patient if a worker is missed soon after one has ended.
    fn miss_worker(&mut self, now: Duration, rules: &Rules) {
        let soon = self.idle_time(rules).saturating_mul(2);
        if self.shrunk_at.take().is_some_and(|then| now.saturating_sub(then) < soon) && 1 << self.doublings < MOST_PATIENCE {
            self.doublings += 1;
            self.patience_changed_at = now;
        }
    }

    /// Becomes less patient if the last end of a worker was right for long enough.
    fn calm_down(&mut self, now: Duration, rules: &Rules) {
        let long = self.idle_time(rules).saturating_mul(2);
        let was_right = self.shrunk_at.is_some_and(|then| now.saturating_sub(then) >= long);
        if self.doublings > 0 && was_right && now.saturating_sub(self.patience_changed_at) >= long {
            self.doublings -= 1;
            self.patience_changed_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        least: 1,
        most: 4,
        up_wait: Duration::from_millis(100),
        down_idle: Duration::from_secs(10),
        start: Duration::from_secs(30),
    };

    const SLEEPER: Rules = Rules { least: 0, ..RULES };

    /// Gives the policy the same sample every half second, and returns the first decision that is no `Stay`, with its time.
    /// `None` if there is none before `until`.
    fn first_change(
        policy: &mut Policy,
        rules: &Rules,
        wanted: usize,
        sample: Sample,
        from: u64,
        until: u64,
    ) -> Option<(u64, Decision)> {
        (from..until).find_map(|half| {
            let decision = policy.decide(Duration::from_millis(half * 500), rules, wanted, &sample);
            (decision != Decision::Stay).then_some((half, decision))
        })
    }

    fn waiting(ready: usize, milliseconds: u64) -> Sample {
        Sample { ready, busy: ready, waiting: 1, wait: Duration::from_millis(milliseconds), arrived: true }
    }

    fn idle(ready: usize, busy: usize) -> Sample {
        Sample { ready, busy, arrived: busy > 0, ..Sample::default() }
    }

    #[test]
    fn a_worker_is_added_when_the_median_wait_is_above_the_threshold_and_not_when_it_is_at_it() {
        let grown = first_change(&mut Policy::default(), &RULES, 1, waiting(1, 101), 0, 100);
        assert_eq!(grown, Some((2, Decision::Grow(Duration::from_millis(101)))), "the third sample decides");
        assert_eq!(first_change(&mut Policy::default(), &RULES, 1, waiting(1, 100), 0, 100), None);
        assert_eq!(
            first_change(&mut Policy::default(), &RULES, 4, waiting(4, 900), 0, 100),
            None,
            "there are enough by the rules"
        );
    }

    #[test]
    fn a_request_that_no_worker_takes_needs_no_third_sample() {
        let mut policy = Policy::default();
        let at = |half: u64| (Duration::from_millis(half * 500), waiting(1, half * 500 + 50));
        let (now, sample) = at(0);
        assert_eq!(policy.decide(now, &RULES, 1, &sample), Decision::Stay);
        let (now, sample) = at(1);
        assert_eq!(policy.decide(now, &RULES, 1, &sample), Decision::Grow(Duration::from_millis(550)));
    }

    #[test]
    fn a_worker_that_starts_is_awaited_and_judged_by_fresh_samples() {
        let mut policy = Policy::default();
        policy.has_grown(Duration::ZERO, &RULES);
        assert_eq!(first_change(&mut policy, &RULES, 2, waiting(1, 500), 0, 60), None, "it starts");
        let grown = first_change(&mut policy, &RULES, 2, waiting(2, 500), 10, 60);
        assert_eq!(grown.map(|(half, _)| half), Some(13), "three samples after the one that found it ready");
    }

    #[test]
    fn a_worker_that_cannot_start_is_given_up_and_the_next_attempts_are_rarer_and_rarer() {
        let mut policy = Policy::default();
        policy.has_grown(Duration::ZERO, &RULES);
        assert_eq!(first_change(&mut policy, &RULES, 2, waiting(1, 500), 0, 100), Some((60, Decision::GiveUp)));
        let mut pauses = Vec::new();
        let mut now = 60;
        for _ in 0..8 {
            policy.start_has_failed(Duration::from_millis(now * 500));
            let (next, _) =
                first_change(&mut policy, &RULES, 1, waiting(1, 500), now, now + 10_000).expect("it is tried again");
            pauses.push((next - now) / 2);
            now = next;
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600]);
    }

    #[test]
    fn workers_with_nothing_to_do_end_one_after_the_other_and_those_that_are_needed_stay() {
        let mut policy = Policy::default();
        let mut ends = Vec::new();
        let mut workers = 4;
        for half in 0..200 {
            let now = Duration::from_millis(half * 500);
            match policy.decide(now, &RULES, workers, &idle(workers, 2)) {
                Decision::Shrink => {
                    policy.has_shrunk(now);
                    workers -= 1;
                    ends.push(half);
                }
                decision => assert_eq!(decision, Decision::Stay),
            }
        }
        assert_eq!((ends, workers), (vec![20, 21], 2), "two were idle for ten seconds");
        // If all are busy now and then, none ends.
        let mut policy = Policy::default();
        for half in 0..1000 {
            let busy = if half % 19 == 0 { 3 } else { 0 };
            assert_eq!(policy.decide(Duration::from_millis(half * 500), &RULES, 3, &idle(3, busy)), Decision::Stay);
        }
    }

    #[test]
    fn a_worker_that_is_missed_soon_makes_the_next_ends_rarer_and_rarer() {
        let (mut policy, mut now, mut pauses) = (Policy::default(), 0, Vec::new());
        for _ in 0..7 {
            let (then, decision) = first_change(&mut policy, &RULES, 2, idle(2, 1), now, now + 10_000).expect("it is surplus");
            assert_eq!(decision, Decision::Shrink);
            pauses.push((then - now) / 2);
            policy.has_shrunk(Duration::from_millis(then * 500));
            let (then, _) = first_change(&mut policy, &RULES, 1, waiting(1, 500), then, then + 100).expect("it is missed");
            policy.has_grown(Duration::from_millis(then * 500), &RULES);
            now = then;
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 160, 160]);
        // When an end was right for long, the patience falls again.
        let (then, _) = first_change(&mut policy, &RULES, 2, idle(2, 1), now, now + 10_000).expect("it is surplus");
        policy.has_shrunk(Duration::from_millis(then * 500));
        assert_eq!(first_change(&mut policy, &RULES, 1, idle(1, 0), then, then + 4_000), None);
        assert!(policy.idle_time(&RULES) < RULES.down_idle * 16);
    }

    #[test]
    fn an_app_without_requests_sleeps_if_it_may() {
        assert_eq!(first_change(&mut Policy::default(), &SLEEPER, 1, idle(1, 0), 0, 100), Some((20, Decision::Sleep)));
        assert_eq!(first_change(&mut Policy::default(), &RULES, 1, idle(1, 0), 0, 100), None);
        let rare = Sample { arrived: true, ..idle(1, 0) };
        let mut policy = Policy::default();
        assert_eq!(first_change(&mut policy, &SLEEPER, 1, rare, 0, 100), None, "each sample has had a request");
        // One that is woken again at once sleeps later the next time.
        policy.has_fallen_asleep(Duration::from_secs(100));
        policy.has_woken(Duration::from_secs(101), &SLEEPER);
        assert_eq!(first_change(&mut policy, &SLEEPER, 1, idle(1, 0), 202, 400), Some((242, Decision::Sleep)));
    }

    #[test]
    fn other_limits_hold_at_once() {
        let mut policy = Policy::default();
        assert_eq!(policy.decide(Duration::ZERO, &RULES, 6, &idle(6, 6)), Decision::Shrink);
        assert!(matches!(policy.decide(Duration::ZERO, &Rules { least: 3, ..RULES }, 2, &idle(2, 0)), Decision::Grow(_)));
    }
}
