//! Scripts whose files change.

use super::*;
use std::fs;
use std::time::SystemTime;

/// Sweeps, and returns the results.
fn sweep(pool: &Pool<&Maker>) -> Vec<Change<String>> {
    let mut told = Vec::new();
    pool.sweep(|_, change| told.push(change));
    told
}

#[test]
fn a_changed_script_is_loaded_anew_and_only_once() {
    let (_directory, script) = script_file();
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    assert_eq!(visit(&pool, &mut cache, &script), 1);
    assert_eq!(sweep(&pool), []);
    fs::write(&script, "another").expect("written");
    assert_eq!(sweep(&pool), [Change::Reloaded]);
    assert_eq!(sweep(&pool), []);
    assert_eq!(visit(&pool, &mut cache, &script), 2);
    assert_eq!((counters(&pool, &script).reloads, maker.alive.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn what_is_required_while_a_request_is_answered_counts_too() {
    let (directory, script) = script_file();
    let module = directory.path().join("module");
    fs::write(&module, "one").expect("written");
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    // A file that is required at once might have been written after the load; then it would count as changed.
    let written = fs::metadata(&module).and_then(|metadata| metadata.modified()).expect("a time");
    while SystemTime::now() < written + Duration::from_millis(50) {
        thread::yield_now();
    }
    let lease = pool.take(&mut cache, &script).unwrap_or_else(|_| panic!("no state"));
    pool.give_back(lease, Verdict::Keep, std::slice::from_ref(&module));
    assert_eq!(sweep(&pool), []);
    fs::write(&module, "changed").expect("written");
    assert_eq!(sweep(&pool), [Change::Reloaded]);
}

#[test]
fn a_change_that_cannot_be_loaded_leaves_the_old_states_serving() {
    let (_directory, script) = script_file();
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    visit(&pool, &mut cache, &script);
    maker.fails.store(true, Ordering::SeqCst);
    fs::write(&script, "broken").expect("written");
    assert_eq!(sweep(&pool), [Change::Failed("a is broken".to_owned())]);
    // It is reported once, not at every sweep.
    assert_eq!(sweep(&pool), []);
    assert_eq!(visit(&pool, &mut cache, &script), 1);
    maker.fails.store(false, Ordering::SeqCst);
    fs::write(&script, "mended!").expect("written");
    assert_eq!(sweep(&pool), [Change::Reloaded]);
    assert_eq!(visit(&pool, &mut cache, &script), 2);
}

#[test]
fn a_state_that_was_busy_during_a_reload_is_not_used_again() {
    let (_directory, script) = script_file();
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let (mut cache, mut other) = (LaneCache::default(), LaneCache::default());
    let lease = pool.take(&mut cache, &script).unwrap_or_else(|_| panic!("no state"));
    fs::write(&script, "another").expect("written");
    assert_eq!(sweep(&pool), [Change::Reloaded]);
    // Not even the lane that has it uses it again: the next request gets a new one.
    assert!(visit(&pool, &mut other, &script) > 1);
    pool.give_back(lease, Verdict::Keep, &[]);
    assert!(visit(&pool, &mut cache, &script) > 1);
    let counters = counters(&pool, &script);
    assert_eq!((counters.states, maker.alive.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn a_change_at_the_same_time_and_of_the_same_size_is_noticed() {
    let (_directory, script) = script_file();
    let time = fs::metadata(&script).and_then(|metadata| metadata.modified()).expect("a time");
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    visit(&pool, &mut cache, &script);
    assert_eq!(sweep(&pool), []);
    fs::write(&script, "two").expect("written");
    fs::File::options().write(true).open(&script).and_then(|file| file.set_modified(time)).expect("dated");
    assert_eq!(sweep(&pool), [Change::Reloaded]);
    assert_eq!(sweep(&pool), []);
}

#[test]
fn a_script_that_cannot_be_loaded_any_more_gets_no_clones_and_keeps_worn_states() {
    let (_directory, script) = script_file();
    let maker = Maker::default();
    let patience = Duration::from_millis(5);
    let pool = Pool::new(&maker, PoolSettings { states: 5, clones: 3, retries: 0, requests: Some(2), patience });
    let (mut cache, mut other) = (LaneCache::default(), LaneCache::default());
    visit(&pool, &mut cache, &script);
    maker.fails.store(true, Ordering::SeqCst);
    fs::write(&script, "broken").expect("written");
    assert_eq!(sweep(&pool), [Change::Failed("a is broken".to_owned())]);
    for _ in 0..5 {
        assert_eq!(visit(&pool, &mut cache, &script), 1);
    }
    // A request that finds it busy waits: no request fails while there is a working state.
    let lease = pool.take(&mut cache, &script).unwrap_or_else(|_| panic!("no state"));
    assert!(matches!(pool.take(&mut other, &script), Err(Refusal::Busy)));
    pool.give_back(lease, Verdict::Keep, &[]);
    assert_eq!(counters(&pool, &script).failures, 1);
    maker.fails.store(false, Ordering::SeqCst);
    fs::write(&script, "mended!").expect("written");
    assert_eq!(sweep(&pool), [Change::Reloaded]);
    let numbers: Vec<_> = (0..3).map(|_| visit(&pool, &mut cache, &script)).collect();
    assert_eq!(numbers, [2, 2, 3]);
}

#[test]
fn a_clone_that_cannot_be_loaded_fails_no_request() {
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut cache = LaneCache::default();
    let lease = pool.take(&mut cache, &path("a")).unwrap_or_else(|_| panic!("no state"));
    maker.fails.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        let other = scope.spawn(|| visit(&pool, &mut LaneCache::default(), &path("a")));
        while maker.noted.lock().expect("the notes").is_empty() || pool.script(&path("a")).lock().waiting == 0 {
            thread::yield_now();
        }
        pool.give_back(lease, Verdict::Keep, &[]);
        assert_eq!(other.join().expect("answered"), 1);
    });
    assert_eq!(*maker.noted.lock().expect("the notes"), ["a is broken"]);
    assert_eq!((counters(&pool, &path("a")).states, pool.room.states()), (1, 1));
}

#[test]
fn the_states_of_a_deleted_script_are_closed() {
    let (_directory, script) = script_file();
    let maker = Maker::default();
    let pool = pool(&maker, 5, 3);
    let mut caches = [LaneCache::default(), LaneCache::default()];
    let leases = caches.each_mut().map(|cache| pool.take(cache, &script).unwrap_or_else(|_| panic!("no state")));
    let [first, second] = leases;
    pool.give_back(first, Verdict::Keep, &[]);
    fs::remove_file(&script).expect("removed");
    assert_eq!(sweep(&pool), [Change::Gone]);
    assert_eq!(maker.alive.load(Ordering::SeqCst), 1);
    // The busy one is closed when it is given back; that has been reported already.
    assert_eq!(sweep(&pool), []);
    pool.give_back(second, Verdict::Keep, &[]);
    assert_eq!((maker.alive.load(Ordering::SeqCst), pool.room.states()), (0, 0));
    // The script may come back.
    fs::write(&script, "back").expect("written");
    assert_eq!(visit(&pool, &mut LaneCache::default(), &script), 3);
    assert_eq!(sweep(&pool), []);
}

#[test]
fn a_reload_while_all_states_are_busy_uses_the_room_that_there_is() {
    let (_directory, script) = script_file();
    for (states, number) in [(5, 2), (1, 3)] {
        let maker = Maker::default();
        let pool = pool(&maker, states, 3);
        let mut cache = LaneCache::default();
        let lease = pool.take(&mut cache, &script).unwrap_or_else(|_| panic!("no state"));
        fs::write(&script, format!("for {states}")).expect("written");
        assert_eq!(sweep(&pool), [Change::Reloaded]);
        pool.give_back(lease, Verdict::Keep, &[]);
        assert_eq!(visit(&pool, &mut cache, &script), number);
        assert_eq!((maker.alive.load(Ordering::SeqCst), pool.room.states()), (1, 1));
    }
}

#[test]
fn a_script_that_was_evicted_is_not_loaded_twice_after_a_change() {
    let (_directory, script) = script_file();
    let maker = Maker::default();
    let pool = pool(&maker, 1, 1);
    let mut cache = LaneCache::default();
    visit(&pool, &mut cache, &script);
    visit(&pool, &mut cache, &path("other"));
    fs::write(&script, "changed meanwhile").expect("written");
    assert_eq!(visit(&pool, &mut cache, &script), 2);
    assert_eq!(sweep(&pool), []);
}
