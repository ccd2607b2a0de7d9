//! The page that shows how the server does.

/// Whether there is a dashboard at the address for metrics, what it shows, and by which names it may be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dashboard {
    /// What it shows.
    pub shows: DashboardShows,
    /// Names of hosts, beside `localhost`, all IP addresses, and the name in the address for metrics.
    pub names: Vec<String>,
}

/// What a dashboard shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DashboardShows {
    /// There is none.
    #[default]
    Nothing,
    /// What metrics tell, and the processes.
    Numbers,
    /// Also the methods, targets and clients of the requests that are in the server.
    Requests,
}
