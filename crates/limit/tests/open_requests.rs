//! The numbers of open requests of clients.

mod numbers;

use numbers::Numbers;
use oribi_limit::{Concurrent, Guard, Key, Keys};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: Keys = Keys::new([9; 16]);

fn memory(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

fn key(number: u64) -> Key {
    KEYS.of_value(&number.to_le_bytes())
}

#[test]
fn processes_together_have_no_more_open_requests_than_the_limit() {
    const PROCESSES: usize = 3;
    const MOST: u32 = 4;
    let words = memory(Concurrent::words(PROCESSES, 1000));
    let processes: Vec<_> = (0..PROCESSES).map(|own| Concurrent::new(&words, PROCESSES, own, MOST)).collect();
    let (mut numbers, mut open) = (Numbers(1), Vec::<(usize, u64, Guard)>::new());
    for _ in 0..20_000 {
        if numbers.below(5) < 3 {
            let (process, client) = (numbers.below(3) as usize, numbers.below(10));
            let count = open.iter().filter(|(_, other, _)| *other == client).count();
            let guard = processes[process].enter(key(client));
            assert_eq!(guard.is_some(), count < MOST as usize);
            open.extend(guard.map(|guard| (process, client, guard)));
        } else if !open.is_empty() {
            let (process, _, guard) = open.swap_remove(numbers.below(open.len() as u64) as usize);
            processes[process].leave(guard);
        }
        let client = numbers.below(10);
        let count = open.iter().filter(|(_, other, _)| *other == client).count();
        assert_eq!(processes[0].count(key(client)), count as u64);
    }
    for (process, _, guard) in open.drain(..) {
        processes[process].leave(guard);
    }
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0), "nothing is left");
}

#[test]
fn a_dead_process_leaves_no_requests_behind_once_its_part_is_cleared() {
    let words = memory(Concurrent::words(2, 8));
    let (one, other) = (Concurrent::new(&words, 2, 0, 2), Concurrent::new(&words, 2, 1, 2));
    let guard = one.enter(key(1)).expect("the first");
    let _dead = other.enter(key(1)).expect("the second");
    assert_eq!(one.enter(key(1)), None);
    // The process of `other` dies; its successor, or another process, clears its part.
    one.clear(1);
    assert_eq!(one.count(key(1)), 1);
    let again = other.enter(key(1)).expect("there is a place");
    other.leave(again);
    one.leave(guard);
    one.clear(7);
    assert_eq!(one.count(key(1)), 0);
}

#[test]
fn a_full_set_refuses_no_client() {
    let words = memory(Concurrent::words(1, 8));
    let process = Concurrent::new(&words, 1, 0, 1);
    let guards: Vec<_> = (0..8).map(|client| process.enter(key(client)).expect("there is an entry")).collect();
    let uncounted: Vec<_> = (0..5).map(|_| process.enter(key(100)).expect("it is not refused")).collect();
    assert_eq!(process.count(key(100)), 0);
    uncounted.into_iter().for_each(|guard| process.leave(guard));
    assert!((0..8).all(|client| process.count(key(client)) == 1 && process.enter(key(client)).is_none()));
    guards.into_iter().for_each(|guard| process.leave(guard));
    let counted = process.enter(key(100)).expect("there is an entry");
    assert_eq!(process.enter(key(100)), None);
    process.leave(counted);
}

#[test]
fn without_memory_nothing_is_counted() {
    let words = memory(16);
    for process in [
        Concurrent::new(&words, 0, 0, 1),
        Concurrent::new(&words, 2, 2, 1),
        Concurrent::new(&words, 3, 0, 1),
        Concurrent::new(&[], 1, 0, 1),
    ] {
        for _ in 0..3 {
            let guard = process.enter(key(1)).expect("nothing is counted");
            process.leave(guard);
        }
        assert_eq!(process.count(key(1)), 0);
    }
    let none = Concurrent::new(&words, 1, 0, 0);
    assert_eq!(none.enter(key(1)), None);
    assert_eq!(none.count(key(1)), 0);
}

#[test]
fn threads_never_have_more_open_requests_than_the_limit() {
    const THREADS: usize = 6;
    const MOST: u32 = 3;
    const ROUNDS: usize = 100_000;
    // Two threads for each process.
    let words = memory(Concurrent::words(THREADS / 2, 8));
    let (open, entered, start) = (AtomicU64::new(0), AtomicU64::new(0), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (words, open, entered, start) = (&words, &open, &entered, &start);
            scope.spawn(move || {
                let process = Concurrent::new(words, THREADS / 2, thread / 2, MOST);
                start.wait();
                for _ in 0..ROUNDS {
                    let Some(guard) = process.enter(key(1)) else { continue };
                    entered.fetch_add(1, Ordering::SeqCst);
                    let count = open.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(count <= u64::from(MOST), "{count} are open");
                    open.fetch_sub(1, Ordering::SeqCst);
                    process.leave(guard);
                }
            });
        }
    });
    assert!(entered.load(Ordering::SeqCst) > 0);
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0), "nothing is left");
}

#[test]
fn threads_lose_no_request_and_end_none_twice() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 300_000;
    let words = memory(Concurrent::words(1, 8));
    let process = Concurrent::new(&words, 1, 0, 1 << 23);
    let start = Barrier::new(THREADS);
    let open = std::thread::scope(|scope| {
        let enter = || {
            start.wait();
            (0..ROUNDS).map(|_| process.enter(key(1)).expect("there are enough")).collect::<Vec<Guard>>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(enter)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect::<Vec<_>>()
    });
    assert_eq!(process.count(key(1)), (THREADS * ROUNDS) as u64);
    std::thread::scope(|scope| {
        for guards in open {
            let (process, start) = (&process, &start);
            scope.spawn(move || {
                start.wait();
                guards.into_iter().skip(1).for_each(|guard| process.leave(guard));
            });
        }
    });
    assert_eq!(process.count(key(1)), THREADS as u64);
}

#[test]
fn any_memory_makes_no_panic() {
    let mut numbers = Numbers(5);
    let words = memory(Concurrent::words(3, 16));
    let process = Concurrent::new(&words, 3, 1, 5);
    let mut guards = Vec::new();
    for _ in 0..20_000 {
        words[numbers.below(words.len() as u64) as usize]
            .store(numbers.next() | numbers.below(2).wrapping_neg(), Ordering::Relaxed);
        guards.extend(process.enter(key(numbers.below(30))));
        if guards.len() > 20 {
            process.leave(guards.swap_remove(numbers.below(20) as usize));
        }
    }
}
