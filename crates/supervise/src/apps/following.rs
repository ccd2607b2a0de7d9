//! Lets the numbers of workers of the apps follow the load: takes samples of the queues, and carries out the decisions.

use super::super::adaptive::{Action, Machine, Policy, Refusal, Rules, Sample, View, look};
use super::super::edges::AppPools;
use super::super::memory_use;
use super::super::molds::Molds;
use super::super::server::{Phase, Server};
use oribi_config::value::show_size;
use oribi_config::{CpuTime, counted, memory_left};
use oribi_io::clock::monotonic;
use oribi_pool::RequestState;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The interval between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// The time after which the memory of a worker is measured again.
const MEASURED_FOR: Duration = Duration::from_secs(10);

/// The shortest interval between two log lines about the lack of room.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The apps, as the decisions need them.
pub(super) struct Following {
    apps: Vec<Followed>,
    begun: Instant,
    next: Instant,
    /// The time of the processors at the last look.
    cpu: Option<CpuTime>,
}

#[derive(Default)]
struct Followed {
    policy: Policy,
    /// The number of requests that each edge had ever queued, at the last look.
    arrived: Vec<u64>,
    /// The last sample.
    last: Sample,
    /// The memory of a worker in bytes, and the time of the measurement.
    size: Option<(u64, Instant)>,
    /// Since when the app cannot be loaded.
    failed_since: Option<Instant>,
    /// The time of the last log line about the lack of room.
    logged_at: Option<Instant>,
}

impl Following {
    pub(super) fn new(apps: usize) -> Self {
        let now = Instant::now();
        Self { apps: (0..apps).map(|_| Followed::default()).collect(), begun: now, next: now, cpu: None }
    }

    /// Begins anew with the app at this place, which may be a further one.
    pub(super) fn begin(&mut self, place: usize) {
        if place >= self.apps.len() {
            self.apps.resize_with(place + 1, Followed::default);
        }
        self.apps[place] = Followed::default();
    }

