//! Waits until there is something to do.

use super::super::certifier::Certifier;
use super::super::edges::Edges;
use super::super::exporter::Exporter;
use super::super::relay::Relay;
use super::super::server::Phase;
use super::super::wait::{until, wake_by};
use super::FirstProcess;
use oribi_admin::control::Control;
use oribi_admin::metrics::Metrics;
use std::time::{Duration, Instant};

/// The interval at which process 1 collects the orphans that it inherits. Nothing depends on a shorter interval.
const LOOK_FOR_ORPHANS: Duration = Duration::from_secs(2);

impl FirstProcess<'_> {
    /// Sleeps until an event or the next deadline.
    pub(super) fn sleep(&self) {
        let mut polled = Vec::new();
        let server = &self.server;
        wake_by(&mut polled, server.signals.arrival());
        wake_by(&mut polled, server.watch.iter().map(super::super::watch::Watch::descriptor));
        wake_by(&mut polled, server.succession.descriptors());
        wake_by(&mut polled, server.edges.iter().flat_map(Edges::descriptors));
        wake_by(&mut polled, server.certifier.as_ref().and_then(Certifier::descriptor));
        wake_by(&mut polled, server.exporter.as_ref().and_then(Exporter::descriptor));
        wake_by(&mut polled, server.relay.as_ref().and_then(Relay::descriptor));
        polled.extend(server.control.iter().flat_map(Control::polled));
        polled.extend(server.metrics.iter().flat_map(Metrics::polled));
        self.workforce.polled(&mut polled);
        until(&mut polled, self.patience(Instant::now()));
    }

    /// Returns the longest time that this process may sleep. `None` without a deadline.
    fn patience(&self, now: Instant) -> Option<Duration> {
        let Self { server, workforce, .. } = self;
        let phase = match server.phase {
            Phase::Leaving { next } => Some(next),
            Phase::Stopping { deadline, .. } => Some(deadline),
            Phase::Serving | Phase::Draining | Phase::Failed => None,
        };
        let restart_file = server.restart_file.as_ref().filter(|_| server.phase == Phase::Serving);
        let waits = [
            phase.map(|time| time.saturating_duration_since(now)),
            server.drain_period.as_ref().map(|drain_period| drain_period.wait(now)),
            restart_file.map(|file| file.wait(now)),
            server.watch.as_ref().and_then(|watch| watch.wait(now)),
            server.certificates.wait(now),
            server.users.wait(now),
            server.next_look_at_leaving(now),
            server.edges.as_ref().and_then(|edges| edges.patience(now)),
            server.control.as_ref().and_then(|control| control.patience(now)),
            server.metrics.as_ref().and_then(|metrics| metrics.patience(now)),
            server.notifier.patience(now),
            server.succession.patience(workforce.has_served() && server.stays(), now),
            self.helpers_patience(now),
            workforce.patience(server, now),
            rustix::process::getpid().is_init().then_some(LOOK_FOR_ORPHANS),
        ];
        waits.into_iter().flatten().min()
    }
}
