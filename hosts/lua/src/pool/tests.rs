//! The pool with numbers as states.

mod crowd;
mod model;
mod reload;

use super::*;
use std::collections::HashMap as Map;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex};
use std::thread;

/// A state knows its script and number, and is counted.
struct State {
    script: String,
    number: usize,
    alive: Arc<AtomicUsize>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes states; a test can make it fail or wait.
#[derive(Default)]
struct Maker {
    made: Mutex<Map<String, usize>>,
    alive: Arc<AtomicUsize>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    fails: AtomicBool,
    /// Failures that were reported to no request.
    noted: Mutex<Vec<String>>,
    /// Reports the start of a load, and waits for permission to end it.
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Loader for &Maker {
    type State = State;
    type Failure = String;

    fn load(&self, script: &Path) -> Loaded<State, String> {
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        if let Some((begun, leave)) = &*self.gate.lock().expect("the gate") {
            begun.send(()).expect("somebody listens");
            leave.recv().expect("somebody lets it pass");
        }
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        let name = script.file_name().expect("a name").to_string_lossy().into_owned();
        let dependencies = vec![script.to_owned()];
        if self.fails.load(Ordering::SeqCst) {
            return Loaded { state: Err(format!("{name} is broken")), dependencies };
        }
        let mut made = self.made.lock().expect("the numbers");
        let number = made.entry(name.clone()).or_default();
        *number += 1;
        self.alive.fetch_add(1, Ordering::SeqCst);
        Loaded { state: Ok(State { script: name, number: *number, alive: Arc::clone(&self.alive) }), dependencies }
    }

    fn note_failure(&self, _: &Path, failure: &String) {
        self.noted.lock().expect("the notes").push(failure.clone());
    }

    fn is_gone(&self, script: &Path) -> bool {
        !script.exists()
    }
}

fn pool(maker: &Maker, states: usize, clones: usize) -> Pool<&Maker> {
    let patience = Duration::from_secs(20);
    Pool::new(maker, PoolSettings { states, clones, retries: 0, requests: None, patience })
}

fn path(name: &str) -> Arc<Path> {
    Path::new("/nowhere").join(name).into()
}

/// Takes a state and gives it back; returns its number.
fn visit<'m>(pool: &Pool<&'m Maker>, cache: &mut LaneCache<&'m Maker>, script: &Arc<Path>) -> usize {
    let lease = pool.take(cache, script).unwrap_or_else(|_| panic!("no state"));
    assert_eq!(Some(&*lease.script), script.file_name().and_then(|name| name.to_str()));
    let number = lease.number;
    pool.give_back(lease, Verdict::Keep, &[]);
    number
}

fn counters(pool: &Pool<&Maker>, script: &Arc<Path>) -> ScriptCounters {
    let all = pool.counters();
    all.into_iter().find(|counters| counters.script == **script).expect("a script that was met")
}

#[test]
fn a_state_is_used_again() {
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    for name in ["a", "b", "a", "b"] {
        assert_eq!(visit(&pool, &mut cache, &path(name)), 1);
    }
    let counters = counters(&pool, &path("a"));
    assert_eq!((counters.requests, counters.loads, counters.states), (2, 1, 1));
    assert_eq!(maker.alive.load(Ordering::SeqCst), 2);
}

#[test]
fn lanes_that_need_a_script_at_once_load_it_once() {
    let maker = Maker::default();
    let (begun_sender, begun) = channel();
    let (leave, leave_receiver) = channel();
    *maker.gate.lock().expect("the gate") = Some((begun_sender, leave_receiver));
    let pool = pool(&maker, 8, 1);
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                assert_eq!(visit(&pool, &mut LaneCache::default(), &path("a")), 1);
            });
        }
        begun.recv().expect("a load has begun");
        leave.send(()).expect("it ends");
    });
    assert_eq!(counters(&pool, &path("a")).loads, 1);
}

