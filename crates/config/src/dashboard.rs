//! The settings of the dashboard.

/// The dashboard at the address for metrics: its content, and the host names under which clients may request it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dashboard {
    /// The parts of the server's state that it displays.
    pub shows: DashboardShows,
    /// The host names accepted beside `localhost`, IP addresses and the name in the address for metrics.
    pub names: Vec<String>,
}

/// The content of a dashboard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DashboardShows {
    /// No dashboard.
    #[default]
    Nothing,
    /// The metrics and the processes.
    Numbers,
    /// Also the methods, targets and clients of the requests in progress.
    Requests,
}
