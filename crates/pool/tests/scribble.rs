//! Invariants that hold even if a stranger writes to the memory of a pool, tried with many random plays and with the seeds
//! of the fuzz target, so that every test run repeats each input that a fuzzer has found.

#[path = "../../../fuzz/bodies/pool_scribble.rs"]
mod pool_scribble;

use oribi_pool::{Edge, Event, Memory, Shape, Worker};
use pool_scribble::ScribbleCounts;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

const ROUNDS: usize = 3_000;

/// Numbers that are the same in every run (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Plays at random, in a pool to which strangers write according to `options`.
fn play(options: u8) -> ScribbleCounts {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 + u64::from(options));
    let mut all = ScribbleCounts::default();
    for round in 0..ROUNDS {
        let mut data = vec![options];
        let length = numbers.next() as usize % 600;
        data.extend((0..length).map(|_| (numbers.next() >> 32) as u8));
        let seen = std::panic::catch_unwind(|| pool_scribble::check(&data));
        let seen = seen.unwrap_or_else(|_| panic!("round {round}: {data:?}"));
        (all.finished, all.lost, all.broken) = (all.finished + seen.finished, all.lost + seen.lost, all.broken + seen.broken);
    }
    println!("{all:?}");
    all
}

#[test]
fn nothing_is_lost_or_answered_twice_where_all_follow_the_rules() {
    let seen = play(0);
    assert!(seen.finished > ROUNDS && seen.lost > ROUNDS && seen.broken == 0, "{seen:?}");
}

#[test]
fn a_worker_that_scribbles_over_its_answers_costs_its_own_requests() {
    let seen = play(1);
    assert!(seen.finished > ROUNDS && seen.lost > ROUNDS && seen.broken > ROUNDS / 30, "{seen:?}");
}

#[test]
fn nothing_is_stranded_or_answered_twice_whatever_stands_in_the_claims() {
    let seen = play(2);
    assert!(seen.finished > ROUNDS && seen.lost > ROUNDS && seen.broken == 0, "{seen:?}");
}

#[test]
fn nothing_is_stranded_or_answered_twice_whatever_stands_anywhere() {
    let seen = play(3);
    assert!(seen.finished > ROUNDS && seen.lost > ROUNDS && seen.broken > ROUNDS / 30, "{seen:?}");
}

#[test]
fn the_head_of_the_queue_is_a_hint() {
    let shape = Shape { slots: 4, request_bytes: 64, workers: 1, areas: 1, area_bytes: 512 };
    let memory = Memory::new(shape).expect("memory");
    let file = File::from(memory.as_fd().try_clone_to_owned().expect("a descriptor"));
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    for (round, head) in [0, u64::MAX, 1 << 63, 1000, 40, 0].into_iter().enumerate() {
        for number in 0..20 {
            let mut reserved = edge.reserve().expect("a slot");
            edge.room(&mut reserved)[0] = number;
            let ticket = edge.submit(reserved, 1);
            file.write_all_at(&head.to_ne_bytes(), memory.claims().start as u64).expect("it lies in the file");
            let taken = worker.take().unwrap_or_else(|| panic!("round {round}, request {number}: not found"));
            assert_eq!(worker.request(&taken), [number]);
            worker.finish(taken);
            edge.gather();
            assert!(matches!(edge.next(&mut Vec::new()), Some(Event::Finished(finished)) if finished == ticket));
        }
    }
}

#[test]
fn seeds() {
    let folder = format!("{}/../../fuzz/seeds/pool_scribble", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = std::fs::read_dir(&folder).expect("the seeds").map(|entry| entry.expect("a seed").path()).collect();
    assert!(paths.len() >= 4, "{folder} is nearly empty");
    paths.sort();
    let mut finished = 0;
    for path in paths {
        println!("{}", path.display());
        finished += pool_scribble::check(&std::fs::read(&path).expect("a seed")).finished;
    }
    assert!(finished >= 8, "only {finished} were answered");
}
