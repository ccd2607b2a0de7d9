//! Metrics of the server for Prometheus, at `--metrics ADDRESS` and at `--metrics-path`.
//!
//! The metrics belong to the first process, which never runs an app and already has all numbers. It serves them in its own
//! event loop, as it serves the control socket. So they are available even while every worker is stuck, and no call here
//! blocks. The address serves `/metrics` and, with `--dashboard`, a page that displays the metrics; both for GET and HEAD,
//! with one request on each connection. The path of `--metrics-path` is served by the processes that own the clients'
//! connections: they ask the first process for the metrics (`metrics_request.rs`).

mod accept;
mod allowed;
mod clients;
mod dashboard;
mod exchange;
mod families;
mod kind;
mod metrics_request;
mod native;
mod of_apps;
mod protobuf;
mod requesters;
mod routes;
mod text;
mod weights;

pub use accept::preferred;
pub use families::Traffic;
pub use metrics_request::{MetricsClient, MetricsRequest, Outcome};
pub use text::Format;

use crate::control::Steered;
use allowed::Allowed;
use clients::{Clients, ScrapeRequest};
use dashboard::Dashboard;
use families::{Sample, WorkerMemory, render};
use oribi_config::{AcceptModel, ListenAddress, Settings};
use oribi_listen::{Kept, Listener, open_or_take};
use oribi_stats::app_metrics::AppMetrics;
use requesters::Requesters;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime};
use weights::Weights;

/// The number of clients that may wait to be accepted.
const BACKLOG: u32 = 64;
/// The interval at which this server tries to open an address that the previous server still has.
const TRIED_EVERY: Duration = Duration::from_millis(500);

/// A first process that provides the data of metrics.
pub trait Measured: Steered {
    /// Returns the metrics, if they are on.
    fn metrics(&mut self) -> Option<&mut Metrics>;

    /// Returns the number of requests in the server.
    fn traffic(&self) -> Traffic;

    /// Returns the app metrics.
    fn app_metrics(&self) -> AppMetrics;

    /// Returns the memory in bytes that a process uses; `None` if unknown.
    fn memory_of(process: u32) -> Option<u64>;
}

/// The listeners for metrics, and their clients.
#[derive(Debug)]
pub struct Metrics {
    /// The settings with the metrics address as their only listener.
    settings: Settings,
    /// The metrics address; `None` if there is only the path.
    address: Option<ListenAddress>,
    /// The listeners of the address; empty while another server has it.
    listeners: Vec<Listener>,
    stage: EndpointState,
    clients: Clients,
    /// The processes that ask for metrics; `None` without a path for metrics.
    requesters: Option<Requesters>,
    /// The dashboard; `None` if it is off, or after the next server has taken over.
    dashboard: Option<Dashboard>,
    weights: Weights,
    began: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointState {
    /// The previous server answers, and this one does not yet.
    Waiting,
    /// This server answers, as soon as it has the address. `next_try` is the time of the next attempt to open the address.
    Open { next_try: Option<Instant> },
    /// The next server answers.
    Passed,
}

impl Metrics {
    /// Creates the metrics without listeners. Returns `None` if metrics are off.
    fn at(settings: &Settings, stage: EndpointState) -> Result<Option<Self>, String> {
        if !settings.serves_metrics() {
            return Ok(None);
        }
        let address = settings.metrics.clone();
        let settings = Settings {
            listen: address.iter().cloned().collect(),
            // A single process accepts.
            accept: AcceptModel::Shared,
            reuse_port: false,
            backlog: BACKLOG,
            ..settings.clone()
        };
        let dashboard = address.as_ref().and_then(|address| Dashboard::of(&settings.dashboard, address));
        let (dashboard, guard) = dashboard.unzip();
        let (clients, weights, began) =
            (Clients::new(guard, Allowed::new(&settings.metrics_allowed)), Weights::default(), SystemTime::now());
        let requesters = settings.metrics_path.as_ref().map(|_| MetricsClient::open()).transpose();
        let requesters = requesters.map_err(|error| format!("--metrics-path: the system gives no sockets for it: {error}"))?;
        let requesters = requesters.map(Requesters::new);
        if let Some(path) = &settings.metrics_path {
            log::info!("metrics are at the path {} of the app's addresses, for {}", path.path(), path.allowed());
        }
        Ok(Some(Self { settings, address, listeners: Vec::new(), stage, clients, requesters, dashboard, weights, began }))
    }

