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

/// Two hundred scripts whose popularity follows Zipf's law.
struct Crowd {
    scripts: Vec<Arc<Path>>,
    /// For each script, the sum of its popularity and that of all scripts before it.
    sums: Vec<f64>,
}

impl Crowd {
    const SCRIPTS: usize = 200;
    const HOT: usize = 10;
    const STATES: usize = 20;

    fn new() -> Self {
        let mut sum = 0.0;
        let sums = (1..=Self::SCRIPTS).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self { sums: sums.collect(), scripts: (1..=Self::SCRIPTS).map(|rank| path(&rank.to_string())).collect() }
    }

    fn hot(&self) -> &[Arc<Path>] {
        &self.scripts[..Self::HOT]
    }

    /// The scripts that have no state of their own most of the time.
    fn rare(&self) -> &[Arc<Path>] {
        &self.scripts[Self::STATES..]
    }

    fn any(&self, random: &mut Random) -> &Arc<Path> {
        let at = random.part() * self.sums[Self::SCRIPTS - 1];
        &self.scripts[self.sums.partition_point(|sum| *sum <= at)]
    }

    /// Gives the hot scripts a minute's popularity, as after the first requests.
    fn warm_up(&self, pool: &Pool<&Maker>) {
        for script in self.hot() {
            for _ in 0..100 {
                visit(pool, &mut LaneCache::default(), script);
            }
        }
    }
}

/// One thread plays four lanes, so no lane is stopped by the system while it has a state.
#[test]
fn the_popular_scripts_of_many_always_have_a_state() {
    const ROUNDS: usize = 20_000;
    let (maker, crowd, mut random) = (Maker::default(), Crowd::new(), Random(0));
    let settings = PoolSettings { states: Crowd::STATES, clones: 3, retries: 0, requests: None, patience: Duration::ZERO };
    let pool = Pool::new(&maker, settings);
    crowd.warm_up(&pool);
    let mut caches: Vec<_> = (0..ROUNDS).map(|_| LaneCache::default()).collect();
    let mut lanes = [const { None }; 4];
    for (round, cache) in caches.iter_mut().enumerate() {
        // Sometimes one lane requests all rare scripts, one after the other, while the others have nothing.
        if round % 4000 == 3999 {
            for lease in lanes.iter_mut().filter_map(Option::take) {
                pool.give_back(lease, Verdict::Keep, &[]);
            }
            for script in crowd.rare() {
                visit(&pool, &mut LaneCache::default(), script);
            }
        }
        let lane = &mut lanes[round % 4];
        if let Some(lease) = lane.take() {
            pool.give_back(lease, Verdict::Keep, &[]);
        }
        // The three other lanes may have all clones of the script.
        *lane = pool.take(cache, crowd.any(&mut random)).ok();
        for script in crowd.hot() {
            assert!(pool.script(script).lock().states >= 1, "round {round}: {:?}", counters(&pool, script));
        }
    }
    let evictions: u64 = crowd.rare().iter().map(|script| counters(&pool, script).evictions).sum();
    assert!(evictions >= 1000, "{:?}", pool.counters());
}

#[test]
fn states_loads_and_evictions_agree_after_lanes_at_once() {
    let (maker, crowd) = (Maker::default(), Crowd::new());
    let pool = pool(&maker, Crowd::STATES, 3);
    crowd.warm_up(&pool);
    thread::scope(|scope| {
        for lane in 0..4 {
            let (pool, crowd) = (&pool, &crowd);
            scope.spawn(move || {
                let (mut cache, mut random) = (LaneCache::default(), Random(lane));
                for round in 0..5000 {
                    visit(pool, &mut cache, crowd.any(&mut random));
                    if lane == 0 && round % 1000 == 999 {
                        for script in crowd.rare() {
                            visit(pool, &mut cache, script);
                        }
                    }
                }
            });
        }
    });
    // A lane that the system stops while it has a state makes others load clones, so clones come and go.
    for script in crowd.hot() {
        let script = counters(&pool, script);
        assert!(script.states >= 1 && script.loads == script.states as u64 + script.evictions, "{script:?}");
    }
    assert!(maker.alive.load(Ordering::SeqCst) <= Crowd::STATES);
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
