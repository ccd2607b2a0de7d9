//! A mold: the process that has loaded the app for a master. It has the workers of a first process, below a link.

use super::inheritance::{News, Word};
use super::server::{Server, Stage};
use super::signals;
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
}

impl<'a> Mold<'a> {
    pub(super) fn new(server: Server<'a>, workers: Workers<'a>) -> Self {
        Self { server, workers }
    }

    /// Serves until the master says otherwise. Returns the exit status for the process.
    pub(super) fn serve(mut self) -> i32 {
        let Self { server, workers } = &mut self;
        workers.begin(server);
        loop {
            server.signals.rearm();
            workers.rearm();
            obey_signals(server, workers);
            obey_master(server, workers);
            workers.reap(server);
            workers.step(server);
            match server.stage {
                Stage::Serving => workers.keep_running(server),
                Stage::Stopping { .. } => {
                    if workers.finish_up(server) {
                        break;
                    }
                }
                Stage::Failed if workers.is_gone() => break,
                Stage::Failed | Stage::Draining | Stage::Leaving { .. } => {}
            }
            sleep(server, workers);
        }
        i32::from(!matches!(server.stage, Stage::Stopping { cut: false, .. }))
    }
}

/// Handles signals. A terminal sends INT and HUP to all processes, and a service manager may send TERM to all: the master gets
/// them, too, and knows how often they were sent. USR2, TTIN and TTOU are for the master alone.
fn obey_signals(server: &mut Server<'_>, workers: &mut Workers<'_>) {
    let stops = signals::take(Signal::TERM) + signals::take(Signal::QUIT);
    for signal in [Signal::INT, Signal::HUP, Signal::USR2, Signal::TTIN, Signal::TTOU] {
        signals::take(signal);
    }
    if stops > 0 {
        // If TERM was only for this process, the master starts another generation. Requests wait for the workers until the
        // edges have ended, or another generation has taken over. The master may also be in its drain period.
        let waits = server.has_edges() || !server.settings.timeouts.farewell.is_zero();
        match workers.master.as_ref().filter(|_| waits) {
            Some(master) => master.say(Word::Told),
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
fn obey_master(server: &mut Server<'_>, workers: &mut Workers<'_>) {
    while let Some(master) = &workers.master {
        match master.hear() {
            News::Word(Word::Stop) => workers.stop_workers(server, WorkerCommand::Drain),
            News::Word(Word::Retire) => {
                workers.ends_for = Counter::EndedByReload;
                workers.stop_workers(server, WorkerCommand::Retire);
            }
            News::Word(Word::Announce) => workers.set_drain_state(DrainState::Announced),
            News::Word(Word::Part) => workers.set_drain_state(DrainState::Closing),
            News::Word(Word::Complete) => workers.is_to_be_complete = true,
            News::Word(Word::Quit) => workers.end_now(server, "told to end at once"),
            News::Word(Word::Reopen) => reopen_logs(server, workers),
            News::Word(Word::Own) => server.listeners.iter_mut().for_each(|listener: &mut Listener| listener.lent = false),
            // Only molds send these, to masters.
            News::Word(Word::Loaded | Word::Ready | Word::Incomplete | Word::Told)
            | News::Settled { .. }
            | News::Trouble(_) => {}
            News::WorkerRequest(plea) => workers.hear_plea(server, plea),
            News::TimeLeft(left) => server.stop_by = Some(Instant::now() + left),
            News::Scale { workers: wanted, order } => workers.obey_scale(server, wanted, order),
            News::None => return,
            News::End => {
                log::error!("the master has died");
                workers.master = None;
                workers.stop_workers(server, WorkerCommand::Drain);
            }
        }
    }
}

/// Sleeps until something happens.
fn sleep(server: &Server<'_>, workers: &Workers<'_>) {
    let now = Instant::now();
    let stage = match server.stage {
        Stage::Stopping { deadline, .. } => Some(deadline.saturating_duration_since(now)),
        Stage::Serving | Stage::Leaving { .. } | Stage::Draining | Stage::Failed => None,
    };
    let mut polled = Vec::new();
    wake_by(&mut polled, server.signals.arrival());
    workers.polled(&mut polled);
    until(&mut polled, stage.into_iter().chain(workers.patience(server, now)).min());
}