    /// Opens the metrics address of `settings`; `None` if metrics are off. `follows`: whether this server may follow another
    /// one, which may still use the address. Then this server waits until the address is free.
    ///
    /// # Errors
    /// The address cannot be opened.
    pub fn open(settings: &Settings, follows: bool) -> Result<Option<Self>, String> {
        let Some(mut metrics) = Self::at(settings, EndpointState::Open { next_try: None })? else { return Ok(None) };
        match metrics.listen() {
            Ok(()) => {}
            Err(why) if follows => metrics.wait_for_address(&why),
            Err(why) => return Err(why),
        }
        Ok(Some(metrics))
    }

    /// Creates the metrics of a server that replaces another one; `None` if metrics are off. `left` are the address of the
    /// previous server and the listeners that this server has inherited; they are used if this server has the same address.
    /// `history` is the file with the history of the previous server's dashboard.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn of_server_before(
        settings: &Settings,
        left: Option<(String, Vec<Listener>)>,
        history: Option<OwnedFd>,
    ) -> Result<Option<Self>, String> {
        let Some(mut metrics) = Self::at(settings, EndpointState::Waiting)? else { return Ok(None) };
        if let (Some(dashboard), Some(file)) = (&mut metrics.dashboard, history) {
            dashboard.follow(file);
        }
        let same = left.filter(|(address, _)| metrics.address.as_ref().is_some_and(|own| *address == own.to_string()));
        metrics.listeners = same.map(|(_, listeners)| listeners).unwrap_or_default();
        // The listeners belong to the previous server until this server serves.
        metrics.listeners.iter_mut().for_each(|listener| listener.lent = true);
        Ok(Some(metrics))
    }

    /// Answers from now on instead of the previous server.
    pub fn take_over(&mut self) {
        self.stage = EndpointState::Open { next_try: None };
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

    /// Leaves the address to the next server. Clients that are connected still get an answer. Viewers of the dashboard are
    /// disconnected, and reconnect to the next server.
    pub fn pass_on(&mut self) {
        self.stage = EndpointState::Passed;
        // The history is written before viewers reconnect to the next server.
        self.dashboard.take().iter().for_each(|dashboard| dashboard.bequeath(true));
        self.listeners.iter_mut().for_each(Listener::lend);
        self.listeners.clear();
    }

    /// Closes the listeners of the address.
    pub fn end(&mut self) {
        self.listeners.iter_mut().for_each(Listener::end);
    }

    /// Returns the name of the address and its listeners, for the next server.
    pub fn left(&self) -> (String, &[Listener]) {
        (self.address.as_ref().map(ToString::to_string).unwrap_or_default(), &self.listeners)
    }

    /// Returns the file with the history of the dashboard, for the next server.
    pub fn history(&self) -> Option<BorrowedFd<'_>> {
        self.dashboard.as_ref().and_then(Dashboard::left)
    }

    fn listen(&mut self) -> Result<(), String> {
        if self.address.is_none() {
            return Ok(());
        }
        self.listeners = open_or_take(&self.settings, &mut Kept::default()).map_err(|why| format!("--metrics: {why}"))?;
        for listener in &self.listeners {
            let path = if listener.unix { ", path /metrics" } else { "/metrics" };
            log::info!("metrics are at {}{path}", listener.display);
            if self.dashboard.is_some() {
                let path = if listener.unix { ", path /" } else { "/" };
                log::info!("the dashboard is at {}{path}", listener.display);
            }
        }
        self.stage = EndpointState::Open { next_try: None };
        Ok(())
    }

    fn wait_for_address(&mut self, why: &str) {
        log::warn!("{why}; retrying twice a second");
        self.stage = EndpointState::Open { next_try: Some(Instant::now() + TRIED_EVERY) };
    }

    fn try_again_if_due(&mut self, now: Instant) {
        if let EndpointState::Open { next_try: Some(due) } = self.stage
            && now >= due
            && self.listen().is_err()
        {
            self.stage = EndpointState::Open { next_try: Some(now + TRIED_EVERY) };
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, EndpointState::Open { .. })
    }

    /// Returns the listeners from which this process accepts now.
    fn accepting(&self) -> impl Iterator<Item = &Listener> {
        let open = self.is_open();
        self.listeners.iter().filter(move |_| open)
    }

