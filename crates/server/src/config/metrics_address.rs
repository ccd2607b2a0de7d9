//! Where metrics are, and for whom, in the form in which users write it and read it.

use super::address_option::take_option;
use super::dashboard::DashboardShows;
use super::error::SettingError;
use super::proxies::TrustedPeers;
use super::settings::{ListenAddress, Protocol, Settings, SocketAddress};
use super::value::is_off;

/// The option that says for whom they are.
const ALLOW: &str = "allow=";

const NETWORKS: &str = "expected IP addresses, or networks such as 10.0.0.0/8, with commas between them";

/// The address, and the networks whose clients are let in; there are none if everybody is. `None`: off.
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
        return Err("expected no allow= behind the path of a Unix socket: mode= says who may connect to it".to_owned());
    }
    let behind_it = |why| format!("{why} behind {ALLOW}");
    let allowed = allowed.map(networks).transpose().map_err(behind_it)?.unwrap_or_default();
    // Otherwise the addresses of clients would decide what is spoken here.
    Ok((Some(address.speaking(Protocol::Http)), allowed))
}

/// Says which setting has no effect because there are no metrics.
pub(super) fn check(settings: &Settings) -> Result<(), SettingError> {
    if settings.metrics.is_some() {
        return Ok(());
    }
    if settings.dashboard.shows != DashboardShows::Nothing {
        return Err(SettingError::bad("dashboard", "on", "it needs --metrics ADDRESS, because it is at that address"));
    }
    match settings.metrics_routes.first() {
        Some(route) => {
            Err(SettingError::bad("metrics-route", route.to_string(), "it needs --metrics ADDRESS, where its numbers are told"))
        }
        None => Ok(()),
    }
}

/// In the form that [`address`] reads.
pub(super) fn show_address(address: Option<&ListenAddress>, allowed: &[TrustedPeers]) -> String {
    let Some(address) = address else { return "off".to_owned() };
    if allowed.is_empty() { address.to_string() } else { format!("{address}?{ALLOW}{}", show_networks(allowed)) }
}

/// Networks with commas between them.
pub(super) fn networks(text: &str) -> Result<Vec<TrustedPeers>, String> {
    text.split(',').map(|network| TrustedPeers::parse_network(network.trim(), NETWORKS)).collect()
}

/// In the form that [`networks`] reads.
pub(super) fn show_networks(networks: &[TrustedPeers]) -> String {
    networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
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
    fn those_who_are_let_in_are_networks_and_of_a_unix_socket_the_mode_says_it() {
        for (text, part) in [
            ("9090?allow=", "expected IP addresses, or networks"),
            ("9090?allow=unix", "expected IP addresses, or networks"),
            ("9090?allow=::1,", "behind allow="),
            ("9090?allow=10.0.0.1/8", "is no network"),
            ("9090?allow=::1&allow=::2", "expected allow= once"),
            ("/run/a.sock?allow=::1", "mode= says who may connect"),
            ("/run/a.sock?allow=::1&mode=660", "mode= says who may connect"),
        ] {
            let why = address(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
