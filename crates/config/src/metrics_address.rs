//! Parses the address of metrics, and the networks of their clients.

use super::address_option::take_option;
use super::client_path::path_of_clients;
use super::contradiction::Contradictions;
use super::dashboard::DashboardShows;
use super::metrics_path::MetricsPath;
use super::networks::{ALLOW, networks, show_networks};
use super::proxies::TrustedPeers;
use super::settings::{ListenAddress, Protocol, Settings, SocketAddress};
use super::value::is_off;

/// Parses the address, and the networks of the allowed clients; without networks, all clients are allowed. `None` for `off`.
pub(super) fn address(text: &str) -> Result<(Option<ListenAddress>, Vec<TrustedPeers>), String> {
    let text = text.trim();
    if is_off(text) || text.eq_ignore_ascii_case("no") {
        return Ok((None, Vec::new()));
    }
    let refused = |why: String| format!("{why}; for metrics without TLS, FastCGI and PROXY headers; or off");
    let (place, allowed) = take_option(text, ALLOW).map_err(refused)?;
    let only_port = !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_digit());
    let place = if only_port { format!("127.0.0.1:{place}") } else { place };
    let address = ListenAddress::parse(&place).map_err(refused)?;
    let plain = address.certificates.is_none() && address.proxy_protocol.is_none();
    if !plain || address.protocol == Some(Protocol::FastCgi) {
        return Err(refused("expected HOST:PORT, a port, or the path of a Unix socket".to_owned()));
    }
    if allowed.is_some() && matches!(address.socket, SocketAddress::Unix { .. }) {
        return Err("expected no allow= after the path of a Unix socket: its mode= limits the access".to_owned());
    }
    let allowed = allowed.map(networks).transpose()?.unwrap_or_default();
    // Otherwise the default protocol of clients would apply here.
    Ok((Some(address.speaking(Protocol::Http)), allowed))
}

const EXPECTED_PATH: &str =
    "expected a path and the networks whose clients may get metrics there, such as /metrics?allow=127.0.0.1,10.0.0.0/8, or off";

/// Parses the path of metrics; `None` for `off`.
pub(super) fn metrics_path(text: &str) -> Result<Option<MetricsPath>, String> {
    let (path, allowed) = take_option(text.trim(), ALLOW)?;
    let Some(path) = path_of_clients(&path).map_err(|_| EXPECTED_PATH.to_owned())? else {
        return if allowed.is_some() { Err(EXPECTED_PATH.to_owned()) } else { Ok(None) };
    };
    // Without this option, all clients of the app could read the metrics.
    let allowed = networks(allowed.ok_or(EXPECTED_PATH)?)?;
    Ok(Some(MetricsPath::new(path, allowed)))
}

/// Refuses a setting that has no effect because there are no metrics, or because the probe has the same path.
pub(super) fn check(settings: &Settings, found: &mut Contradictions) {
    if settings.metrics.is_none() && settings.dashboard.shows != DashboardShows::Nothing {
        found.add("dashboard", "on", "it needs --metrics ADDRESS, because it is at that address", &["metrics"]);
    }
    if let Some(path) = settings.metrics_path.as_ref().filter(|path| settings.probe.as_deref() == Some(path.path())) {
        found.add("metrics-path", path.to_string(), "the probe has the same path (--probe)", &["probe"]);
    }
    if let Some(route) = settings.metrics_routes.first().filter(|_| !settings.serves_metrics()) {
        let why = "it needs --metrics ADDRESS or --metrics-path, which show its numbers";
        found.add("metrics-route", route.to_string(), why, &["metrics", "metrics-path"]);
    }
}

/// Formats the value so that [`address`] can parse it.
pub(super) fn show_address(address: Option<&ListenAddress>, allowed: &[TrustedPeers]) -> String {
    let Some(address) = address else { return "off".to_owned() };
    if allowed.is_empty() { address.to_string() } else { format!("{address}?{ALLOW}{}", show_networks(allowed)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_loopback_and_what_is_not_plain_http_is_refused() {
        for (text, shown) in [
            ("off", "off"),
            ("9090", "http://127.0.0.1:9090"),
            (" 9090 ", "http://127.0.0.1:9090"),
            (":9090", "http://*:9090"),
            ("[::1]:9090", "http://[::1]:9090"),
            ("http://localhost:0", "http://localhost:0"),
            ("/run/a.sock?mode=660", "http+unix:/run/a.sock?mode=660"),
            ("9090?allow=::1", "http://127.0.0.1:9090?allow=::1"),
            (":9090?allow=10.0.0.0/8, ::ffff:192.0.2.1", "http://*:9090?allow=10.0.0.0/8,192.0.2.1"),
        ] {
            let read = |text| address(text).map(|(address, allowed)| show_address(address.as_ref(), &allowed));
            assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
            assert_eq!(read(shown).as_deref(), Ok(shown), "{shown}");
        }
        for text in
            ["", "localhost", "70000", "https://:1", "https://:1?cert=a&key=b", ":1:ssl", "fcgi://:1", ":1?proxy_protocol=on"]
        {
            assert!(address(text).is_err_and(|why| why.ends_with("; or off")), "{text}");
        }
    }

    #[test]
    fn a_path_has_networks_behind_it() {
        let read = |text: &str| metrics_path(text).map(|path| path.map_or_else(|| "off".to_owned(), |path| path.to_string()));
        for (text, shown) in [
            ("off", "off"),
            ("", "off"),
            ("/metrics?allow=127.0.0.1", "/metrics?allow=127.0.0.1"),
            (" /a/b?allow=10.0.0.0/8, ::ffff:192.0.2.1,::1 ", "/a/b?allow=10.0.0.0/8,192.0.2.1,::1"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
            assert_eq!(read(shown).as_deref(), Ok(shown), "{shown}");
        }
        for text in [
            "/metrics",
            "metrics?allow=::1",
            "off?allow=::1",
            "/a?allow=",
            "/a?allow=unix",
            "/a?b=1&allow=::1",
            "/a#?allow=::1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let why = read("/a?allow=10.0.0.1/8").expect_err("bits are set");
        assert!(why.ends_with("after allow="), "{why}");
    }

    #[test]
    fn those_who_are_let_in_are_networks_and_of_a_unix_socket_the_mode_says_it() {
        for (text, part) in [
            ("9090?allow=", "expected IP addresses, or networks"),
            ("9090?allow=unix", "expected IP addresses, or networks"),
            ("9090?allow=::1,", "after allow="),
            ("9090?allow=10.0.0.1/8", "is not a network"),
            ("9090?allow=::1&allow=::2", "expected allow= once"),
            ("/run/a.sock?allow=::1", "mode= limits the access"),
            ("/run/a.sock?allow=::1&mode=660", "mode= limits the access"),
        ] {
            let why = address(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