    /// Returns the time until the next look. `None` if no app needs one.
    pub(super) fn wait(&self, apps: &[Molds<'_>], now: Instant) -> Option<Duration> {
        apps.iter().any(is_followed).then(|| self.next.saturating_duration_since(now))
    }

    /// Wakes an app, because an edge has a request for it.
    pub(super) fn wake(&mut self, app: &mut Molds<'_>, index: usize) {
        if app.wake() {
            log::info!("{} wakes up: there is a request", app.label());
            let (now, rules) = (self.begun.elapsed(), rules(app));
            let Some(followed) = self.apps.get_mut(index) else { return };
            followed.policy.has_woken(now, &rules);
            followed.failed_since = None;
        }
    }

    /// Takes samples and carries out the decisions, if it is time to.
    pub(super) fn follow(&mut self, apps: &mut [Molds<'_>], server: &Server<'_>) {
        let now = Instant::now();
        if now < self.next || !apps.iter().any(is_followed) {
            return;
        }
        self.next = now + LOOK;
        if server.phase != Phase::Serving || !server.stays() || server.succession.successor.is_some() {
            self.apps.iter_mut().for_each(|followed| followed.policy.interrupt());
            return;
        }
        let cpu = CpuTime::now();
        let load = self.cpu.replace(cpu).and_then(|before| cpu.load_since(&before));
        let machine = Machine { memory: memory_left().map(|left| (left.free, left.whole)), cpu: load };
        let moment = now.saturating_duration_since(self.begun);
        let mut views = Vec::new();
        for (index, (app, followed)) in apps.iter_mut().zip(&mut self.apps).enumerate() {
            if !is_followed(app) || followed.sleeps(app, server.app_pools(index), (now, moment)) {
                continue;
            }
            if !app.is_calm() {
                followed.policy.interrupt();
                continue;
            }
            if let Some(why) = app.take_failed_start() {
                log::warn!("{}: no further worker for now: {why}", app.label());
                followed.policy.start_has_failed(moment);
                app.follow_load(app.ready_workers().len().max(app.range().at_start()));
            }
            let Some(sample) = server.app_pools(index).and_then(|pools| followed.sample(app, pools)) else { continue };
            let size = if sample.waiting > 0 { followed.size(app, now) } else { followed.size.map_or(0, |(size, _)| size) };
            let (rules, wanted, most_cpu) = (rules(app), app.wanted(), app.settings().scaling.up_cpu);
            views.push(View { app: index, policy: &mut followed.policy, rules, wanted, sample, size, most_cpu });
        }
        for (index, action) in look(moment, &mut views, machine) {
            self.carry_out(&mut apps[index], index, action, now);
        }
    }

    fn carry_out(&mut self, app: &mut Molds<'_>, index: usize, action: Action, now: Instant) {
        let (label, wanted) = (app.label(), app.wanted());
        match action {
            Action::Grow(wait) => {
                let workers = counted(wanted + 1, "worker");
                log::info!("{label}: {workers}: requests waited {} ms", wait.as_millis());
                app.follow_load(wanted + 1);
            }
            Action::Shrink => {
                log::info!("{label}: {}: one had nothing to do", counted(wanted - 1, "worker"));
                app.follow_load(wanted - 1);
            }
            Action::GiveUp(workers) => {
                log::warn!("{label}: {}: a worker could not start", counted(workers, "worker"));
                app.follow_load(workers);
            }
            Action::Sleep => app.doze_off(),
            Action::Refused(refusal) => {
                let followed = &mut self.apps[index];
                if followed.logged_at.is_none_or(|then| now.saturating_duration_since(then) >= LOG_INTERVAL) {
                    followed.logged_at = Some(now);
                    let why = match refusal {
                        Refusal::Cpu(load) => format!("the processors are busy to {load} % (--scale-up-cpu)"),
                        Refusal::Memory(left) => format!("memory has {} for it", show_size(left)),
                    };
                    log::warn!("{label}: requests wait, and no further worker starts: {why}");
                }
            }
        }
    }
}

/// Whether the app has processes, and their number follows the load.
fn is_followed(app: &Molds<'_>) -> bool {
    app.is_present() && app.range().follows_load() && !app.is_asleep() && !app.is_stopped()
}

fn rules(app: &Molds<'_>) -> Rules {
    let (range, settings) = (app.range(), app.settings());
    Rules {
        least: range.least(),
        most: range.most(),
        up_wait: settings.scaling.up_wait,
        down_idle: settings.scaling.down_idle,
        // The supervisor kills it then.
        start: settings.life.boot_timeout.saturating_add(LOOK * 4),
    }
}

impl Followed {
    /// Takes the next step of falling asleep. Returns whether the app sleeps, or is about to.
    fn sleeps(&mut self, app: &mut Molds<'_>, pools: Option<&AppPools<'_>>, (now, moment): (Instant, Duration)) -> bool {
        if !app.range().may_sleep() {
            return false;
        }
        if app.state() == "failed" {
            let since = *self.failed_since.get_or_insert(now);
            if now.saturating_duration_since(since) < app.settings().scaling.down_idle {
                return true;
            }
            log::info!("{} sleeps: it cannot be loaded, and the next request tries it again", app.label());
        } else if !app.is_drowsy() {
            return false;
        } else if pools.is_none_or(|pools| self.has_requests(pools)) {
            app.wake();
            return false;
        } else {
            log::info!("{} sleeps: there was no request", app.label());
        }
        app.fall_asleep();
        self.failed_since = None;
        self.policy.has_fallen_asleep(moment);
        true
    }

    /// Whether a request is there, or has come since the last look.
    fn has_requests(&mut self, pools: &AppPools<'_>) -> bool {
        let came = self.have_come(pools);
        came || pools.pools.iter().any(|memory| memory.inspect().is_ok_and(|requests| !requests.is_empty()))
    }

    /// Whether requests have come since the last call.
    fn have_come(&mut self, pools: &AppPools<'_>) -> bool {
        let arrived: Vec<u64> = pools.pools.iter().map(|memory| memory.arrived().unwrap_or_default()).collect();
        std::mem::replace(&mut self.arrived, arrived) != self.arrived
    }

    /// Returns a sample. `None` if a pool cannot be read.
    fn sample(&mut self, app: &Molds<'_>, pools: &AppPools<'_>) -> Option<Sample> {
        let arrived = self.have_come(pools);
        let had_nothing = self.last.busy == 0 && self.last.waiting == 0;
        if !arrived && had_nothing && self.last.ready == app.wanted() {
            self.last.arrived = false;
            return Some(self.last);
        }
        let (mut waiting, mut running, mut oldest, mut holders) = (0, 0, None::<Duration>, HashSet::new());
        for (edge, memory) in pools.pools.iter().enumerate() {
            for request in memory.inspect().ok()? {
                match request.state {
                    RequestState::Queued(_) => {
                        waiting += 1;
                        oldest = Some(oldest.map_or(request.since, |before| before.min(request.since)));
                    }
                    RequestState::Taken { worker, process, .. } => {
                        running += 1;
                        // The place of a worker differs from edge to edge; its process does not.
                        holders.insert(process.map_or((Some(edge), worker), |process| (None, process)));
                    }
                }
            }
        }
        let busy = usize::div_ceil(running, app.settings().threads.max(1)).min(holders.len());
        let wait = oldest.map_or(Duration::ZERO, |since| monotonic().saturating_sub(since));
        self.last = Sample { ready: app.ready_workers().len(), busy, waiting, wait, arrived };
        Some(self.last)
    }

    /// Returns the memory of a worker in bytes: that of the largest one of the first few.
    fn size(&mut self, app: &Molds<'_>, now: Instant) -> u64 {
        match self.size {
            Some((size, then)) if now.saturating_duration_since(then) < MEASURED_FOR => size,
            _ => {
                let sizes = app.ready_workers().into_iter().take(4).filter_map(memory_use::of);
                let size = sizes.max().unwrap_or_default();
                self.size = Some((size, now));
                size
            }
        }
    }
}
