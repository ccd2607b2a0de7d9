//! The old server, as the new server sees it, until the old one has ended.

use super::super::adoption::adopt_again;
use super::super::inheritance::{
    APP_METRICS, GUARDIAN, HISTORY, ROUTE_TOTALS, TOTALS, UPGRADE, inherit_listeners, inherit_metrics, inherit_socket,
    inherit_vault,
};
use super::guardian::GuardianLink;
use super::{MessageKind, Received, receive, send};
use oribi_admin::metrics::Metrics;
use oribi_config::Settings;
use oribi_io::process::{adopt, environment};
use oribi_ipc::handover::Sender;
use oribi_listen::{Listener, is_any_lent};
use oribi_stats::app_metrics::AppMetricTotals;
use oribi_stats::totals::{RouteTotals, Totals};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An old server that serves, or that still finishes its requests.
#[derive(Debug)]
pub(in super::super) struct Predecessor {
    link: OwnedFd,
    pid: i32,
    /// The addresses of the listeners that another program has lent to the old server.
    lent: Vec<String>,
    /// The listeners of the old server at addresses that this one does not have.
    dropped: Vec<Listener>,
    /// The names of listeners that the service manager keeps for the old server and not for this one.
    forgotten: Vec<String>,
    /// Whether the old server has been notified that this server serves.
    notified: bool,
}

impl Predecessor {
    /// Returns the old server that has started this process, and the listeners of that server. They count as lent until this
    /// server takes over. `None` if no server has started this process.
    ///
    /// # Errors
    /// A listener is unusable.
    pub(in super::super) fn of_environment() -> Result<Option<(Self, Vec<Listener>)>, String> {
        let Some((link, pid)) = environment::variable(UPGRADE).and_then(|value| inherit_socket(&value)) else {
            return Ok(None);
        };
        let mut listeners = inherit_listeners()?;
        let lent = listeners.iter().filter(|listener| listener.lent && !listener.stored);
        let lent = lent.map(|listener| listener.address().to_owned()).collect();
        listeners.iter_mut().for_each(Listener::lend);
        Ok(Some((Self { lent, ..Self::new(link, pid) }, listeners)))
    }

    fn new(link: OwnedFd, pid: i32) -> Self {
        Self { link, pid, lent: Vec::new(), dropped: Vec::new(), forgotten: Vec::new(), notified: false }
    }

    /// Returns listeners with the options of `settings`: those of the old server at its addresses, and new ones at all others. If
    /// another program has lent any to the old server, it chooses the addresses, and all stay.
    ///
    /// # Errors
    /// An address is new and cannot be opened, or a certificate is unusable.
    pub(in super::super) fn follow(&mut self, settings: &Settings, listeners: Vec<Listener>) -> Result<Vec<Listener>, String> {
        let vault = inherit_vault();
        if !self.lent.is_empty() {
            return adopt_again(listeners, settings, vault);
        }
        let followed = oribi_listen::follow(settings, listeners, vault.map(|vault| vault.secret))?;
        (self.dropped, self.forgotten) = (followed.dropped, followed.forgotten);
        Ok(followed.listeners)
    }

    /// Returns the names of listeners that the service manager must not keep any longer.
    pub(in super::super) fn forgotten(&self) -> &[String] {
        &self.forgotten
    }

    /// Returns the id of the old server's process, which has started this one.
    pub(in super::super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether the old server still serves.
    pub(in super::super) fn serves(&self) -> bool {
        !self.notified
    }

    /// Reports to the guardian, if there is one, and to the old server that this server serves, and sends the old server the
    /// destinations of its connections, `edges`. From now on the listeners belong to this server, unless they were lent to the
    /// old server.
    pub(in super::super) fn take_over(
        &mut self,
        edges: &[Sender],
        listeners: &mut [Listener],
        guardian: Option<&GuardianLink>,
    ) {
        self.notified = true;
        // The old server may end as soon as it is notified. If the guardian did not know this process by then, it would take
        // that end for the end of the whole server.
        guardian.iter().for_each(|guardian| guardian.report());
        for listener in listeners.iter_mut() {
            listener.lent = listener.stored || self.lent.iter().any(|address| address == listener.address());
            listener.own_file();
        }
        let named = edges.iter().try_for_each(|edge| send(&self.link, MessageKind::Edge, Some(edge)));
        if let Err(error) = named.and_then(|()| send(&self.link, MessageKind::Ready, None)) {
            log::error!("cannot report to the old server that this one serves: {error}");
        }
        for mut listener in self.dropped.drain(..) {
            log::info!("{} is no address of this server any more", listener.display);
            (listener.lent, listener.stored) = (false, false);
            listener.own_file();
            listener.end();
        }
    }

    /// Whether the old server has ended. If it is the `guardian`, whether it has finished all its requests.
    pub(in super::super) fn has_ended(&self, guardian: Option<&GuardianLink>) -> bool {
        let is_parent = || rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == self.pid);
        // A process that ends closes its descriptors first, so it may still be the parent for a moment.
        matches!(receive(&self.link), Received::End) && (guardian.is_none_or(|guardian| guardian.is(self.pid)) || !is_parent())
    }

