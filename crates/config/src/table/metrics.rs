//! The rows of the table about metrics.

use super::super::dashboard::{Dashboard, DashboardShows};
use super::super::histogram::{bounds, show_bounds};
use super::super::metrics_address::{address, metrics_path, show_address};
use super::super::routes::Route;
use super::super::setting::{Section, Setting};
use super::super::value::{host_name, is_off};

pub(super) const METRICS: Setting = Setting::server(
    "metrics",
    Section::Logs,
    "ADDRESS",
    "Where Prometheus gets /metrics: HOST:PORT, a port of 127.0.0.1, or the path of a Unix socket, which may end in ?mode=660 \
     for its permission bits. Every client that reaches it may read the numbers; with HOST:PORT?allow=10.0.0.0/8,::1, only \
     clients in these networks",
)
.apply(|draft, text| {
    address(text).map(|(address, allowed)| (draft.settings.metrics, draft.settings.metrics_allowed) = (address, allowed))
})
.show(|settings| show_address(settings.metrics.as_ref(), &settings.metrics_allowed));

pub(super) const METRICS_PATH: Setting = Setting::server(
    "metrics-path",
    Section::Logs,
    "/PATH?allow=...",
    "A path at the addresses of the app where clients in these networks get metrics, such as \
     /metrics?allow=127.0.0.1,10.0.0.0/8; requests of all others go to the app. Behind --trusted-proxies, the client's address \
     counts. Without edges, a busy worker does not answer",
)
.default_words("off")
.apply(|draft, text| metrics_path(text).map(|path| draft.settings.metrics_path = path))
.show(|settings| settings.metrics_path.as_ref().map_or_else(String::new, ToString::to_string));

pub(super) const DASHBOARD: Setting = Setting::server(
    "dashboard",
    Section::Logs,
    "WHAT",
    "A page at --metrics with the state of the server and its last hour: on, requests (also lists the requests in the server, \
     with methods, targets and clients), or off; then, after commas, host names by which browsers may open it, besides \
     localhost and IP addresses",
)
.separator(',')
.apply(|draft, text| dashboard(text).map(|dashboard| draft.settings.dashboard = dashboard))
.show(|settings| show_dashboard(&settings.dashboard));

pub(super) const HISTOGRAM_BUCKETS: Setting = Setting::server(
    "histogram-buckets",
    Section::Logs,
    "TIMES",
    "The bounds of the histogram buckets in --metrics, for how long requests wait, run and are sent, separated by commas, such \
     as 5ms,20ms,100ms,1s: from 10us to 100s",
)
.separator(',')
.apply(|draft, text| bounds(text).map(|bounds| draft.settings.histogram_buckets = bounds))
.show(|settings| show_bounds(&settings.histogram_buckets));

pub(super) const METRICS_ROUTE: Setting = Setting::server(
    "metrics-route",
    Section::Logs,
    "/PREFIX",
    "Count requests below /PREFIX separately in --metrics, under this name, or that of NAME=/PREFIX: their responses by class, \
     and how long they took; the longest prefix counts. May be given up to 32 times",
)
.default_words("none")
.apply(|draft, text| Route::parse(text).and_then(|route| route.join(&mut draft.settings.metrics_routes)))
.shows_each(|settings| settings.metrics_routes.iter().map(ToString::to_string).collect());

const EXPECTED: &str =
    "expected off, on or requests, perhaps followed by host names, with commas between them, as in on,stats.example.org";

/// Parses `off`, `on` or `requests`; the latter two may be followed by names, separated by commas.
fn dashboard(text: &str) -> Result<Dashboard, String> {
    let mut parts = text.split(',').map(str::trim);
    let shows = match parts.next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "on" | "yes" => DashboardShows::Numbers,
        "requests" => DashboardShows::Requests,
        word if is_off(word) || word == "no" => DashboardShows::Nothing,
        _ => return Err(EXPECTED.to_owned()),
    };
    let is_name = |name: &str| host_name(name).is_ok() && !name.contains([':', '[', ']']);
    let names: Vec<String> = parts.map(str::to_ascii_lowercase).collect();
    if !names.iter().all(|name| is_name(name)) || (shows == DashboardShows::Nothing && !names.is_empty()) {
        return Err(EXPECTED.to_owned());
    }
    Ok(Dashboard { shows, names })
}

/// Formats the value so that [`dashboard`] can parse it.
fn show_dashboard(dashboard: &Dashboard) -> String {
    let word = match dashboard.shows {
        DashboardShows::Nothing => "off",
        DashboardShows::Numbers => "on",
        DashboardShows::Requests => "requests",
    };
    [word].into_iter().chain(dashboard.names.iter().map(String::as_str)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashboard_is_a_word_with_names_behind_it() {
        for (text, shown) in [
            ("off", "off"),
            ("No", "off"),
            ("on", "on"),
            (" yes ", "on"),
            ("Requests", "requests"),
            ("on, Stats.Example.org,b", "on,stats.example.org,b"),
            ("requests,a", "requests,a"),
        ] {
            let show = |read: Result<Dashboard, String>| read.map(|dashboard| show_dashboard(&dashboard));
            assert_eq!(show(dashboard(text)).as_deref(), Ok(shown), "{text}");
            assert_eq!(show(dashboard(shown)).as_deref(), Ok(shown), "{shown}");
        }
        for text in ["", "1", "stats.example.org", "off,a", "on,", "on,a b", "on,a:80", "on,http://a", "on,[::1]"] {
            assert!(dashboard(text).is_err(), "{text}");
        }
    }
}
