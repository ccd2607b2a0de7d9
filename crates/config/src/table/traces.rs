//! The rows of the table about traces.

use super::super::setting::{Section, Setting};
use super::super::trace_export::{collector, service, show_collector};
use super::super::traces::SampleRatio;
use super::super::value::{boolean, path, show_switch};

pub(super) const TRACES: Setting = Setting::new(
    "traces",
    Section::Requests,
    "",
    "Give each request its place in a trace (W3C Trace Context): the app sees a traceparent that continues that of the caller, or else begins \
     a new trace, and the access log can tell its ids",
)
.apply(|draft, text| boolean(text).map(|on| draft.settings.traces = on))
.show(|settings| show_switch(settings.traces));

pub(super) const SAMPLE: Setting = Setting::new(
    "trace-sample",
    Section::Requests,
    "RATIO",
    "How many of the traces that begin here are marked as sampled, from 0 to 1; those of callers keep their mark",
)
.apply(|draft, text| SampleRatio::parse(text).map(|ratio| draft.settings.trace_sample = ratio))
.show(|settings| settings.trace_sample.to_string());

pub(super) const EXPORT: Setting = Setting::new(
    "trace-export",
    Section::Requests,
    "COLLECTOR",
    "Send the spans of sampled requests to a collector of OpenTelemetry, by OTLP/HTTP: http://HOST:PORT or https://HOST:PORT, with a path if \
     that is not /v1/traces; auto for what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT says; or off. Fields in \
     OTEL_EXPORTER_OTLP_HEADERS are sent, too",
)
.apply(|draft, text| collector(text).map(|url| draft.settings.trace_export.endpoint = url))
.show(|settings| show_collector(&settings.trace_export));

pub(super) const AUTHORITIES: Setting = Setting::new(
    "trace-export-ca",
    Section::Requests,
    "PATH",
    "A file with the certificates of those who may vouch for the collector, if it is one of https and they are not those whom the system trusts",
)
.default_words("those of the system")
.apply(|draft, text| path(text).map(|path| draft.settings.trace_export.authorities = Some(path)))
.show(|settings| settings.trace_export.authorities.as_ref().map_or_else(String::new, |path| path.display().to_string()));

pub(super) const SERVICE: Setting =
    Setting::new("trace-service", Section::Requests, "NAME", "The name of this service in its spans (service.name)")
        .environment("OTEL_SERVICE_NAME")
        .default_words("that of the app's file")
        .apply(|draft, text| service(text).map(|name| draft.settings.trace_export.service = name))
        .show(|settings| settings.trace_export.service.clone());
