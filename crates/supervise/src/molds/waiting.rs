//! Waits until there is something to do.

use super::super::certifier::Certifier;
use super::super::edges::Edges;
use super::super::exporter::Exporter;
use super::{Generation, Master, Stage};
use oribi_admin::control::Control;
use oribi_admin::metrics::Metrics;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

impl Master<'_> {
    /// Sleeps until something happens.
    pub(super) fn sleep(&self) {
        let now = Instant::now();
        let stage_ends = match self.stage {
            Stage::Serving if !self.generations.iter().any(Generation::stays) => Some(now + self.pace.wait(now)),
            Stage::Stopping { deadline, .. } | Stage::Draining { deadline } => Some(deadline),
            _ => None,
        };
        let farewell = self.farewell.as_ref().map(|farewell| now + farewell.wait(now));
        let look = self.restart_file.as_ref().filter(|_| self.stage == Stage::Serving).map(|file| now + file.wait(now));
        let next =
            self.generations.iter().filter_map(|generation| generation.end_by).chain(stage_ends).chain(farewell).chain(look);
        let of_edges = self.edges.iter().filter_map(|edges| edges.patience(now));
        let waits = of_edges.chain(self.control.iter().filter_map(|control| control.patience(now)));
        let waits = waits.chain(self.notifier.patience(now)).chain(self.succession.patience(self.served, now));
        let waits = waits.chain(self.watch.as_ref().and_then(|watch| watch.wait(now))).chain(self.next_late_load(now));
        let waits =
            waits.chain(self.certificates.wait(now)).chain(self.certifier_patience(now)).chain(self.exporter_patience(now));
        let waits = waits.chain(self.metrics.iter().filter_map(|metrics| metrics.patience(now)));
        let next = next.chain(waits.map(|wait| now + wait)).min();
        let timeout = next.and_then(|moment| Timespec::try_from(moment.saturating_duration_since(now)).ok());
        let arrival = self.signals.arrival().into_iter();
        let mut polled: Vec<_> = arrival.map(|arrival| PollFd::from_borrowed_fd(arrival, PollFlags::IN)).collect();
        polled.extend(self.watch.iter().map(|watch| PollFd::from_borrowed_fd(watch.descriptor(), PollFlags::IN)));
        // Serving molds may send messages, too.
        polled.extend(
            self.generations.iter().map(|generation| PollFd::from_borrowed_fd(generation.link.0.as_fd(), PollFlags::IN)),
        );
        polled.extend(self.succession.descriptors().map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        let of_edges = self.edges.iter().flat_map(Edges::descriptors);
        polled.extend(of_edges.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        let certifier = self.certifier.iter().filter_map(Certifier::descriptor);
        let certifier = certifier.chain(self.exporter.iter().filter_map(Exporter::descriptor));
        polled.extend(certifier.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)));
        polled.extend(self.control.iter().flat_map(Control::polled));
        polled.extend(self.metrics.iter().flat_map(Metrics::polled));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                log::error!("cannot wait for the mold: {}", io::Error::from(error));
                // Prevents a busy loop while the system is short of memory.
                std::thread::sleep(Duration::from_millis(250));
            }
        }
    }
}
