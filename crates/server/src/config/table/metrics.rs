//! The row of the table about metrics.

use super::super::setting::{Section, Setting};
use super::super::settings::{ListenAddress, Protocol};
use super::super::value::is_off;

pub(super) const METRICS: Setting = Setting::new(
    "metrics",
    Section::Logs,
    "ADDRESS",
    "Where Prometheus gets /metrics: HOST:PORT, a port of 127.0.0.1, or the path of a Unix socket, which may end in ?mode=660 for \
     its permission bits. Whoever reaches it may read the numbers",
)
.apply(|draft, text| address(text).map(|address| draft.settings.metrics = address))
.show(|settings| settings.metrics.as_ref().map_or_else(|| "off".to_owned(), ToString::to_string));

/// `None`: off.
fn address(text: &str) -> Result<Option<ListenAddress>, String> {
    let text = text.trim();
    if is_off(text) || text.eq_ignore_ascii_case("no") {
        return Ok(None);
    }
    let only_port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if only_port { format!("127.0.0.1:{text}") } else { text.to_owned() };
    let refused = |why: String| format!("{why}; for metrics without TLS, FastCGI and PROXY headers; or off");
    let address = ListenAddress::parse(&text).map_err(refused)?;
    let plain = address.certificates.is_none() && address.proxy_protocol.is_none();
    if !plain || address.protocol == Some(Protocol::FastCgi) {
        return Err(refused("expected HOST:PORT, a port, or the path of a Unix socket".to_owned()));
    }
    // Otherwise the addresses of clients would decide what is spoken here.
    Ok(Some(address.speaking(Protocol::Http)))
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
        ] {
            let show = |address: Option<ListenAddress>| address.map_or_else(|| "off".to_owned(), |address| address.to_string());
            let read = address(text).map(show);
            assert_eq!(read.as_deref(), Ok(shown), "{text}");
            assert_eq!(address(shown).map(show).as_deref(), Ok(shown), "{shown}");
        }
        for text in
            ["", "localhost", "70000", "https://:1", "https://:1?cert=a&key=b", ":1:ssl", "fcgi://:1", ":1?proxy_protocol=on"]
        {
            assert!(address(text).is_err_and(|why| why.ends_with("; or off")), "{text}");
        }
    }
}
