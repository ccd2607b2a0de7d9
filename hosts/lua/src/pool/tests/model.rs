//! Random operations, compared with a model of a few numbers; and a skewed load in which popular scripts must stay.

use super::*;

/// Pseudo-random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.part() * bound as f64) as usize
    }

    /// From 0 up to 1.
    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const STATES: usize = 4;
const CLONES: usize = 2;
const LANES: usize = 6;
const STEPS: usize = 400;

/// One thread plays all lanes, so the result of each step is deterministic.
#[test]
fn random_operations_keep_what_the_pool_promises() {
    for seed in 0..60 {
        let maker = Maker::default();
        // No request waits: a pool with a busy state refuses at once.
        let settings = PoolSettings { states: STATES, clones: CLONES, retries: 0, requests: None, patience: Duration::ZERO };
        let pool = Pool::new(&maker, settings);
        let scripts: Vec<_> = (0..7).map(|number| path(&number.to_string())).collect();
        // A lease borrows its lane's cache, so each step has its own cache.
        let mut caches: Vec<_> = (0..STEPS).map(|_| LaneCache::default()).collect();
        let mut lanes = [const { None }; LANES];
        let mut random = Random(seed);
        for (step, cache) in caches.iter_mut().enumerate() {
            let lane = random.below(LANES);
            if let Some((_, lease)) = lanes[lane].take() {
                pool.give_back(lease, if random.below(5) == 0 { Verdict::Discard } else { Verdict::Keep }, &[]);
                continue;
            }
            let script = random.below(scripts.len());
            let busy = lanes.iter().flatten().count();
            let own = lanes.iter().flatten().filter(|(held, _)| *held == script).count();
            match pool.take(cache, &scripts[script]) {
                Ok(lease) => {
                    assert!(busy < STATES && own < CLONES, "seed {seed}, step {step}: more than allowed");
                    let in_two_hands =
                        lanes.iter().flatten().any(|(held, other)| *held == script && other.number == lease.number);
                    assert!(!in_two_hands, "seed {seed}, step {step}: in two hands");
                    lanes[lane] = Some((script, lease));
                }
                // A first state is refused only if nothing is idle; a clone also if all idle states have more worth.
                Err(Refusal::Busy) => assert!(own > 0 || busy == STATES, "seed {seed}, step {step}: refused without need"),
                Err(Refusal::LoadFailed(failure)) => panic!("{failure}"),
            }
            let alive = maker.alive.load(Ordering::SeqCst);
            assert_eq!(alive, pool.room.states());
            assert!(alive <= STATES, "seed {seed}, step {step}: {alive} states");
            for counters in pool.counters() {
                assert!(counters.states <= CLONES, "seed {seed}, step {step}: {counters:?}");
            }
        }
    }
}

/// Two hundred scripts, twenty states, four lanes, popularity by Zipf's law.
#[test]
fn the_popular_scripts_of_many_are_never_evicted() {
    const SCRIPTS: usize = 200;
    const HOT: usize = 10;
    let maker = Maker::default();
    let pool = pool(&maker, 20, 3);
    let scripts: Vec<_> = (1..=SCRIPTS).map(|rank| path(&rank.to_string())).collect();
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=SCRIPTS)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    // A minute's popularity, as after the first requests.
    for script in &scripts[..HOT] {
        for _ in 0..100 {
            visit(&pool, &mut LaneCache::default(), script);
        }
    }
    thread::scope(|scope| {
        for lane in 0..4 {
            let (pool, scripts, sums) = (&pool, &scripts, &sums);
            scope.spawn(move || {
                let (mut cache, mut random) = (LaneCache::default(), Random(lane));
                for round in 0..5000 {
                    let at = random.part() * sums[SCRIPTS - 1];
                    visit(pool, &mut cache, &scripts[sums.partition_point(|sum| *sum <= at)]);
                    // Sometimes one lane requests all rare scripts, one after the other.
                    if lane == 0 && round % 1000 == 999 {
                        for script in &scripts[20..] {
                            visit(pool, &mut cache, script);
                        }
                    }
                }
            });
        }
    });
    let hot: Vec<_> = scripts[..HOT].iter().map(|script| counters(&pool, script)).collect();
    // A clone may come and go; the script is always loaded, and further loads are clones.
    for script in &hot {
        assert!(script.states >= 1 && script.loads <= 3 + script.evictions, "{script:?}");
    }
    let lost = hot.iter().filter(|script| script.loads != script.states as u64 + script.evictions).count();
    assert_eq!(lost, 0);
    // Of some ten thousand requests: a lane that the system stops while it has a state makes others take clones.
    assert!(hot.iter().map(|script| script.evictions).sum::<u64>() <= 10, "{hot:?}");
    assert!(maker.alive.load(Ordering::SeqCst) <= 20);
}

#[test]
fn a_new_script_that_becomes_popular_gets_in() {
    let maker = Maker::default();
    let pool = pool(&maker, 3, 1);
    let mut cache = LaneCache::default();
    for old in ["old-1", "old-2", "old-3"] {
        for _ in 0..50 {
            visit(&pool, &mut cache, &path(old));
        }
    }
    for round in 0..60 {
        visit(&pool, &mut cache, &path("new"));
        if round >= 51 {
            visit(&pool, &mut cache, &path(&format!("cold-{round}")));
            visit(&pool, &mut cache, &path("new"));
        }
    }
    assert_eq!(counters(&pool, &path("new")).evictions, 0);
}