#[test]
fn clones_are_loaded_one_by_one_and_not_more_than_allowed() {
    let maker = Maker::default();
    let pool = pool(&maker, 8, 3);
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut cache = LaneCache::default();
                start.wait();
                for _ in 0..200 {
                    assert!(visit(&pool, &mut cache, &path("a")) <= 3);
                }
            });
        }
    });
    assert_eq!(maker.most_at_once.load(Ordering::SeqCst), 1);
    let counters = counters(&pool, &path("a"));
    assert_eq!((counters.requests, counters.states as u64), (1600, counters.loads));
    assert!(counters.loads <= 3);
}

#[test]
fn a_request_waits_for_a_busy_state_but_not_for_ever() {
    let maker = Maker::default();
    let settings = PoolSettings { states: 5, clones: 1, retries: 0, requests: None, patience: Duration::from_millis(5) };
    let pool = Pool::new(&maker, settings);
    let (mut one, mut other) = (LaneCache::default(), LaneCache::default());
    let lease = pool.take(&mut one, &path("a")).unwrap_or_else(|_| panic!("no state"));
    assert!(matches!(pool.take(&mut other, &path("a")), Err(Refusal::Busy)));
    pool.give_back(lease, Verdict::Keep, &[]);
    assert_eq!(visit(&pool, &mut other, &path("a")), 1);
}

#[test]
fn when_all_states_are_busy_with_other_scripts_the_first_that_is_free_makes_room() {
    let maker = Maker::default();
    let pool = pool(&maker, 1, 1);
    let mut cache = LaneCache::default();
    let lease = pool.take(&mut cache, &path("a")).unwrap_or_else(|_| panic!("no state"));
    thread::scope(|scope| {
        let other = scope.spawn(|| visit(&pool, &mut LaneCache::default(), &path("b")));
        while pool.room.waiting() == 0 {
            thread::yield_now();
        }
        pool.give_back(lease, Verdict::Keep, &[]);
        assert_eq!(other.join().expect("answered"), 1);
    });
    assert_eq!(maker.alive.load(Ordering::SeqCst), 1);
    assert_eq!(counters(&pool, &path("a")).evictions, 1);
}

#[test]
fn who_is_asked_for_often_stays_whatever_else_comes() {
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    let hot = [path("hot-1"), path("hot-2"), path("hot-3")];
    for round in 0..200 {
        for script in &hot {
            for _ in 0..5 {
                assert_eq!(visit(&pool, &mut cache, script), 1, "round {round}");
            }
        }
        visit(&pool, &mut cache, &path(&format!("cold-{round}")));
    }
    for script in &hot {
        assert_eq!(counters(&pool, script).evictions, 0);
    }
    assert_eq!(maker.alive.load(Ordering::SeqCst), 5);
    let evictions: u64 = pool.counters().iter().map(|counters| counters.evictions).sum();
    assert_eq!(evictions, 198);
}

#[test]
fn the_clones_of_a_busy_script_go_before_the_only_state_of_another() {
    let maker = Maker::default();
    let pool = pool(&maker, 4, 3);
    let mut cache = LaneCache::default();
    for _ in 0..2 {
        visit(&pool, &mut cache, &path("single"));
    }
    let mut lanes = [const { None }; 3].map(|_: Option<()>| LaneCache::default());
    let leases: Vec<_> =
        lanes.iter_mut().map(|lane| pool.take(lane, &path("cloned")).unwrap_or_else(|_| panic!("no state"))).collect();
    for lease in leases {
        pool.give_back(lease, Verdict::Keep, &[]);
    }
    visit(&pool, &mut cache, &path("new"));
    assert_eq!(counters(&pool, &path("cloned")).evictions, 1);
    assert_eq!(counters(&pool, &path("single")).evictions, 0);
}

