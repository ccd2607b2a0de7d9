//! Many threads at once.

use super::*;

#[test]
fn a_hundred_requests_for_a_new_script_load_it_once() {
    let maker = Maker::default();
    let (begun_sender, begun) = channel();
    let (leave, leave_receiver) = channel();
    *maker.gate.lock().expect("the gate") = Some((begun_sender, leave_receiver));
    let pool = pool(&maker, 100, 1);
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| assert_eq!(visit(&pool, &mut LaneCache::default(), &path("a")), 1));
        }
        begun.recv().expect("a load has begun");
        while pool.script(&path("a")).lock().waiting < 99 {
            thread::yield_now();
        }
        leave.send(()).expect("it ends");
    });
    let counters = counters(&pool, &path("a"));
    assert_eq!((counters.requests, counters.loads, maker.most_at_once.load(Ordering::SeqCst)), (100, 1, 1));
}

#[test]
fn who_waits_for_a_state_gets_it_though_others_never_pause() {
    let maker = Maker::default();
    let pool = pool(&maker, 5, 1);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let greedy = scope.spawn(|| {
            let mut cache = LaneCache::default();
            let mut visits = 0;
            while !done.load(Ordering::SeqCst) {
                visit(&pool, &mut cache, &path("a"));
                visits += 1;
            }
            visits
        });
        let mut cache = LaneCache::default();
        for _ in 0..200 {
            visit(&pool, &mut cache, &path("a"));
        }
        done.store(true, Ordering::SeqCst);
        greedy.join().expect("a lane");
    });
    assert_eq!(maker.alive.load(Ordering::SeqCst), 1);
    assert_eq!(pool.script(&path("a")).lock().in_line(), (0, 0));
}

#[test]
fn a_request_that_was_overtaken_is_next() {
    let maker = Maker::default();
    let pool = pool(&maker, 5, 1);
    let mut cache = LaneCache::default();
    let lease = pool.take(&mut cache, &path("a")).unwrap_or_else(|_| panic!("no state"));
    let waits = || pool.script(&path("a")).lock().waiting == 1;
    thread::scope(|scope| {
        let (taken_sender, taken) = channel();
        let (leave, leave_receiver) = channel();
        let pool = &pool;
        scope.spawn(move || {
            let mut cache = LaneCache::default();
            let lease = pool.take(&mut cache, &path("a")).unwrap_or_else(|_| panic!("no state"));
            taken_sender.send(()).expect("somebody listens");
            leave_receiver.recv().expect("somebody lets it go on");
            pool.give_back(lease, Verdict::Keep, &[]);
        });
        while !waits() {
            thread::yield_now();
        }
        // A spurious wake-up, as if this lane had been faster.
        pool.script(&path("a")).wake_all();
        while pool.script(&path("a")).lock().in_line().0 == 0 || !waits() {
            thread::yield_now();
        }
        pool.give_back(lease, Verdict::Keep, &[]);
        // However fast this lane is now, the state is reserved for the other.
        assert!(pool.script(&path("a")).lock().take_idle().is_none());
        taken.recv().expect("it has got the state");
        leave.send(()).expect("it goes on");
    });
    assert_eq!(visit(&pool, &mut cache, &path("a")), 1);
    assert_eq!(pool.script(&path("a")).lock().in_line(), (0, 0));
}

#[test]
fn no_state_is_kept_for_a_request_that_loads_one_itself() {
    let maker = Maker::default();
    let (begun_sender, begun) = channel();
    let (leave, leave_receiver) = channel();
    let patience = Duration::from_secs(20);
    let pool = Pool::new(&maker, PoolSettings { states: 5, clones: 2, retries: 1, requests: None, patience });
    let mut cache = LaneCache::default();
    let lease = pool.take(&mut cache, &path("a")).unwrap_or_else(|_| panic!("no state"));
    *maker.gate.lock().expect("the gate") = Some((begun_sender, leave_receiver));
    thread::scope(|scope| {
        // The request looks for an idle state once, finds none, and then loads another one.
        let clone = scope.spawn(|| visit(&pool, &mut LaneCache::default(), &path("a")));
        begun.recv().expect("a load has begun");
        pool.give_back(lease, Verdict::Keep, &[]);
        assert_eq!(visit(&pool, &mut LaneCache::default(), &path("a")), 1);
        leave.send(()).expect("it ends");
        assert_eq!(clone.join().expect("answered"), 2);
    });
}

#[test]
fn more_scripts_and_threads_than_states_are_all_answered() {
    let maker = Maker::default();
    let pool = pool(&maker, 2, 2);
    thread::scope(|scope| {
        for lane in 0..6 {
            let pool = &pool;
            scope.spawn(move || {
                let mut cache = LaneCache::default();
                for _ in 0..200 {
                    visit(pool, &mut cache, &path(&format!("script-{lane}")));
                }
            });
        }
    });
    assert!(maker.alive.load(Ordering::SeqCst) <= 2);
    assert_eq!(maker.alive.load(Ordering::SeqCst), pool.room.states());
    assert_eq!((pool.room.waiting(), pool.room.claims()), (0, (0, 0, 0)));
}

#[test]
fn a_clone_displaces_only_what_is_worth_less() {
    let maker = Maker::default();
    for (visits, evicted) in [(9, 1), (30, 0)] {
        let pool = pool(&maker, 2, 2);
        let (mut cache, mut other) = (LaneCache::default(), LaneCache::default());
        for _ in 0..visits {
            visit(&pool, &mut cache, &path("neighbour"));
        }
        for _ in 0..38 {
            visit(&pool, &mut cache, &path("busy"));
        }
        let lease = pool.take(&mut cache, &path("busy")).unwrap_or_else(|_| panic!("no state"));
        thread::scope(|scope| {
            let clone = scope.spawn(|| visit(&pool, &mut other, &path("busy")));
            if evicted == 0 {
                // Without room for it, the request waits for the existing state.
                while pool.script(&path("busy")).lock().waiting == 0 {
                    thread::yield_now();
                }
            } else {
                clone.join().expect("answered");
            }
            pool.give_back(lease, Verdict::Keep, &[]);
        });
        assert_eq!(counters(&pool, &path("neighbour")).evictions, evicted);
        assert_eq!(counters(&pool, &path("busy")).loads, 1 + evicted);
    }
}

#[test]
fn states_that_are_shut_down_are_closed_and_busy_ones_when_they_come_back() {
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    visit(&pool, &mut cache, &path("a"));
    let lease = pool.take(&mut cache, &path("b")).unwrap_or_else(|_| panic!("no state"));
    pool.shut_down();
    assert_eq!(maker.alive.load(Ordering::SeqCst), 1);
    pool.give_back(lease, Verdict::Keep, &[]);
    assert_eq!((maker.alive.load(Ordering::SeqCst), pool.room.states()), (0, 0));
}
