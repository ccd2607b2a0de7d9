//! Carries out the orders of clients, in the master or in a supervisor without one.

use super::Control;
use super::clients::Caller;
use super::readiness::{self, ReadinessProgress};
use super::report::{ProcessReport, Report};
use oribi_control_api::{Answer, AppOrder, Changed, Done, Order, Processes, Purged, Requests, Scaled, Stopped, WorkerTarget};
use std::path::PathBuf;
use std::time::Instant;

/// A first process that can be controlled.
pub trait Steered {
    /// Returns the control socket, if there is one.
    fn control(&mut self) -> Option<&mut Control>;

    /// Returns the state of the server.
    fn report(&self) -> Report;

    /// Asks all edges whether they are ready, if there are any.
    fn ask_readiness(&mut self);

    /// Returns whether the server is ready, as soon as all edges have answered the last question.
    fn readiness(&self) -> ReadinessProgress;

    /// Returns the state of each worker and edge.
    fn processes(&self) -> Vec<ProcessReport>;

    /// Returns the requests in the server.
    ///
    /// # Errors
    /// The requests are unknown; the message contains the reason.
    fn requests(&self) -> Result<Requests, String>;

    /// Returns the id of the process that has forked a worker; `None` if that process is not known any more.
    fn parent_process(&self, worker: &ProcessReport) -> Option<u32>;

    /// Returns the first `lines` lines of the memory in which a worker writes its backtraces.
    fn backtraces(&self, worker: &ProcessReport, lines: usize) -> Vec<u8>;

    /// Begins to load an app again (all apps without a name), or to replace the workers. Returns the number that identifies this
    /// reload, for [`Steered::reload_progress`].
    ///
    /// # Errors
    /// A reload is impossible now; the message contains the reason.
    fn begin_reload(&mut self, app: Option<&str>) -> Result<u64, String>;

    /// Stops an app, and leaves the others alone.
    ///
    /// # Errors
    /// There is no such app, or it is the only one.
    fn stop_app(&mut self, app: &str) -> Result<(), String>;

    /// Whether an app serves at the moment.
    ///
    /// # Errors
    /// There is no such app, or it is the only one.
    fn is_serving(&mut self, app: &str) -> Result<bool, String>;

    /// Returns the progress of the reload that `number` identifies.
    fn reload_progress(&self, number: u64) -> Progress;

    /// Begins to read the file with the apps again, or another one, and to change what differs; `dry_run`: only describes that.
    /// Returns the number that identifies this change, for [`Steered::apply_progress`].
    ///
    /// # Errors
    /// Nothing was changed; the message contains the reason.
    fn begin_apply(&mut self, file: Option<PathBuf>, dry_run: bool) -> Result<u64, String>;

    /// Returns the progress of the change that `number` identifies.
    fn apply_progress(&self, number: u64) -> Progress;

    /// Begins to remove stored responses: those of an app, or of all apps without a name, with this target, or all of them. Returns
    /// the number that identifies this, for [`Steered::purge_progress`].
    ///
    /// # Errors
    /// Nothing was removed; the message contains the reason.
    fn begin_purge(&mut self, app: Option<&str>, target: Option<&str>) -> Result<u64, String>;

    /// Returns the number of responses that the operation with this number has removed; `None` while it is in progress.
    fn purge_progress(&self, number: u64) -> Option<u64>;

    /// Begins to stop the server.
    fn begin_stop(&mut self);

    /// Sets the target number of workers of an app (the only one without a name), or its limits. Returns the previous target
    /// number, the new one, and the number that identifies this change, for [`Steered::scale_progress`].
    ///
    /// # Errors
    /// That number of workers is impossible; the message contains the reason.
    fn scale(&mut self, app: Option<&str>, target: WorkerTarget) -> Result<(usize, usize, u64), String>;

    /// Returns the progress of the change that `number` identifies.
    fn scale_progress(&self, number: u64) -> Progress;

    /// Makes all processes reopen their logs.
    fn reopen_all_logs(&mut self);

    /// Begins an upgrade: starts a new server from the program's file.
    ///
    /// # Errors
    /// An upgrade is impossible now; the message contains the reason.
    fn begin_upgrade(&mut self) -> Result<(), String>;

    /// Returns the progress of the upgrade.
    fn upgrade_progress(&self) -> Progress;
}

/// The progress of an operation that takes time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The operation is in progress.
    Pending,
    /// The operation has succeeded; the text describes the server or workers that serve now.
    Done(String),
    /// The operation has failed; the text contains the reason, and describes the server or workers that serve now.
    Failed(String),
}

