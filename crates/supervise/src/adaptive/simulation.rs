//! Simulates apps with queues and workers over a virtual clock, and checks properties of the numbers of workers.

use super::look::{Action, Machine, View, look};
use super::policy::{Policy, Rules, Sample};
use std::collections::VecDeque;
use std::time::Duration;

/// The step of the clock, and the steps between two looks.
const STEP: Duration = Duration::from_millis(10);
const LOOK: u64 = 50;

/// The time that a worker takes to start, in steps.
const START: u64 = 200;

const MIB: u64 = 1 << 20;

/// Random numbers (xorshift64*), so that each run is the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The number of events in a step, if there are `mean` of them on average (Poisson).
    fn events(&mut self, mean: f64) -> usize {
        let (limit, mut product, mut count) = ((-mean).exp(), self.next(), 0);
        while product > limit {
            (product, count) = (product * self.next(), count + 1);
        }
        count
    }

    /// A time with this mean, exponentially distributed, in steps.
    fn time(&mut self, mean: f64) -> u64 {
        (-mean * (1.0 - self.next()).ln()).ceil().max(1.0) as u64
    }
}

/// An app: `rate(second)` requests arrive each second, and each takes a worker for `service` seconds on average.
struct App {
    rate: fn(f64) -> f64,
    service: f64,
    rules: Rules,
    size: u64,
    /// Whether workers beyond the first one end before they can serve.
    fails: bool,
    policy: Policy,
    wanted: usize,
    asleep: bool,
    /// For each worker: the step at which it is ready, and at which it is free.
    workers: Vec<(u64, u64)>,
    /// The steps at which waiting requests have arrived.
    queue: VecDeque<u64>,
    arrived: bool,
    /// The changes: the step, and the number of workers from then on.
    changes: Vec<(u64, usize)>,
    attempts: usize,
    waits: Vec<f64>,
    answered: usize,
    came: usize,
}

impl App {
    fn new(least: usize, most: usize, service: f64, rate: fn(f64) -> f64) -> Self {
        let rules = Rules {
            least,
            most,
            up_wait: Duration::from_millis(100),
            down_idle: Duration::from_secs(60),
            start: Duration::from_secs(70),
        };
        let asleep = least == 0;
        Self {
            rate,
            service,
            rules,
            size: 50 * MIB,
            fails: false,
            policy: Policy::default(),
            wanted: least.max(1),
            asleep,
            workers: if asleep { Vec::new() } else { vec![(0, 0); least] },
            queue: VecDeque::new(),
            arrived: false,
            changes: Vec::new(),
            attempts: 0,
            waits: Vec::new(),
            answered: 0,
            came: 0,
        }
    }

    fn step(&mut self, now: u64, random: &mut Random) {
        let second = now as f64 * STEP.as_secs_f64();
        let came = random.events((self.rate)(second) * STEP.as_secs_f64());
        self.came += came;
        self.arrived |= came > 0;
        self.queue.extend(std::iter::repeat_n(now, came));
        if self.asleep && !self.queue.is_empty() {
            self.asleep = false;
            self.policy.has_woken(STEP * now as u32, &self.rules);
            self.have(now, self.rules.least.max(1));
        }
        for (ready, free) in &mut self.workers {
            if *ready <= now && *free <= now {
                let Some(arrival) = self.queue.pop_front() else { break };
                self.waits.push((now - arrival) as f64 * STEP.as_secs_f64());
                self.answered += 1;
                *free = now + random.time(self.service / STEP.as_secs_f64());
            }
        }
    }

    fn have(&mut self, now: u64, wanted: usize) {
        if wanted > self.workers.len() {
            let begins = if self.fails && !self.workers.is_empty() { u64::MAX } else { now + START };
            self.workers.resize(wanted, (begins, 0));
        }
        // Workers that have not started end first, then those that are free.
        self.workers.sort_by_key(|(ready, free)| (*ready > now, (*free).max(now)));
        self.workers.truncate(wanted);
        self.wanted = wanted;
        self.changes.push((now, wanted));
    }

    fn sample(&mut self, now: u64) -> Sample {
        let ready = self.workers.iter().filter(|(ready, _)| *ready <= now).count();
        let busy = self.workers.iter().filter(|(ready, free)| *ready <= now && *free > now).count();
        let wait = self.queue.front().map_or(Duration::ZERO, |arrival| STEP * (now - arrival) as u32);
        Sample { ready, busy, waiting: self.queue.len(), wait, arrived: std::mem::take(&mut self.arrived) }
    }

