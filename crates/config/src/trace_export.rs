//! Parses the destination of spans.

use super::contradiction::Contradictions;
use super::settings::Settings;
use super::value::is_off;
use crate::directory;
use oribi_io::process::environment;
use oribi_otlp::{endpoint, endpoint_of_environment};

/// The longest name of a service.
const LONGEST_NAME: usize = 255;

/// Parses the URL of a collector, `auto` for the URL in the environment, or `off`. Returns `None` for `off`, and for `auto`
/// without such a URL.
pub(super) fn collector(text: &str) -> Result<Option<String>, String> {
    let text = text.trim();
    if is_off(text) {
        return Ok(None);
    }
    if text.eq_ignore_ascii_case("auto") {
        return endpoint_of_environment(environment::variable);
    }
    endpoint(text).map(Some)
}

/// Formats the value so that [`collector`] can parse it.
pub(super) fn show_collector(export: &oribi_otlp::Settings) -> String {
    export.endpoint.clone().unwrap_or_else(|| "off".to_owned())
}

/// Parses the name of a service; empty for the app's name.
pub(super) fn service(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(format!("expected a name of at most {LONGEST_NAME} bytes without control characters"));
    }
    Ok(name.to_owned())
}

/// Makes the path absolute, and refuses settings that have no effect.
pub(super) fn settle(settings: &mut Settings, found: &mut Contradictions) {
    let export = &mut settings.trace_export;
    if let Some(path) = &mut export.authorities
        && let Ok(full) = directory::absolute(path)
    {
        *path = full;
    }
    match (&export.endpoint, &export.authorities) {
        (Some(url), _) if !settings.traces => {
            found.add("trace-export", url, "it needs --traces, which makes requests parts of traces", &["traces"]);
        }
        (Some(url), Some(file)) if !url.starts_with("https:") => {
            let why = "the collector's URL is not https";
            found.add("trace-export-ca", file.display().to_string(), why, &["trace-export"]);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Origin};

    fn settings(pairs: &[(&str, &str)]) -> Result<oribi_otlp::Settings, String> {
        let mut config = Config::with(|_| None, 1);
        for (name, value) in pairs {
            config.set(name, value, Origin::CommandLine).map_err(|error| error.to_string())?;
        }
        config.finish().map(|settings| settings.trace_export).map_err(|error| error.to_string())
    }

    #[test]
    fn spans_go_to_a_collector_if_there_are_traces() {
        let traces = ("traces", "on");
        let export = settings(&[traces, ("trace-export", "http://127.0.0.1:4318"), ("trace-service", " shop ")]).expect("fits");
        assert_eq!((export.endpoint.as_deref(), &*export.service), (Some("http://127.0.0.1:4318/v1/traces"), "shop"));
        assert_eq!(settings(&[("trace-export", "off")]).expect("fits").endpoint, None);
        let secure = settings(&[traces, ("trace-export", "https://a"), ("trace-export-ca", "ca.pem")]).expect("fits");
        assert!(secure.authorities.is_some_and(|path| path.is_absolute()));
        for (pairs, part) in [
            (&[("trace-export", "http://a")][..], "it needs --traces"),
            (&[traces, ("trace-export", "a:4317")], "expected http://HOST:PORT or https://"),
            (&[traces, ("trace-export", "http://a"), ("trace-export-ca", "ca.pem")], "is not https"),
            (&[("trace-service", "a\nb")], "control characters"),
        ] {
            let why = settings(pairs).expect_err("a mistake");
            assert!(why.contains(part), "{pairs:?}: {why}");
        }
    }
}