    /// Returns the descriptors to wait for.
    pub fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let welcome = self.clients.are_welcome();
        let listeners = self.accepting().filter(move |_| welcome);
        listeners
            .map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN))
            .chain(self.clients.polled())
            .chain(self.requesters.iter().flat_map(Requesters::polled))
            .chain(self.dashboard.iter().flat_map(Dashboard::polled))
    }

    /// Returns the longest time that this process may wait; `None` without a limit.
    pub fn patience(&self, now: Instant) -> Option<Duration> {
        let next_try = if let EndpointState::Open { next_try } = self.stage { next_try } else { None };
        let of_dashboard = self.dashboard.iter().filter(|_| self.is_open()).filter_map(Dashboard::next_deadline);
        let of_inquirers = self.requesters.iter().filter_map(Requesters::next_deadline);
        let next = self.clients.next_deadline().into_iter().chain(next_try).chain(of_dashboard).chain(of_inquirers).min();
        next.map(|next| next.saturating_duration_since(now))
    }
}

/// Serves the clients that are still connected, until they have disconnected or their time is over. Called when this process
/// ends after the next server has taken over.
pub fn finish<S: Measured>(server: &mut S) {
    loop {
        attend(server);
        let now = Instant::now();
        let Some(metrics) = server.metrics().filter(|metrics| !metrics.clients.are_gone()) else { return };
        let timeout = metrics.patience(now).and_then(|patience| Timespec::try_from(patience).ok());
        let mut polled: Vec<_> = metrics.polled().collect();
        // Even after an error, the clients are served again.
        let _ = poll(&mut polled, timeout.as_ref());
    }
}

/// Accepts clients, and answers requests. Takes a sample if the dashboard or a request needs one.
pub fn attend<S: Measured>(server: &mut S) {
    let now = Instant::now();
    let Some(metrics) = server.metrics() else { return };
    metrics.try_again_if_due(now);
    let is_open = metrics.is_open();
    let Metrics { clients, listeners, dashboard, requesters, .. } = metrics;
    if is_open {
        listeners.iter().for_each(|listener| clients.accept(listener.as_fd(), now));
    }
    let (mut asked, mut watchers) = (Vec::new(), Vec::new());
    for (scraper, wish) in clients.attend(now) {
        match wish {
            ScrapeRequest::Metrics(format) => asked.push((scraper, format)),
            ScrapeRequest::Events => watchers.extend(clients.release(scraper)),
        }
    }
    // Processes of this server still ask its first process after the next server has taken over the address.
    let metrics_requests = requesters.as_mut().map(|requesters| requesters.attend(now)).unwrap_or_default();
    // Viewers that connect after the dashboard was passed on are disconnected, and reconnect to the next server.
    let wanted = dashboard.as_mut().filter(|_| is_open).map(|dashboard| dashboard.attend(watchers, now)).unwrap_or_default();
    let somebody_asks = !asked.is_empty() || !metrics_requests.is_empty();
    if !somebody_asks && !wanted.sample {
        return;
    }
    let Some(sample) = sample(server, somebody_asks || wanted.memory) else { return };
    let app_metrics = if somebody_asks { server.app_metrics() } else { AppMetrics::default() };
    let requests = wanted.requests.then(|| server.requests());
    let Some(Metrics { clients, dashboard, requesters, .. }) = server.metrics() else { return };
    for (scraper, format) in asked {
        clients.answer(scraper, format, &render(&sample, &app_metrics, format), now);
    }
    if let Some(requesters) = requesters {
        metrics_requests
            .into_iter()
            .for_each(|(requester, format)| requesters.answer(requester, &render(&sample, &app_metrics, format), now));
    }
    if let Some(dashboard) = dashboard.as_mut().filter(|_| wanted.sample) {
        dashboard.note(&sample, requests.as_ref(), now, SystemTime::now());
    }
}

/// Takes a sample of the server; `None` if metrics are off. `weigh`: whether the memory of workers is measured again where
/// the last number is outdated.
fn sample<S: Measured>(server: &mut S, weigh: bool) -> Option<Sample> {
    let (report, processes, traffic) = (server.report(), server.processes(), server.traffic());
    let workers: Vec<_> = processes.iter().filter(|process| process.kind == "worker" && process.row.pid != 0).collect();
    let pids: Vec<u32> = workers.iter().map(|worker| worker.row.pid).collect();
    let Metrics { weights, began, settings, .. } = server.metrics()?;
    if weigh {
        weights.renew(&pids, S::memory_of);
    }
    let weighed = workers.iter().filter_map(|worker| {
        let row = &worker.row;
        let (app, generation, number) = (worker.app.clone(), worker.generation, row.number);
        Some(WorkerMemory { app, generation, number, bytes: weights.of(row.pid)? })
    });
    let (memory, began, bounds) = (weighed.collect(), *began, settings.histogram_buckets.clone());
    let routes = settings.route_names().into_iter().map(str::to_owned).collect();
    Some(Sample { report, processes, traffic, memory, began, bounds, routes })
}