    /// The number of changes within these seconds.
    fn changes_in(&self, from: u64, to: u64) -> usize {
        self.changes.iter().filter(|(step, _)| (from * 100..to * 100).contains(step)).count()
    }

    /// The share of requests, since request number `from`, that have waited longer than this, in seconds.
    fn late(&self, from: usize, limit: f64) -> f64 {
        let waits = &self.waits[from..];
        waits.iter().filter(|wait| **wait > limit).count() as f64 / waits.len().max(1) as f64
    }
}

/// Runs apps for some seconds on a machine with this much memory for workers, beside the reserve, and with idle processors.
/// Checks what must hold at each moment.
fn run(apps: &mut [App], seconds: u64, memory: u64, seed: u64) {
    let (mut random, whole) = (Random(seed), memory + 32 * MIB);
    for now in 0..seconds * 100 {
        for app in apps.iter_mut() {
            app.step(now, &mut random);
        }
        if now % LOOK != 0 {
            continue;
        }
        let used = |app: &App| app.size * app.workers.iter().filter(|(ready, _)| *ready <= now).count() as u64;
        let used: u64 = apps.iter().map(used).sum();
        let machine = Machine { memory: Some((whole.saturating_sub(used), whole)), cpu: Some(10) };
        let mut views: Vec<View<'_>> = Vec::new();
        for (index, app) in apps.iter_mut().enumerate().filter(|(_, app)| !app.asleep) {
            let (sample, rules, wanted, size) = (app.sample(now), app.rules, app.wanted, app.size);
            views.push(View { app: index, policy: &mut app.policy, rules, wanted, sample, size, most_cpu: 90 });
        }
        for (index, action) in look(STEP * now as u32, &mut views, machine) {
            let app = &mut apps[index];
            match action {
                Action::Grow(_) => {
                    app.attempts += 1;
                    app.have(now, app.wanted + 1);
                }
                Action::Shrink => app.have(now, app.wanted - 1),
                Action::GiveUp(workers) => app.have(now, workers),
                Action::Sleep => {
                    assert!(app.queue.is_empty(), "a request would be lost");
                    app.policy.has_fallen_asleep(STEP * now as u32);
                    app.have(now, 0);
                    (app.asleep, app.wanted) = (true, 1);
                }
                Action::Refused(_) => {}
            }
        }
        for app in apps.iter() {
            let workers = app.workers.len();
            assert!(workers <= app.rules.most, "{workers} workers, more than MAX");
            assert!(workers >= app.rules.least, "{workers} workers, fewer than MIN");
            assert!(app.answered + app.queue.len() == app.came, "a request was lost");
        }
        let least: u64 = apps.iter().map(|app| app.size * app.rules.least.max(1) as u64).sum();
        let taken: u64 = apps.iter().map(|app| app.size * app.workers.len() as u64).sum();
        assert!(taken <= memory.max(least), "{taken} bytes of {memory}");
    }
}

const PLENTY: u64 = 1 << 40;

#[test]
fn a_load_for_three_workers_gets_at_least_three_and_not_all() {
    for seed in 1..=20 {
        // 12 requests each second of 200 ms: 2.4 workers are busy on average.
        let mut apps = [App::new(1, 16, 0.2, |_| 12.0)];
        run(&mut apps, 1200, PLENTY, seed);
        let [app] = apps;
        assert!((3..=8).contains(&app.wanted), "seed {seed}: {} workers", app.wanted);
        let settled = app.waits.len() / 4;
        assert!(
            app.late(settled, 1.0) < 0.05,
            "seed {seed}: {} of the requests wait for more than a second",
            app.late(settled, 1.0)
        );
    }
}

#[test]
fn the_number_does_not_flap_at_a_steady_load_whatever_the_load_is() {
    const RATES: [fn(f64) -> f64; 10] =
        [|_| 1.0, |_| 2.0, |_| 3.0, |_| 4.0, |_| 4.7, |_| 5.0, |_| 5.3, |_| 7.5, |_| 9.9, |_| 15.0];
    for (number, rate) in RATES.into_iter().enumerate() {
        for seed in 1..=4 {
            let mut apps = [App::new(1, 12, 0.2, rate)];
            run(&mut apps, 7200, PLENTY, seed);
            // Two hours: after the first ten minutes there are at most a few changes in an hour.
            let changes = apps[0].changes_in(600, 7200);
            assert!(changes <= 24, "load {number}, seed {seed}: {changes} changes: {:?}", apps[0].changes);
        }
    }
}

