//! The steps of an upgrade, in a server process that starts its successor or that was started as one: a master, or a
//! supervisor without one.

use super::super::books::Books;
use super::super::edges::Edges;
use super::super::notify::Notifier;
use super::super::pid_file::PidFile;
use super::super::scaled::Scaled;
use super::super::scaling;
use super::super::signals::{self, Signals};
use super::super::{announce, describe_end};
use super::succession::{Ended, Succession, exit_status};
use super::successor::Progress;
use oribi_admin::control::{self, Control};
use oribi_admin::metrics::{self, Measured, Metrics};
use oribi_config::Settings;
use oribi_ipc::handover::Sender;
use oribi_listen::Listener;
use oribi_stats::totals::Counter;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};
use std::time::{Duration, Instant};

/// The time that a new server has to end after it was given up, beyond that for running requests.
const GRACE: Duration = Duration::from_secs(5);

/// The state of a server with regard to an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Condition {
    /// A part of it does not serve yet.
    Starts,
    Serves,
    /// It stops, or has been told to.
    Ends,
}

/// The parts of such a process.
pub(in super::super) struct Parts<'p, 'a> {
    pub(in super::super) settings: &'a Settings,
    pub(in super::super) succession: &'p mut Succession,
    pub(in super::super) listeners: &'p mut Vec<Listener>,
    pub(in super::super) edges: &'p mut Option<Edges<'a>>,
    pub(in super::super) notifier: &'p mut Notifier,
    pub(in super::super) control: &'p mut Option<Control>,
    pub(in super::super) metrics: &'p mut Option<Metrics>,
    pub(in super::super) pid_file: &'p mut Option<PidFile>,
    pub(in super::super) signals: &'p mut Signals,
    pub(in super::super) books: &'p mut Books,
}

/// A server process that can be replaced.
pub(in super::super) trait Replaceable<'a>: Measured {
    fn parts(&mut self) -> Parts<'_, 'a>;

    fn condition(&self) -> Condition;

    /// Returns the target number of workers, and the highest one.
    fn workers(&self) -> (usize, usize);

    /// Begins to finish, because another server has taken over. Connections may go to these edges; if there are none, that
    /// server takes no connections, or has no edges.
    fn finish_for_successor(&mut self, edges: &[Sender]);

    /// Adds the counters of edges and workers since the last time to the totals.
    fn enter_counts(&self);

    /// Makes the listeners this server's own.
    fn own_listeners(&mut self);

    /// Begins to stop.
    fn stop_with_guardian(&mut self);

    /// Gives up, because the previous server has ended before this one could take over.
    fn give_up(&mut self);

    /// Sets the title of a process that is a guardian from now on.
    fn entitle_guardian(&self);
}

/// Starts a new server from the program's file. It takes over as soon as it serves; if it cannot, the log says why, and this
/// one continues.
///
/// # Errors
/// No new server was started; the message says why.
pub(in super::super) fn begin<'a>(server: &mut impl Replaceable<'a>) -> Result<(), String> {
    let (condition, (wanted, _)) = (server.condition(), server.workers());
    let Parts { settings, succession, listeners, notifier, metrics, books, .. } = server.parts();
    if succession.is_possible() && condition != Condition::Serves {
        return Err("not upgraded: the server is starting or stopping".to_owned());
    }
    let (has_manager, limit) = (Notifier::is_wanted(), settings.life.upgrade_timeout);
    let scaled = Scaled::of(settings, wanted);
    let pid = succession.start_successor(listeners, books, metrics.as_ref(), has_manager, limit, scaled)?;
    log::info!("upgrading: a new server is starting (pid {pid})");
    notifier.reloading();
    Ok(())
}