#[test]
fn a_state_that_must_not_be_used_again_is_not() {
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    let lease = pool.take(&mut cache, &path("a")).unwrap_or_else(|_| panic!("no state"));
    pool.give_back(lease, Verdict::Discard, &[]);
    assert_eq!(visit(&pool, &mut cache, &path("a")), 2);
    // A state that is dropped, as by a panic, is counted correctly.
    drop(pool.take(&mut cache, &path("a")));
    assert_eq!(visit(&pool, &mut cache, &path("a")), 3);
    assert_eq!((counters(&pool, &path("a")).states, maker.alive.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn a_state_that_has_answered_its_share_is_replaced() {
    let maker = Maker::default();
    let settings = PoolSettings { states: 5, clones: 3, retries: 2, requests: Some(3), patience: Duration::from_secs(20) };
    let pool = Pool::new(&maker, settings);
    let mut cache = LaneCache::default();
    let numbers: Vec<_> = (0..7).map(|_| visit(&pool, &mut cache, &path("a"))).collect();
    assert_eq!(numbers, [1, 1, 1, 2, 2, 2, 3]);
}

#[test]
fn a_failure_is_shared_by_those_who_waited_and_tried_again_by_the_next() {
    let maker = Maker::default();
    maker.fails.store(true, Ordering::SeqCst);
    let (begun_sender, begun) = channel();
    let (leave, leave_receiver) = channel();
    *maker.gate.lock().expect("the gate") = Some((begun_sender, leave_receiver));
    let pool = pool(&maker, 5, 3);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut cache = LaneCache::default();
                match pool.take(&mut cache, &path("a")) {
                    Err(Refusal::LoadFailed(failure)) => assert_eq!(*failure, "a is broken"),
                    _ => panic!("a failure is expected"),
                };
            });
        }
        begun.recv().expect("a load has begun");
        while pool.script(&path("a")).lock().waiting < 3 {
            thread::yield_now();
        }
        leave.send(()).expect("it ends");
    });
    assert_eq!(counters(&pool, &path("a")).failures, 1);
    *maker.gate.lock().expect("the gate") = None;
    maker.fails.store(false, Ordering::SeqCst);
    assert_eq!(visit(&pool, &mut LaneCache::default(), &path("a")), 1);
    assert_eq!(counters(&pool, &path("a")).states, 1);
}

/// A directory with a script, and its path.
fn script_file() -> (tempfile::TempDir, Arc<Path>) {
    let directory = tempfile::tempdir().expect("a directory");
    let script: Arc<Path> = directory.path().join("a").into();
    fs::write(&script, "one").expect("written");
    (directory, script)
}

#[test]
fn nothing_is_lost_when_everything_happens_at_once() {
    let (_directory, script) = script_file();
    let maker = Maker::default();
    let pool = pool(&maker, 3, 2);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sweeper = scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::SeqCst) {
                round += 1;
                fs::write(&script, format!("{round}")).expect("written");
                pool.sweep(|_, _| {});
            }
        });
        let lanes: Vec<_> = (0..4)
            .map(|lane| {
                let (pool, script) = (&pool, &script);
                scope.spawn(move || {
                    let mut cache = LaneCache::default();
                    for round in 0..500 {
                        let path =
                            if round % 3 == 0 { path(&format!("other-{}", (lane + round) % 4)) } else { Arc::clone(script) };
                        let lease = pool.take(&mut cache, &path).unwrap_or_else(|_| panic!("no state"));
                        match round % 7 {
                            0 => drop(lease),
                            1 => pool.give_back(lease, Verdict::Discard, &[]),
                            _ => pool.give_back(lease, Verdict::Keep, &[]),
                        }
                    }
                })
            })
            .collect();
        for lane in lanes {
            lane.join().expect("a lane");
        }
        done.store(true, Ordering::SeqCst);
        sweeper.join().expect("the sweeper");
    });
    let states: usize = pool.counters().iter().map(|counters| counters.states).sum();
    assert_eq!(states, maker.alive.load(Ordering::SeqCst));
    assert_eq!(states, pool.room.states());
    assert!(states <= 3);
}