    /// Returns the descriptor that is readable when the old server has ended.
    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// Returns the guardian of this server, if it has one.
pub(in super::super) fn guardian() -> Option<GuardianLink> {
    let (socket, process) = environment::variable(GUARDIAN).and_then(|value| inherit_socket(&value))?;
    Some(GuardianLink::new(socket, process))
}

/// Creates the metrics of a server with these listeners. `None` if metrics are off. The old server answers requests for metrics
/// until this server serves. `is_first`: whether there is no old server.
///
/// # Errors
/// The metrics address cannot be opened.
pub(in super::super) fn metrics(
    settings: &Settings,
    is_first: bool,
    listeners: &[Listener],
) -> Result<Option<Metrics>, String> {
    if is_first {
        return Metrics::open(settings, is_any_lent(listeners));
    }
    Metrics::of_server_before(settings, inherit_metrics(), file_of_predecessor(HISTORY))
}

/// Returns the totals of the server, and those by route. They continue the totals of the old server, if this server can read
/// them; otherwise they begin at zero.
///
/// # Errors
/// The system has no memory to share.
pub(in super::super) fn totals(settings: &Settings, is_first: bool) -> io::Result<Totals> {
    let left = if is_first { None } else { file_of_predecessor(ROUTE_TOTALS) };
    Ok(totals_of_all(is_first)?.with_routes(RouteTotals::in_file(&settings.route_names(), left)?))
}

/// Returns the file in memory that the old server has left and that this variable names. `None` if there is no such file.
fn file_of_predecessor(variable: &str) -> Option<OwnedFd> {
    environment::variable(variable).and_then(|number| adopt(number.parse().ok()?).ok())
}

fn totals_of_all(is_first: bool) -> io::Result<Totals> {
    match if is_first { None } else { totals_of_predecessor() } {
        Some(Ok(totals)) => return Ok(totals),
        Some(Err(why)) => log::warn!("all counters begin at zero: those of the old server cannot be read: {why}"),
        None if is_first => {}
        None => log::warn!("all counters begin at zero: the old server has not passed them on"),
    }
    Totals::in_file()
}

/// Returns the totals of app metrics. They continue the totals of the old server, if it has passed them on and this server can
/// read them. `None` if `settings` disable metrics.
///
/// # Errors
/// The system has no memory to share.
pub(in super::super) fn app_metrics(settings: &Settings, is_first: bool) -> io::Result<Option<AppMetricTotals>> {
    let number = if is_first { None } else { environment::variable(APP_METRICS).and_then(|number| number.parse().ok()) };
    // The file is adopted even if metrics are off, so that its descriptor is closed.
    let file = number.map(|number| adopt(number).map_err(|error| error.to_string()));
    if !settings.serves_metrics() {
        return Ok(None);
    }
    match file.map(|file| file.and_then(AppMetricTotals::adopt)) {
        Some(Ok(app_metrics)) => return Ok(Some(app_metrics)),
        Some(Err(why)) => log::warn!("the metrics of apps begin at zero: those of the old server cannot be read: {why}"),
        None => {}
    }
    AppMetricTotals::begin().map(Some)
}

/// Takes over the totals of the old server. `None` if it has passed none on. The error says why they cannot be read.
fn totals_of_predecessor() -> Option<Result<Totals, String>> {
    let number = environment::variable(TOTALS)?.parse().ok()?;
    Some(adopt(number).map_err(|error| error.to_string()).and_then(Totals::adopt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

    #[test]
    fn the_guardian_hears_of_a_new_server_before_the_old_one_does() {
        let (own, link) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("sockets are to be had");
        // The order of messages on one socket is the order in which they were sent.
        let guardian = GuardianLink::new(link.try_clone().expect("a descriptor"), 1);
        let mut before = Predecessor::new(link, 1);
        before.take_over(&[], &mut [], Some(&guardian));
        let mut bytes = [0; 64];
        assert_eq!(recv(&own, &mut bytes, RecvFlags::DONTWAIT).expect("a report").0, 4);
        assert_eq!(bytes[..4], std::process::id().to_ne_bytes());
        assert!(matches!(receive(&own), Received::Ready));
    }
}