/// The operation for which a client waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    Reload(u64),
    Apply(u64),
    Purge(u64),
    Upgrade,
    /// The answers of the edges, until this time.
    Readiness {
        until: Instant,
    },
    Workers {
        number: u64,
        workers: usize,
        before: usize,
    },
    End,
}

/// Carries out the orders that have arrived since the last call, and answers the clients whose operations have ended. Returns
/// whether any order has arrived: then this process may have work to do before it sleeps.
pub fn steer(server: &mut impl Steered) -> bool {
    let Some(control) = server.control() else { return false };
    let orders = control.orders(Instant::now());
    let any = !orders.is_empty();
    for (caller, order) in orders {
        if let (Order::Backtrace { worker }, Some(control)) = (&order, server.control()) {
            control.backtraces.wish(caller, *worker);
            continue;
        }
        let outcome = carry_out(server, order);
        let Some(control) = server.control() else { return false };
        match outcome {
            Ok(answer) => control.clients.answer(caller, answer),
            Err(awaited) => control.waiting.push((caller, awaited)),
        }
    }
    answer_those_who_wait(server);
    go_on_with_backtraces(server);
    any
}

/// Returns the answer to an order. The error is the operation for whose end the client must wait.
fn carry_out(server: &mut impl Steered, order: Order) -> Result<String, Awaited> {
    match order {
        Order::Status => Ok(Answer::Done(server.report().status()).to_json()),
        Order::Health => {
            server.ask_readiness();
            Err(Awaited::Readiness { until: Instant::now() + readiness::PATIENCE })
        }
        Order::Workers => {
            let processes = server.processes().iter().map(ProcessReport::process).collect();
            Ok(Answer::Done(Processes { processes }).to_json())
        }
        Order::Requests => match server.requests() {
            Ok(requests) => Ok(Answer::Done(requests).to_json()),
            Err(why) => Ok(failed(why)),
        },
        // A round of backtraces answers such clients: see `go_on_with_backtraces`.
        Order::Backtrace { .. } => Ok(failed("there is no control socket")),
        Order::Reload => reload(server, None),
        Order::Apply { file, dry_run } => match server.begin_apply(file.map(PathBuf::from), dry_run) {
            Ok(number) => Err(Awaited::Apply(number)),
            Err(why) => Ok(failed(why)),
        },
        Order::Purge { app, target } => match server.begin_purge(app.as_deref(), target.as_deref()) {
            Ok(number) => Err(Awaited::Purge(number)),
            Err(why) => Ok(failed(why)),
        },
        Order::App { name, act: AppOrder::Reload } => reload(server, Some(&name)),
        Order::App { name, act: AppOrder::Restart } => {
            match server.stop_app(&name).and_then(|()| server.begin_reload(Some(&name))) {
                Ok(number) => Err(Awaited::Reload(number)),
                Err(why) => Ok(failed(why)),
            }
        }
        Order::App { name, act: AppOrder::Stop } => Ok(changed(server.stop_app(&name), format!("{name} is stopping"))),
        Order::App { name, act: AppOrder::Start } => match server.is_serving(&name) {
            Ok(true) => Ok(changed(Ok(()), format!("{name} serves already"))),
            Ok(false) => reload(server, Some(&name)),
            Err(why) => Ok(failed(why)),
        },
        Order::App { name, act: AppOrder::Scale { target, waits } } => scale(server, Some(&name), target, waits),
        Order::Stop => {
            server.begin_stop();
            Err(Awaited::End)
        }
        Order::Scale { target, waits } => scale(server, None, target, waits),
        Order::ReopenLogs => {
            server.reopen_all_logs();
            Ok(Answer::Done(Done {}).to_json())
        }
        Order::Upgrade => match server.begin_upgrade() {
            Ok(()) => Err(Awaited::Upgrade),
            Err(why) => Ok(failed(why)),
        },
    }
}

fn reload(server: &mut impl Steered, app: Option<&str>) -> Result<String, Awaited> {
    match server.begin_reload(app) {
        Ok(number) => Err(Awaited::Reload(number)),
        Err(why) => Ok(failed(why)),
    }
}

fn scale(server: &mut impl Steered, app: Option<&str>, target: WorkerTarget, waits: bool) -> Result<String, Awaited> {
    match server.scale(app, target) {
        Ok((before, workers, number)) if waits => Err(Awaited::Workers { number, workers, before }),
        Ok((before, workers, _)) => Ok(scaled(workers, before)),
        Err(why) => Ok(failed(why)),
    }
}