#[test]
fn a_step_of_the_load_is_answered_within_a_few_looks_and_workers_leave_after_it() {
    for seed in 1..=10 {
        let mut apps = [App::new(1, 8, 0.2, |second| if (100.0..400.0).contains(&second) { 25.0 } else { 0.5 })];
        run(&mut apps, 1000, PLENTY, seed);
        let [app] = apps;
        let first = app.changes.iter().find(|(step, _)| *step >= 10_000).map(|(step, _)| *step).expect("it grows");
        assert!(first <= 10_000 + 6 * LOOK, "seed {seed}: the first worker at step {first}");
        // Each worker takes 2 s to start, and is judged by three looks, so six of them need less than half a minute.
        let enough = app.changes.iter().find(|(_, workers)| *workers >= 6).map(|(step, _)| *step).expect("there are enough");
        assert!(enough <= 10_000 + 3_000, "seed {seed}: six workers at step {enough}");
        assert!(app.wanted <= 2, "seed {seed}: {} workers long after it", app.wanted);
    }
}

#[test]
fn a_load_that_comes_and_goes_keeps_its_workers_if_the_pauses_are_short() {
    // Five busy seconds, twenty quiet ones.
    let mut apps = [App::new(1, 8, 0.2, |second| if second % 25.0 < 5.0 { 15.0 } else { 0.2 })];
    run(&mut apps, 3600, PLENTY, 7);
    assert!(apps[0].changes_in(300, 3600) <= 12, "{:?}", apps[0].changes);
    // Two busy minutes, three quiet ones: workers may come and go, at most once for each period, and ever more rarely.
    let mut apps = [App::new(1, 8, 0.2, |second| if second % 300.0 < 120.0 { 15.0 } else { 0.2 })];
    run(&mut apps, 7200, PLENTY, 7);
    let (early, late) = (apps[0].changes_in(0, 3600), apps[0].changes_in(3600, 7200));
    assert!(late <= early, "{early} changes in the first hour, {late} in the second");
}

#[test]
fn workers_that_cannot_start_are_tried_ever_more_rarely() {
    let mut app = App::new(1, 8, 0.2, |_| 8.0);
    app.fails = true;
    let mut apps = [app];
    run(&mut apps, 3600, PLENTY, 3);
    let attempts = apps[0].attempts;
    assert!((2..=16).contains(&attempts), "{attempts} attempts in an hour");
}

#[test]
fn memory_bounds_the_number_and_two_apps_share_it_by_their_need() {
    for seed in 1..=10 {
        // Both have more to do than there is memory for; the second one begins later.
        let late: fn(f64) -> f64 = |second| if second < 300.0 { 0.2 } else { 40.0 };
        let mut apps = [App::new(1, 20, 0.5, |_| 40.0), App::new(1, 20, 0.5, late)];
        run(&mut apps, 900, 1000 * MIB, seed);
        let [first, second] = apps.map(|app| app.wanted);
        assert!(first >= 4 && second >= 4, "seed {seed}: {first} and {second} workers");
        assert!(first + second <= 20, "seed {seed}: {first} and {second} workers of 50 MiB in 1000 MiB");
    }
}

#[test]
fn an_app_sleeps_wakes_and_loses_no_request() {
    // A visit of twenty seconds every ten minutes.
    let visits: fn(f64) -> f64 = |second| if second % 600.0 < 20.0 { 2.0 } else { 0.0 };
    let mut apps = [App::new(0, 4, 0.1, visits), App::new(0, 4, 0.1, |_| 0.0)];
    run(&mut apps, 6000, PLENTY, 11);
    let [visited, never] = &apps;
    assert_eq!(never.changes, [], "nobody asks for it");
    assert!(visited.asleep && visited.answered == visited.came && visited.came > 100);
    let sleeps = visited.changes.iter().filter(|(_, workers)| *workers == 0).count();
    assert!((8..=10).contains(&sleeps), "it slept {sleeps} times");
    // The first request of each visit waits until the worker has started, and few others do.
    assert!(visited.late(0, 2.5) < 0.1, "{}", visited.late(0, 2.5));
}

#[test]
fn two_hundred_apps_that_sleep_cost_no_decision() {
    let mut apps: Vec<App> = (0..200).map(|_| App::new(0, 4, 0.1, |_| 0.0)).collect();
    run(&mut apps, 60, PLENTY, 1);
    assert!(apps.iter().all(|app| app.asleep && app.changes.is_empty()));
}