/// Sets the number of workers that was set in the previous server, unless the configuration has changed.
pub(in super::super) fn keep_scale<'a>(server: &mut impl Replaceable<'a>) {
    let Parts { settings, succession, .. } = server.parts();
    let Some(scaled) = succession.scaled.take() else { return };
    let (configured, Scaled { configured: before, wanted }) = (settings.workers.max(1), scaled);
    if configured != before {
        log::info!(
            "workers: {configured}: the configuration has changed from {before}, so the {wanted} that were set since are given up"
        );
    } else if let Err(why) = server.scale(wanted) {
        log::warn!("the number of workers that was set in the old server, {wanted}, cannot be kept: {why}");
    }
}

/// Handles signals that correspond to orders on the control socket: an upgrade, or another number of workers.
pub(in super::super) fn obey_signals<'a>(server: &mut impl Replaceable<'a>) {
    if signals::take(Signal::USR2) > 0
        && let Err(why) = begin(server)
    {
        log::warn!("{why}");
    }
    let (more, fewer) = (signals::take(Signal::TTIN) as usize, signals::take(Signal::TTOU) as usize);
    if more + fewer > 0 {
        let (present, most) = server.workers();
        if let Err(why) = server.scale(scaling::changed(most, present, more, fewer)) {
            log::warn!("{why}");
        }
    }
}

/// Takes the next step, if one is due.
pub(in super::super) fn go_on<'a>(server: &mut impl Replaceable<'a>) {
    take_over_when_ready(server);
    let (now, condition) = (Instant::now(), server.condition());
    let Parts { settings, succession, notifier, books, .. } = server.parts();
    succession.end_dismissed(now);
    let Some(successor) = &mut succession.successor else { return };
    let patience = settings.timeouts.graceful.saturating_add(GRACE);
    if condition == Condition::Ends {
        log::info!("the upgrade is given up, because the server stops");
        return succession.dismiss("the upgrade was given up, because the server stops".to_owned(), patience);
    }
    match successor.progress(now) {
        Progress::Loading => {}
        Progress::Serves(edges) => yield_to(server, &edges),
        Progress::Late => {
            let (pid, limit) = (successor.pid, settings.life.upgrade_timeout.as_secs_f64());
            let why = format!(
                "the new server (pid {pid}) does not serve after {limit} s (--upgrade-timeout) and is ended; this one serves on"
            );
            log::error!("{why}");
            succession.dismiss(why, patience);
            books.count(Counter::UpgradesFailed);
            notifier.reloaded("the program could not be upgraded; serving with the one before");
        }
    }
}

/// Finishes everything here, because the new server serves.
fn yield_to<'a>(server: &mut impl Replaceable<'a>, edges: &[Sender]) {
    let Parts { succession, notifier, edges: own, .. } = server.parts();
    let Some(pid) = succession.yield_to_successor() else { return };
    log::info!("the new server (pid {pid}) has taken over; this one finishes what it has");
    if own.is_some() && edges.is_empty() {
        log::warn!("the new server takes no connections from this one: they close after their next responses");
    }
    notifier.yields_to(pid);
    server.enter_counts();
    let listeners = server.parts().listeners;
    listeners.iter_mut().for_each(Listener::lend);
    server.finish_for_successor(edges);
    // The new server has a socket at the same path, but some clients may have connected to this one before.
    control::steer(server);
    control::say_replaced(server);
    *server.parts().control = None;
    server.parts().metrics.iter_mut().for_each(Metrics::pass_on);
}

