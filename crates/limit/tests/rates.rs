//! The rates of clients: against a model, at their limits, and with threads.

mod numbers;

use numbers::Numbers;
use oribi_limit::{InvalidRule, Key, Keys, MOST_BURST, Rule, Table, Verdict};
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const KEYS: Keys = Keys::new([9; 16]);

fn rule(requests: u32, per: Duration, burst: u32) -> Rule {
    Rule { requests, per, burst }
}

fn memory(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

fn key(number: u64) -> Key {
    KEYS.of_value(&number.to_le_bytes())
}

/// The rate of a client as in the textbook, with times as fractions of any size.
#[derive(Default)]
struct Model {
    /// For each client, the time at which it has no debt left, in nanoseconds times the number of requests of the rule.
    free: HashMap<Key, u128>,
}

impl Model {
    fn take(&mut self, rule: &Rule, key: Key, now: Duration) -> (bool, u32) {
        let (now, cost) = (now.as_nanos() * u128::from(rule.requests), rule.per.as_nanos());
        let free = self.free.entry(key).or_default();
        let debt = free.saturating_sub(now);
        let left = |debt: u128| ((u128::from(rule.burst) * cost - debt) / cost) as u32;
        if debt + cost > u128::from(rule.burst) * cost {
            return (false, left(debt));
        }
        *free = now + debt + cost;
        (true, left(debt + cost))
    }
}

#[test]
fn a_table_decides_as_the_model_does() {
    let mut numbers = Numbers(1);
    for round in 0..300 {
        // The cost of a request is a multiple of 256 nanoseconds, so that no time is rounded.
        let requests = 1 + numbers.below(1000) as u32;
        let cost = 256 * (1 + numbers.below(1 << [4, 10, 15, 20][round % 4]));
        let burst = 1 + numbers.below([1, 5, 1000][round % 3]) as u32;
        let rule = rule(requests, Duration::from_nanos(cost * u64::from(requests)), burst);
        let words = memory(Table::words(4096, &[rule]));
        let table = Table::new(&words, &[rule]).expect("it is valid");
        let (mut model, mut units) = (Model::default(), numbers.below(1 << 41));
        for step in 0..400 {
            units += match numbers.below(4) {
                0 => 0,
                1 => numbers.below(300),
                2 => numbers.below(256 * u64::from(burst)),
                // Times in an entry begin anew after 2^40 units.
                _ => [0, 0, 0, 1 << 37][numbers.below(4) as usize] + numbers.below(1 << 20),
            };
            let now = Duration::from_nanos(units * (cost / 256));
            let key = key(numbers.below(4));
            let verdict = table.take(0, key, now);
            assert_eq!((verdict.allowed, verdict.remaining), model.take(&rule, key, now), "{round} {step}: {rule:?} {now:?}");
        }
    }
}

#[test]
fn in_any_time_no_more_is_allowed_than_burst_and_rate() {
    let mut numbers = Numbers(2);
    for _ in 0..100 {
        let rule = rule(
            1 + numbers.below(5000) as u32,
            Duration::from_millis(1 + numbers.below(100_000)),
            1 + numbers.below(50) as u32,
        );
        let words = memory(Table::words(1, &[rule]));
        let table = Table::new(&words, &[rule]).expect("it is valid");
        let interval = rule.per.as_nanos() as u64 / u64::from(rule.requests);
        let (mut now, mut times) = (Duration::from_secs(numbers.below(1 << 30)), Vec::new());
        for _ in 0..300 {
            let longest = interval * 2 / (1 + numbers.below(10));
            now += Duration::from_nanos(numbers.below(1 + longest));
            if table.take(0, key(1), now).allowed {
                times.push(now);
            }
        }
        for (index, first) in times.iter().enumerate() {
            for (count, last) in times[index..].iter().enumerate() {
                let most = f64::from(rule.burst) + (*last - *first).as_nanos() as f64 / interval as f64;
                assert!((count + 1) as f64 <= most + 0.02, "{rule:?}: {} requests in {:?}", count + 1, *last - *first);
            }
        }
        assert!(times.len() >= rule.burst as usize);
    }
}

#[test]
fn a_verdict_says_when_to_come_again() {
    let rules = [rule(10, SECOND, 3)];
    let words = memory(Table::words(1, &rules));
    let table = Table::new(&words, &rules).expect("it is valid");
    let millis = Duration::from_millis;
    let now = millis(5_000_000);
    let verdict = |allowed, remaining, retry_after, reset| Verdict { allowed, remaining, retry_after, reset };
    assert_eq!(table.take(0, key(1), now), verdict(true, 2, millis(0), millis(100)));
    assert_eq!(table.take(0, key(1), now + millis(50)), verdict(true, 1, millis(0), millis(50)));
    assert_eq!(table.take(0, key(1), now + millis(50)), verdict(true, 0, millis(0), millis(50)));
    assert_eq!(table.take(0, key(1), now + millis(75)), verdict(false, 0, millis(25), millis(25)));
    let unit = millis(100) / 256;
    assert_eq!(table.take(0, key(1), now + millis(100) - unit), verdict(false, 0, unit, unit));
    assert_eq!(table.take(0, key(1), now + millis(100)), verdict(true, 0, millis(0), millis(100)));
    assert_eq!(table.take(0, key(2), now + millis(100)), verdict(true, 2, millis(0), millis(100)), "another client");
}

#[test]
fn a_client_that_waits_as_long_as_it_is_told_is_allowed() {
    let mut numbers = Numbers(3);
    for _ in 0..2000 {
        let longest = 1 << (10 + numbers.below(40));
        let per = Duration::from_nanos(1 + numbers.below(longest));
        let rule = rule(1 + numbers.below(1 << 20) as u32, per, 1 + numbers.below(3) as u32);
        let words = memory(Table::words(1, &[rule]));
        let table = Table::new(&words, &[rule]).expect("it is valid");
        let now = Duration::from_nanos(numbers.below(1 << 60));
        let verdicts: Vec<Verdict> = (0..=rule.burst).map(|_| table.take(0, key(1), now)).collect();
        let (last, first) = verdicts.split_last().expect("there are some");
        assert!(!last.allowed && first.iter().all(|verdict| verdict.allowed), "{rule:?}");
        assert!(table.take(0, key(1), now + last.retry_after).allowed, "{rule:?} {last:?}");
    }
}

#[test]
fn times_that_are_a_little_behind_change_nothing() {
    let rules = [rule(1, SECOND, 5)];
    let words = memory(Table::words(1, &rules));
    let table = Table::new(&words, &rules).expect("it is valid");
    let now = Duration::from_secs(1000);
    assert!((0..5).all(|_| table.take(0, key(1), now).allowed));
    // Another process has read the clock earlier.
    for behind in [1, 500, 5000, 10_000] {
        assert!(!table.take(0, key(1), now - Duration::from_millis(behind)).allowed, "{behind} ms");
    }
    assert!(table.take(0, key(1), now + SECOND).allowed);
}

#[test]
fn a_full_set_forgets_the_client_with_the_least_debt_and_refuses_no_new_one() {
    let rules = [rule(1, SECOND, 10)];
    // One set of eight entries.
    let words = memory(Table::words(8, &rules));
    let table = Table::new(&words, &rules).expect("it is valid");
    let now = Duration::from_secs(1000);
    for client in 0..8 {
        assert!((0..=client).all(|_| table.take(0, key(client), now).allowed));
    }
    for client in 100..200 {
        assert!(table.take(0, key(client), now).allowed, "{client} is new");
    }
    // All of them have taken the place of the one with the least debt, and then of one another.
    assert_eq!(table.take(0, key(7), now).remaining, 1);
    assert_eq!(table.take(0, key(1), now).remaining, 7);
    // A client without a debt is forgotten first, wherever it is.
    let words = memory(Table::words(8, &rules));
    let table = Table::new(&words, &rules).expect("it is valid");
    for client in 0..8 {
        let count = if client == 5 { 1 } else { 3 };
        assert!((0..count).all(|_| table.take(0, key(client), now).allowed));
    }
    let later = now + 2 * SECOND;
    assert!(table.take(0, key(100), later).allowed);
    assert!((0..8).filter(|client| *client != 5).all(|client| table.take(0, key(client), later).remaining == 8));
}

#[test]
fn rules_do_not_share_clients() {
    let rules = [rule(1, SECOND, 1), rule(1, SECOND, 2)];
    let words = memory(Table::words(1, &rules));
    assert_eq!(words.len(), 16);
    let table = Table::new(&words, &rules).expect("it is valid");
    let now = Duration::from_secs(77);
    assert!(table.take(0, key(1), now).allowed && !table.take(0, key(1), now).allowed);
    assert!((0..2).all(|_| table.take(1, key(1), now).allowed) && !table.take(1, key(1), now).allowed);
    assert!((0..5).all(|_| table.take(2, key(1), now).allowed), "there is no such rule");
}

#[test]
fn invalid_rules_are_errors() {
    let words = memory(8);
    let new = |rule: Rule| Table::new(&words, &[rule]).map(drop);
    assert_eq!(new(rule(0, SECOND, 1)), Err(InvalidRule::Requests));
    assert_eq!(new(rule(1, Duration::ZERO, 1)), Err(InvalidRule::Time));
    assert_eq!(new(rule(1, 366 * 86_400 * SECOND, 1)), Ok(()));
    assert_eq!(new(rule(1, 366 * 86_400 * SECOND + Duration::from_nanos(1), 1)), Err(InvalidRule::Time));
    assert_eq!(new(rule(1, SECOND, 0)), Err(InvalidRule::Burst));
    assert_eq!(new(rule(1, SECOND, MOST_BURST)), Ok(()));
    assert_eq!(new(rule(1, SECOND, MOST_BURST + 1)), Err(InvalidRule::Burst));
    assert_eq!(Table::new(&words[1..], &[rule(1, SECOND, 1)]).map(drop), Err(InvalidRule::Memory));
    assert_eq!(Table::new(&words, &[rule(1, SECOND, 1); 2]).map(drop), Err(InvalidRule::Memory));
    assert!(Table::new(&[], &[]).expect("no rules").take(0, key(1), SECOND).allowed);
    for error in [InvalidRule::Requests, InvalidRule::Time, InvalidRule::Burst, InvalidRule::Memory] {
        assert!(error.to_string().contains("must") || error.to_string().contains("too small"));
    }
}

#[test]
fn nothing_happens_when_times_begin_anew() {
    // A request costs 256 units of a nanosecond.
    let rules = [rule(1, Duration::from_nanos(256), 3)];
    let words = memory(Table::words(8, &rules));
    let table = Table::new(&words, &rules).expect("it is valid");
    for (before, client) in [(0, 1), (1, 2), (255, 3), (256, 4), (600, 5), (1000, 6)] {
        let now = Duration::from_nanos(7 * (1 << 40) - before);
        assert!((0..3).all(|_| table.take(0, key(client), now).allowed), "{before}");
        assert!(!table.take(0, key(client), now + Duration::from_nanos(255)).allowed, "{before}");
        assert!(table.take(0, key(client), now + Duration::from_nanos(256)).allowed, "{before}");
        assert!(!table.take(0, key(client), now + Duration::from_nanos(511)).allowed, "{before}");
    }
}

#[test]
fn threads_together_are_allowed_exactly_the_limit() {
    const THREADS: usize = 6;
    const BURST: u32 = 30_000;
    let rules = [rule(1000, SECOND, BURST)];
    for clients in [1, 1, 1, 5, 5, 5] {
        let words = memory(Table::words(8, &rules));
        let table = Table::new(&words, &rules).expect("it is valid");
        let (allowed, start) = (memory(clients), Barrier::new(THREADS));
        let take = |now: Duration, turn: usize| {
            let client = turn % clients;
            if table.take(0, key(client as u64), now).allowed {
                allowed[client].fetch_add(1, Ordering::SeqCst);
            }
        };
        // A debt of two seconds, which does not end before the later time.
        (0..2000 * clients).for_each(|turn| take(Duration::from_secs(1000), turn));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (take, start) = (&take, &start);
                scope.spawn(move || {
                    start.wait();
                    for turn in 0..BURST as usize * clients {
                        // Half of the threads have a clock that is ahead by the time of 1000 requests.
                        take(Duration::from_secs(1000 + thread as u64 % 2), thread + turn);
                    }
                });
            }
        });
        for turn in 0..clients * (BURST as usize + 1000) {
            take(Duration::from_secs(1001), turn);
        }
        for allowed in allowed.iter().map(|count| count.load(Ordering::SeqCst)) {
            assert_eq!(allowed, u64::from(BURST) + 1000, "{clients} clients");
        }
    }
}

#[test]
fn any_memory_makes_any_verdict_but_no_panic() {
    let mut numbers = Numbers(4);
    let rules =
        [rule(1, Duration::from_nanos(1), MOST_BURST), rule(u32::MAX, SECOND, 1), rule(1, 366 * 86_400 * SECOND, MOST_BURST)];
    let words = memory(Table::words(16, &rules));
    let table = Table::new(&words, &rules).expect("they are valid");
    for _ in 0..20_000 {
        words[numbers.below(words.len() as u64) as usize].store(numbers.next() >> numbers.below(64), Ordering::Relaxed);
        let now = [Duration::ZERO, Duration::MAX, Duration::from_nanos(numbers.next())][numbers.below(3) as usize];
        let index = numbers.below(3) as usize;
        let verdict = table.take(index, key(numbers.below(100)), now);
        assert!(verdict.remaining <= rules[index].burst);
        assert_eq!(verdict.retry_after.is_zero(), verdict.allowed);
    }
}
