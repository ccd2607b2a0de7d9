//! Waits until there is something to do.

use super::super::certifier::Certifier;
use super::super::edges::Edges;
use super::super::exporter::Exporter;
use super::super::{LOOK_FOR_ENDED, LOOK_FOR_HANDSHAKES};
use super::{Stage, Supervisor};
use oribi_admin::control::Control;
use oribi_admin::metrics::Metrics;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The interval at which process 1, which inherits all orphans, collects them. Nothing depends on a shorter one.
const LOOK_FOR_ORPHANS: Duration = Duration::from_secs(2);

impl Supervisor<'_> {
    /// Sleeps until something happens.
    pub(super) fn sleep(&self) {
        let now = Instant::now();
        let mut timeout = match self.stage {
            Stage::Serving | Stage::Draining => Some(self.pace.wait(now)).filter(|wait| !wait.is_zero()),
            Stage::Stopping { deadline, ref closing, starters, .. } => {
                let next = closing.next_look().into_iter().chain(starters).fold(deadline, Instant::min);
                Some(next.saturating_duration_since(now))
            }
            Stage::Leaving { next } => Some(next.saturating_duration_since(now)),
            Stage::Failed => None,
        };
        let farewell = self.farewell.as_ref().map(|farewell| farewell.wait(now));
        let mut at_most = |limit: Duration| timeout = Some(timeout.map_or(limit, |present| present.min(limit)));
        let arrivals = [self.signals.arrival(), self.notices.arrival()].into_iter().flatten();
        let mut polled: Vec<_> = arrivals.map(|arrival| PollFd::from_borrowed_fd(arrival, PollFlags::IN)).collect();
        polled.extend(self.master.iter().map(|master| PollFd::from_borrowed_fd(master.0.as_fd(), PollFlags::IN)));
        if self.members.is_empty() && matches!(self.stage, Stage::Stopping { .. }) {
            at_most(LOOK_FOR_HANDSHAKES);
        }
        self.next_late_starter(now).into_iter().chain(self.next_aged(now)).for_each(&mut at_most);
        if let (Stage::Serving, Some(file)) = (&self.stage, &self.restart_file) {
            at_most(file.wait(now));
        }
        self.certificates.wait(now).into_iter().chain(self.certifier_patience(now)).for_each(&mut at_most);
        self.exporter_patience(now).into_iter().for_each(&mut at_most);
        if self.settings.watched_threads() > 0 && !self.members.is_empty() {
            at_most(self.look_for_stuck());
        }
        let of_edges = self.edges.as_ref().and_then(|edges| edges.patience(now));
        let of_control = self.control.as_ref().and_then(|control| control.patience(now));
        let of_metrics = self.metrics.as_ref().and_then(|metrics| metrics.patience(now));
        let waits = of_edges.into_iter().chain(of_control).chain(of_metrics).chain(farewell);
        waits.chain(self.notifier.patience(now)).chain(self.succession.patience(self.served, now)).for_each(&mut at_most);
        polled.extend(self.succession.descriptors().map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        let certifier = self.certifier.iter().filter_map(Certifier::descriptor);
        let certifier = certifier.chain(self.exporter.iter().filter_map(Exporter::descriptor));
        polled.extend(certifier.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        polled.extend(self.control.iter().flat_map(Control::polled));
        polled.extend(self.metrics.iter().flat_map(Metrics::polled));
        if let Some(watch) = &self.watch {
            polled.push(PollFd::from_borrowed_fd(watch.descriptor(), PollFlags::IN));
            watch.wait(now).into_iter().for_each(&mut at_most);
        }
        let of_edges = self.edges.iter().flat_map(Edges::descriptors);
        polled.extend(of_edges.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        for member in &self.members {
            if let Some(end_by) = member.end_by {
                at_most(end_by.saturating_duration_since(now));
            }
            if !member.left {
                polled.push(PollFd::from_borrowed_fd(member.waker.as_fd(), PollFlags::empty()));
            }
            match &member.process {
                Some(process) => polled.push(PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)),
                None => at_most(LOOK_FOR_ENDED),
            }
        }
        if rustix::process::getpid().is_init() {
            at_most(LOOK_FOR_ORPHANS);
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                log::error!("cannot wait for workers: {}", io::Error::from(error));
                // Prevents a busy loop while the system is short of memory.
                std::thread::sleep(LOOK_FOR_ENDED);
            }
        }
    }
}
