//! The parameters of a lane, and the sources of requests that they make.

use crate::event_sources::EventSources;
use crate::intake::Intake;
use oribi_config::Settings;
use oribi_engine::{ConnectionCounts, Engine};
use oribi_io::Backend;
use oribi_listen::{ListenSocket, Listener};
use oribi_log::AccessLog;
use oribi_pool::Worker;
use oribi_stats::scoreboard::WorkerSlot;
use oribi_stats::scoreboard::running::RunningLine;
use oribi_stats::totals::counter_of;
use oribi_tls::Tls;
use std::io;
use std::os::fd::BorrowedFd;

/// The parameters of a lane.
#[derive(Clone, Copy, Debug)]
pub struct LaneSetup<'a> {
    /// The settings of the server.
    pub settings: &'a Settings,
    /// The listeners of all addresses.
    pub listeners: &'a [Listener],
    /// The sockets from which this lane accepts: the result of [`listen_sockets`](oribi_listen::listen_sockets).
    pub listen_sockets: &'a [ListenSocket<'a>],
    /// The worker's slot in the scoreboard.
    pub slot: &'a WorkerSlot,
    /// Lines on which the supervisor sees the apps that the threads of the lane run; empty if apps are not watched.
    pub running: &'static [RunningLine],
    /// The read end of a pipe: after a write to it, the lane reads its command in `slot`.
    pub wake: BorrowedFd<'a>,
    /// Whether an access log that cannot be opened prevents the start. A server that is already serving continues without
    /// it.
    pub must_log: bool,
}

impl<'a> LaneSetup<'a> {
    /// Creates an engine over `backend`, for one of `lanes` lanes in all workers, and its event sources.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn engine<B: Backend>(&self, backend: B, lanes: usize) -> io::Result<(Engine<'a, Tls<B>>, EventSources)> {
        self.engine_at(backend, lanes, self.listen_sockets.to_vec())
    }

    /// As [`Self::engine`], at these sockets in place of those of the setup.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn engine_at<B: Backend>(
        &self,
        backend: B,
        lanes: usize,
        listen_sockets: Vec<ListenSocket<'a>>,
    ) -> io::Result<(Engine<'a, Tls<B>>, EventSources)> {
        let (settings, account) = (self.settings, self.slot.account);
        let speakers = listen_sockets.iter().map(|listening| self.listeners[listening.listener].encryption());
        let mut backend = Tls::new(backend, settings.http2, speakers)?;
        backend.tell_outcomes(move |outcome| account.count(counter_of(outcome)));
        let access_log = match &settings.access_log {
            Some(target) if self.must_log => Some(AccessLog::open_in_time(target, &settings.access_log_format)?),
            target => target.as_ref().map(|target| AccessLog::open_or_wait(target, &settings.access_log_format)),
        };
        let event_sources = EventSources::new(self.wake)?;
        let wake = event_sources.descriptor();
        let mut engine = Engine::with_listen_sockets(backend, settings, self.listeners, listen_sockets, wake, access_log)?;
        engine.take_part_in(ConnectionCounts {
            here: self.slot.connections,
            everywhere: self.slot.all_connections,
            lanes,
            lanes_each: lanes / self.settings.workers.most(),
            idle: self.slot.idle,
            workers: self.slot.workers,
            doorbell: self.slot.doorbell,
        })?;
        engine.count_in(account, lanes <= settings.workers.most());
        engine.report_states_to(self.slot.gauges);
        Ok((engine, event_sources))
    }

    /// Creates the source for the requests of `pools`, and its event sources.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn intake(&self, pools: Vec<Worker>) -> io::Result<(Intake<'a>, EventSources)> {
        let event_sources = EventSources::new(self.wake)?;
        let intake = Intake::new(self.settings, pools, &event_sources)?;
        Ok((intake.watched(self.running, self.settings.request_id.as_ref()), event_sources))
    }
}
