//! Metrics for Prometheus: what the server has done, and how it does, at `--metrics ADDRESS`.
//!
//! They belong to the first process, which never runs an app and knows all numbers anyway. It serves them in its own loop, between
//! two waits, as it serves the control socket. So they are answered while every worker is stuck, and nothing here blocks. There is
//! only `/metrics`, for GET and HEAD; each connection carries one request.

mod accept;
mod clients;
mod exchange;
mod families;
mod text;
mod weights;

pub(crate) use families::Traffic;

use crate::config::{AcceptModel, ListenAddress, Settings};
use crate::control::Steered;
use crate::listen::{Kept, Listener, open_or_take};
use clients::Clients;
use families::{Sample, render};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};
use weights::Weights;

/// How many clients may wait to be accepted.
const BACKLOG: u32 = 64;
/// How often an address is tried that another server has, which this one follows.
const TRIED_EVERY: Duration = Duration::from_millis(500);

/// A first process that knows what metrics tell.
pub(crate) trait Measured: Steered {
    /// Its metrics, if it was asked for them.
    fn metrics(&mut self) -> Option<&mut Metrics>;

    /// Which requests are in it.
    fn traffic(&self) -> Traffic;

    /// The bytes of memory that a worker uses; `None`: nobody knows.
    fn memory_of(process: u32) -> Option<u64>;
}

/// The listeners for metrics, and those who are connected.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// What to listen on: the settings, with the address for metrics as the only one.
    settings: Settings,
    address: ListenAddress,
    /// Empty as long as another server has the address, and when the next one serves it.
    listeners: Vec<Listener>,
    stage: Stage,
    clients: Clients,
    weights: Weights,
    began: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The server before answers, until this one serves.
    Waiting,
    /// This server answers, as soon as it has the address.
    Open { next_try: Option<Instant> },
    /// The next server answers.
    Passed,
}

impl Metrics {
    fn at(settings: &Settings, stage: Stage) -> Option<Self> {
        let address = settings.metrics.clone()?;
        let settings = Settings {
            listen: vec![address.clone()],
            // One process accepts.
            accept: AcceptModel::Shared,
            reuse_port: false,
            backlog: BACKLOG,
            ..settings.clone()
        };
        let (clients, weights, began) = (Clients::default(), Weights::default(), SystemTime::now());
        Some(Self { settings, address, listeners: Vec::new(), stage, clients, weights, began })
    }

    /// Opens the address that `settings` name; `None`: they name none. A server that `follows` another one may find that one there:
    /// then it waits until the address is free.
    ///
    /// # Errors
    /// The address cannot be opened.
    pub(crate) fn open(settings: &Settings, follows: bool) -> Result<Option<Self>, String> {
        let Some(mut metrics) = Self::at(settings, Stage::Open { next_try: None }) else { return Ok(None) };
        match metrics.listen() {
            Ok(()) => {}
            Err(why) if follows => metrics.wait_for_address(&why),
            Err(why) => return Err(why),
        }
        Ok(Some(metrics))
    }

    /// The metrics of a server that takes the place of another one, which has left these listeners for the address of that name. They
    /// are used if this server has the same address.
    pub(crate) fn of_server_before(settings: &Settings, left: Option<(String, Vec<Listener>)>) -> Option<Self> {
        let mut metrics = Self::at(settings, Stage::Waiting)?;
        let same = left.filter(|(address, _)| *address == metrics.address.to_string());
        metrics.listeners = same.map(|(_, listeners)| listeners).unwrap_or_default();
        // Until this server serves, they are those of the one before.
        metrics.listeners.iter_mut().for_each(|listener| listener.lent = true);
        Some(metrics)
    }

    /// From now on this server answers instead of the one before.
    pub(crate) fn take_over(&mut self) {
        self.stage = Stage::Open { next_try: None };
        for listener in &mut self.listeners {
            listener.lent = false;
            listener.own_file();
        }
        if self.listeners.is_empty()
            && let Err(why) = self.listen()
        {
            self.wait_for_address(&why);
        }
    }

