//! The destination of spans, from options and from the environment.

use percent_encoding::percent_decode_str;
use std::path::PathBuf;

/// The path that is added to a URL for all signals (traces, metrics, logs), for traces.
const PATH: &str = "/v1/traces";

const EXPECTED: &str = "expected http://HOST:PORT or https://HOST:PORT, of a collector that takes OTLP/HTTP, such as http://127.0.0.1:4318; \
                        auto; or off";

/// The settings of an exporter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The URL of the collector; `None` if spans are not exported.
    pub endpoint: Option<String>,
    /// A PEM file with the authorities that may sign the collector's certificate; `None` for the system's.
    pub authorities: Option<PathBuf>,
    /// The name of the service; empty to use the name of the app.
    pub service: String,
}

/// Parses the URL of a collector. A URL without a path gets the path of the protocol for traces.
///
/// # Errors
/// Says which form is expected.
pub fn endpoint(text: &str) -> Result<String, String> {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://").ok_or(EXPECTED)?;
    let scheme = scheme.to_ascii_lowercase();
    if !matches!(&*scheme, "http" | "https") || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(EXPECTED.to_owned());
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err("expected no user in the URL: give credentials as fields in OTEL_EXPORTER_OTLP_HEADERS".to_owned());
    }
    let after = authority.rfind(']').unwrap_or(0);
    let (host, port) = match authority[after..].rfind(':') {
        Some(colon) => (&authority[..after + colon], Some(&authority[after + colon + 1..])),
        None => (authority, None),
    };
    let has_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    if host.is_empty() || host.contains(['\\', '"', '<', '>']) || !has_port || path.contains('#') {
        return Err(EXPECTED.to_owned());
    }
    let path = if matches!(path, "" | "/") { PATH } else { path };
    Ok(format!("{scheme}://{authority}{path}"))
}

/// Returns the URL in the environment variables that all exporters of OpenTelemetry read; `None` if these are not set.
///
/// # Errors
/// Says which variable is wrong, and which form is expected.
pub fn endpoint_of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<String>, String> {
    let given = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
    let wrong = |name: &str, why: &str| format!("{name} in the environment: {why}");
    for (name, is_of_traces) in [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", true), ("OTEL_EXPORTER_OTLP_ENDPOINT", false)] {
        if let Some(text) = given(name) {
            let url = if is_of_traces { text } else { format!("{}{PATH}", text.trim().trim_end_matches('/')) };
            return endpoint(&url).map(Some).map_err(|why| wrong(name, &why));
        }
    }
    Ok(None)
}

/// Reads the fields to send with each request from the environment. The fields may be secret, so they are kept out of all
/// settings.
///
/// Returns the fields, and the names of the fields that cannot be sent.
pub(crate) fn headers(variable: impl Fn(&str) -> Option<String>) -> (Vec<(String, String)>, Vec<String>) {
    let given = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
    let text = given("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| given("OTEL_EXPORTER_OTLP_HEADERS")).unwrap_or_default();
    let (mut headers, mut wrong) = (Vec::new(), Vec::new());
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (name.trim(), percent_decode_str(value.trim()).decode_utf8_lossy().into_owned());
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(is_token);
        if is_name && !value.is_empty() && value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            headers.push((name.to_owned(), value));
        } else {
            wrong.push(name.chars().filter(char::is_ascii_graphic).take(40).collect());
        }
    }
    (headers, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn urls_of_collectors() {
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            (" HTTP://localhost/ ", "http://localhost/v1/traces"),
            ("https://[::1]:4318/v1/traces", "https://[::1]:4318/v1/traces"),
            ("https://[::1]", "https://[::1]/v1/traces"),
            ("https://otlp.example/a/b?key=1", "https://otlp.example/a/b?key=1"),
        ] {
            assert_eq!(endpoint(text).as_deref(), Ok(url), "{text}");
            assert_eq!(endpoint(url).as_deref(), Ok(url), "{text}");
        }
        for wrong in [
            "",
            "127.0.0.1:4318",
            "grpc://a:4317",
            "http://",
            "http://:80",
            "http://a:x",
            "http://a:0",
            "http://a b",
            "http://a/#x",
            "http://é",
        ] {
            assert_eq!(endpoint(wrong), Err(EXPECTED.to_owned()), "{wrong}");
        }
        assert!(
            endpoint("http://me:secret@a")
                .is_err_and(|why| why.contains("OTEL_EXPORTER_OTLP_HEADERS") && !why.contains("secret"))
        );
    }

    #[test]
    fn the_environment_names_one_for_all_signals_or_for_traces() {
        let (all, traces) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        for (pairs, url) in [
            (&[][..], None),
            (&[(all, " "), (traces, "")], None),
            (&[(all, "http://a:4318/")], Some("http://a:4318/v1/traces")),
            (&[(all, "http://a/base")], Some("http://a/base/v1/traces")),
            (&[(all, "http://a"), (traces, "https://b/x")], Some("https://b/x")),
        ] {
            assert_eq!(endpoint_of_environment(environment(pairs)), Ok(url.map(str::to_owned)), "{pairs:?}");
        }
        let why = endpoint_of_environment(environment(&[(all, "a:4317")])).expect_err("no scheme");
        assert!(why.starts_with("OTEL_EXPORTER_OTLP_ENDPOINT in the environment: expected http://"), "{why}");
    }

    #[test]
    fn fields_of_the_environment() {
        let (all, traces) = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let said = headers(environment(&[(all, "api-key=a%20b%3d, x = 1,,bad name=2,empty=,c=%0aX")]));
        assert_eq!(said.0, [pair("api-key", "a b="), pair("x", "1")]);
        assert_eq!(said.1, ["badname", "empty", "c"]);
        assert_eq!(headers(environment(&[(all, "a=1"), (traces, "b=2")])).0, [pair("b", "2")]);
        assert_eq!(headers(environment(&[])), (Vec::new(), Vec::new()));
    }
}