/// Takes over from the previous server as soon as this one serves, and records its end.
fn take_over_when_ready<'a>(server: &mut impl Replaceable<'a>) {
    let condition = server.condition();
    let Parts { settings, succession, listeners, edges, control, metrics, books, .. } = server.parts();
    let known_as = succession.known_as();
    let Some(before) = &mut succession.before else { return };
    if !before.serves() {
        return note_end_of_predecessor(server);
    }
    if condition != Condition::Serves {
        if before.has_ended(None) {
            log::error!("the old server has ended before this one has taken over");
            server.give_up();
        }
        return;
    }
    let Some(receivers) = edges.as_mut().map_or(Some(Vec::new()), Edges::successors) else { return };
    *control = Control::take_place(settings, known_as).unwrap_or_else(|why| {
        log::error!("`oribi ctl` cannot reach this server: {why}");
        None
    });
    metrics.iter_mut().for_each(Metrics::take_over);
    before.take_over(&receivers, listeners, succession.guardian.as_ref());
    books.count(Counter::Upgrades);
    if !listeners.iter().any(|listener| listener.lent) {
        server.own_listeners();
    }
    let Parts { succession, notifier, pid_file, .. } = server.parts();
    if succession.guardian.is_none() {
        // From now on the server is known by the id of this process.
        match settings.pid_file.as_deref().map(PidFile::write).transpose() {
            Ok(file) => *pid_file = file,
            Err(message) => log::error!("{message}"),
        }
    }
    *notifier = Notifier::of_environment();
    notifier.ready("serving, upgraded");
    let (workers, _) = server.workers();
    announce(server.parts().listeners, settings, workers);
}

fn note_end_of_predecessor<'a>(server: &mut impl Replaceable<'a>) {
    let succession = server.parts().succession;
    if !succession.before.as_ref().is_some_and(|before| before.has_ended(succession.guardian.as_ref())) {
        return;
    }
    succession.before = None;
    let Some(guardian) = &succession.guardian else { return };
    if guardian.follow() {
        log::info!("the old server has ended; this server follows the first process, which passes signals on");
    } else {
        log::error!("the first process of this server has died");
        server.stop_with_guardian();
    }
}

/// Records the end of a process; `false`: it was not another server.
pub(in super::super) fn note_end<'a>(server: &mut impl Replaceable<'a>, pid: Pid, status: WaitStatus) -> bool {
    let Parts { succession, notifier, books, .. } = server.parts();
    match succession.note_end(pid, status) {
        Ended::Stranger => false,
        Ended::Other => true,
        Ended::Successor => {
            let why = format!("the new server (pid {pid}) {}, so this one serves on", describe_end(status));
            log::error!("{why}");
            succession.outcome = control::Progress::Failed(why);
            books.count(Counter::UpgradesFailed);
            notifier.reloaded("the program could not be upgraded; serving with the one before");
            true
        }
    }
}

/// Returns the exit status for the process, when everything of this server has ended. The guardian of a server waits for the
/// last one.
pub(in super::super) fn conclude<'a>(server: &mut impl Replaceable<'a>, status: i32) -> i32 {
    let succession = server.parts().succession;
    succession.wait_for_dismissed();
    if !succession.has_yielded() {
        return status;
    }
    metrics::finish(server);
    let succession = server.parts().succession;
    if succession.ward.is_none() {
        // If this process has collected the exit status of the next server, it must pass it on: the guardian learns it in no
        // other way.
        return succession.ended.unwrap_or(0);
    }
    server.entitle_guardian();
    let Parts { settings, succession, listeners, edges, signals, metrics, .. } = server.parts();
    listeners.clear();
    (*edges, *metrics) = (None, None);
    // This shows the new server that nothing is left here.
    succession.after = None;
    let Some(ward) = &mut succession.ward else { return 0 };
    loop {
        signals.rearm();
        // Otherwise a log that was rotated away would take space as long as this process has it open.
        if ward.pass_signals_on()
            && let Err(error) = oribi_log::reopen_error_log(settings)
        {
            log::error!("cannot open the error log again: {error}");
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            succession.ended = ward.note_end(pid, exit_status(status)).or(succession.ended);
        }
        if let Some(status) = succession.ended {
            return status;
        }
        // Only a signal that must be handled can interrupt it.
        let mut polled: Vec<_> =
            signals.arrival().map(|arrival| PollFd::from_borrowed_fd(arrival, PollFlags::IN)).into_iter().collect();
        let _ = poll(&mut polled, None);
    }
}
