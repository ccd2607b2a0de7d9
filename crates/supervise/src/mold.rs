//! A mold: the process that has loaded the app for a master. It forks and replaces workers as a first process without molds
//! does, but the master orders when to stop, retire or reopen logs.

use super::inheritance::{Message, Received};
use super::server::{Phase, Server};
use super::signals::{self, StopRequest, StopRequests};
use super::wait::{until, wake_by};
use super::workers::Workers;
use super::workforce::Workforce;
use oribi_listen::Listener;
use oribi_stats::scoreboard::{DrainState, WorkerCommand};
use oribi_stats::totals::Counter;
use rustix::process::Signal;
use std::time::Instant;

pub(super) struct Mold<'a> {
    server: Server<'a>,
    workers: Workers<'a>,
    /// The stop signals to a mold whose master has died.
    stop_requests: StopRequests,
}

impl<'a> Mold<'a> {
    pub(super) fn new(server: Server<'a>, workers: Workers<'a>) -> Self {
        Self { server, workers, stop_requests: StopRequests::default() }
    }

    /// Serves until the master commands it to stop, or until the master dies. Returns the exit status for the process: 0, or 1
    /// if it could not start or requests had to be cut off.
    pub(super) fn serve(mut self) -> i32 {
        let Self { server, workers, stop_requests } = &mut self;
        workers.begin(server);
        loop {
            server.signals.rearm();
            workers.rearm();
            handle_signals(server, workers, stop_requests);
            handle_master_messages(server, workers);
            workers.reap(server);
            workers.step(server);
            match server.phase {
                Phase::Serving => workers.keep_running(server),
                Phase::Stopping { .. } => {
                    if workers.finish_up(server) {
                        break;
                    }
                }
                Phase::Failed if workers.is_gone() => break,
                Phase::Failed | Phase::Draining | Phase::Leaving { .. } => {}
            }
            sleep(server, workers);
        }
        i32::from(!matches!(server.phase, Phase::Stopping { cut: false, .. }))
    }
}

/// Handles signals. A terminal sends INT and HUP to all processes, and a service manager may send TERM to all. The master gets
/// these signals as well, and counts them. So this process ignores HUP, and INT while the master lives. USR2, TTIN and TTOU are
/// only for the master.
fn handle_signals(server: &mut Server<'_>, workers: &mut Workers<'_>, stop_requests: &mut StopRequests) {
    let [term, quit, interrupt] = [Signal::TERM, Signal::QUIT, Signal::INT].map(signals::take);
    for signal in [Signal::HUP, Signal::USR2, Signal::TTIN, Signal::TTOU] {
        signals::take(signal);
    }
    if workers.master.is_none() {
        // Without a master this mold is stopping already. A second signal ends it at once, as it would end a first process.
        if stop_requests.evaluate(term + interrupt, server.is_stopping(), Instant::now()) == StopRequest::EndNow {
            workers.end_now(server, "told to stop a second time");
        }
    } else if term + quit > 0 {
        // If only this process got TERM, the master starts another generation. If the master got it as well, the edges stop, or
        // the drain period begins. In both cases requests still arrive for the workers here, so the mold waits for the master's
        // command.
        let waits = server.has_edges() || !server.settings.timeouts.shutdown_delay.is_zero();
        match workers.master.as_ref().filter(|_| waits) {
            Some(master) => master.send(Message::TerminationRequested),
            None => workers.stop_workers(server, WorkerCommand::Retire),
        }
    }
    if signals::take(Signal::USR1) > 0 {
        reopen_logs(server, workers);
    }
}

fn reopen_logs(server: &Server<'_>, workers: &Workers<'_>) {
    server.reopen_logs();
    workers.reopen_logs();
}

/// Handles the messages of the master.
fn handle_master_messages(server: &mut Server<'_>, workers: &mut Workers<'_>) {
    while let Some(master) = &workers.master {
        match master.receive() {
            Received::Message(Message::Stop) => workers.stop_workers(server, WorkerCommand::Drain),
            Received::Message(Message::Retire) => {
                workers.ends_for = Counter::EndedByReload;
                workers.stop_workers(server, WorkerCommand::Retire);
            }
            Received::Message(Message::Announce) => workers.set_drain_state(DrainState::Announced),
            Received::Message(Message::Part) => workers.set_drain_state(DrainState::Closing),
            Received::Message(Message::Complete) => workers.is_to_be_complete = true,
            Received::Message(Message::Quit) => workers.end_now(server, "told to end at once"),
            Received::Message(Message::Reopen) => reopen_logs(server, workers),
            Received::Message(Message::Own) => {
                server.listeners.iter_mut().for_each(|listener: &mut Listener| listener.lent = false);
            }
            // Only molds send these messages, to their master.
            Received::Message(Message::Loaded | Message::Ready | Message::Incomplete | Message::TerminationRequested)
            | Received::Settled { .. }
            | Received::Failure(_) => {}
            Received::WorkerRequest(request) => workers.handle_request(server, request),
            Received::TimeLeft(left) => server.stop_by = Some(Instant::now() + left),
            Received::Scale { workers: wanted, order } => workers.handle_scale(server, wanted, order),
            Received::None => return,
            Received::End => {
                log::error!("the master has died");
                workers.master = None;
                workers.stop_workers(server, WorkerCommand::Drain);
            }
        }
    }
}

/// Sleeps until an event or the next deadline.
fn sleep(server: &Server<'_>, workers: &Workers<'_>) {
    let now = Instant::now();
    let phase = match server.phase {
        Phase::Stopping { deadline, .. } => Some(deadline.saturating_duration_since(now)),
        Phase::Serving | Phase::Leaving { .. } | Phase::Draining | Phase::Failed => None,
    };
    let mut polled = Vec::new();
    wake_by(&mut polled, server.signals.arrival());
    workers.polled(&mut polled);
    until(&mut polled, phase.into_iter().chain(workers.patience(server, now)).min());
}