/// Returns the answer to an order that has an effect at once, described by `message`.
fn changed(outcome: Result<(), String>, message: String) -> String {
    outcome.map_or_else(failed, |()| Answer::Done(Changed { message }).to_json())
}

fn go_on_with_backtraces(server: &mut impl Steered) {
    let Some(control) = server.control() else { return };
    let mut backtraces = std::mem::take(&mut control.backtraces);
    let answers = backtraces.go_on(server, Instant::now());
    let Some(control) = server.control() else { return };
    control.backtraces = backtraces;
    for (caller, answer) in answers {
        control.clients.answer(caller, answer);
    }
}

/// Returns the answer to an order that has failed for this reason.
fn failed(why: impl Into<String>) -> String {
    Answer::<Done>::failed(why).to_json()
}

/// Returns the answer to an order that has changed the number of workers from `before` to `workers`.
fn scaled(workers: usize, before: usize) -> String {
    Answer::Done(Scaled { workers, before }).to_json()
}

fn answer_those_who_wait(server: &mut impl Steered) {
    let Some(control) = server.control() else { return };
    if control.waiting.is_empty() {
        return;
    }
    let mut waiting = std::mem::take(&mut control.waiting);
    waiting.retain(|(caller, awaited)| {
        let progress = match awaited {
            Awaited::Readiness { until } => {
                let Some(answer) = readiness::answer(server.readiness(), *until) else { return true };
                if let Some(control) = server.control() {
                    control.clients.answer(*caller, answer);
                }
                return false;
            }
            Awaited::Purge(number) => {
                let Some(responses) = server.purge_progress(*number) else { return true };
                if let Some(control) = server.control() {
                    control.clients.answer(*caller, Answer::Done(Purged { responses }).to_json());
                }
                return false;
            }
            Awaited::Reload(number) => server.reload_progress(*number),
            Awaited::Apply(number) => server.apply_progress(*number),
            Awaited::Upgrade => server.upgrade_progress(),
            Awaited::Workers { number, .. } => server.scale_progress(*number),
            Awaited::End => return true,
        };
        let answer = match (progress, awaited) {
            (Progress::Pending, _) => return true,
            (Progress::Done(_), Awaited::Workers { workers, before, .. }) => scaled(*workers, *before),
            (Progress::Done(message), _) => Answer::Done(Changed { message }).to_json(),
            (Progress::Failed(why), _) => failed(why),
        };
        if let Some(control) = server.control() {
            control.clients.answer(*caller, answer);
        }
        false
    });
    if let Some(control) = server.control() {
        control.waiting = waiting;
    }
}

/// Answers the clients that wait for the end of the server, with its exit `status`, and reports failure to all other waiting
/// clients. Must be the last call of this module.
pub fn say_end(server: &mut impl Steered, status: i32) {
    let Some(control) = server.control() else { return };
    for (caller, awaited) in std::mem::take(&mut control.waiting) {
        let answer = match awaited {
            Awaited::End => Answer::Done(Stopped { status }).to_json(),
            Awaited::Reload(_)
            | Awaited::Apply(_)
            | Awaited::Purge(_)
            | Awaited::Upgrade
            | Awaited::Readiness { .. }
            | Awaited::Workers { .. } => failed("the server has stopped"),
        };
        control.clients.answer_finally(caller, answer);
    }
    for caller in control.backtraces.left() {
        control.clients.answer_finally(caller, failed("the server has stopped"));
    }
    control.clients.leave_open();
}

/// Reports to the waiting clients that another server serves now. They can send the same order to that server.
pub fn say_replaced(server: &mut impl Steered) {
    let Some(control) = server.control() else { return };
    let waiting = std::mem::take(&mut control.waiting).into_iter().map(|(caller, _)| caller);
    for caller in waiting.chain(control.backtraces.left()) {
        control.clients.answer(caller, failed("the server was upgraded in the meantime: ask the new one"));
    }
}

impl Control {
    /// Accepts clients, and sends pending answers. Returns the orders that have arrived, with their clients.
    fn orders(&mut self, now: Instant) -> Vec<(Caller, Order)> {
        self.clients.accept(self.socket.descriptor(), now);
        let orders = self.clients.attend(now);
        let clients = &self.clients;
        self.waiting.retain(|(caller, _)| clients.knows(*caller));
        self.backtraces.retain(|caller| clients.knows(caller));
        orders
    }
}