    /// From now on the next server answers. Who is connected still gets an answer.
    pub(crate) fn pass_on(&mut self) {
        self.stage = Stage::Passed;
        self.listeners.iter_mut().for_each(Listener::lend);
        self.listeners.clear();
    }

    /// Closes the address.
    pub(crate) fn end(&mut self) {
        self.listeners.iter_mut().for_each(Listener::end);
    }

    /// The name of the address and what listens there, for the server that takes the place of this one.
    pub(crate) fn left(&self) -> (String, &[Listener]) {
        (self.address.to_string(), &self.listeners)
    }

    fn listen(&mut self) -> Result<(), String> {
        self.listeners = open_or_take(&self.settings, &mut Kept::default()).map_err(|why| format!("--metrics: {why}"))?;
        for listener in &self.listeners {
            let path = if listener.unix { ", path /metrics" } else { "/metrics" };
            log::info!("metrics are at {}{path}", listener.display);
        }
        self.stage = Stage::Open { next_try: None };
        Ok(())
    }

    fn wait_for_address(&mut self, why: &str) {
        log::warn!("{why}; this is tried again until it works");
        self.stage = Stage::Open { next_try: Some(Instant::now() + TRIED_EVERY) };
    }

    fn try_again_if_due(&mut self, now: Instant) {
        if let Stage::Open { next_try: Some(due) } = self.stage
            && now >= due
            && self.listen().is_err()
        {
            self.stage = Stage::Open { next_try: Some(now + TRIED_EVERY) };
        }
    }

    /// The listeners from which this process accepts now.
    fn accepting(&self) -> impl Iterator<Item = &Listener> {
        let open = matches!(self.stage, Stage::Open { .. });
        self.listeners.iter().filter(move |_| open)
    }

    /// What to wait for.
    pub(crate) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let welcome = self.clients.are_welcome();
        let listeners = self.accepting().filter(move |_| welcome);
        listeners.map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)).chain(self.clients.polled())
    }

    /// How long this process may wait at most; `None`: as long as nothing happens.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        let next_try = if let Stage::Open { next_try } = self.stage { next_try } else { None };
        let next = self.clients.next_deadline().into_iter().chain(next_try).min();
        next.map(|next| next.saturating_duration_since(now))
    }
}

/// The next server answers by now: goes on with those who were connected before, until they have gone or have had their time.
pub(crate) fn finish<S: Measured>(server: &mut S) {
    loop {
        attend(server);
        let now = Instant::now();
        let Some(metrics) = server.metrics().filter(|metrics| !metrics.clients.are_gone()) else { return };
        let timeout = metrics.patience(now).and_then(|patience| Timespec::try_from(patience).ok());
        let mut polled: Vec<_> = metrics.polled().collect();
        // Whatever comes of it, they are looked at again.
        let _ = poll(&mut polled, timeout.as_ref());
    }
}

/// Accepts clients, and answers those who have asked.
pub(crate) fn attend<S: Measured>(server: &mut S) {
    let now = Instant::now();
    let Some(metrics) = server.metrics() else { return };
    metrics.try_again_if_due(now);
    let Metrics { clients, listeners, stage, began, .. } = metrics;
    if matches!(stage, Stage::Open { .. }) {
        listeners.iter().for_each(|listener| clients.accept(listener.as_fd(), now));
    }
    let asked = clients.attend(now);
    if asked.is_empty() {
        return;
    }
    let began = *began;
    let (report, processes, traffic) = (server.report(), server.processes(), server.traffic());
    let workers: Vec<_> = processes.iter().filter(|process| process.kind == "worker" && process.row.pid != 0).collect();
    let pids: Vec<u32> = workers.iter().map(|worker| worker.row.pid).collect();
    let Some(Metrics { clients, weights, .. }) = server.metrics() else { return };
    weights.renew(&pids, S::memory_of);
    let weighed = workers.iter().filter_map(|worker| {
        let row = &worker.row;
        Some((worker.generation, row.number, weights.of(row.pid)?))
    });
    let memory = weighed.collect();
    let sample = Sample { report, processes, traffic, memory, began };
    for (scraper, format) in asked {
        clients.answer(scraper, format, &render(&sample, format), now);
    }
}
