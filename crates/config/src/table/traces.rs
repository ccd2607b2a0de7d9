//! The rows of the table about traces.

use super::super::setting::{Section, Setting};
use super::super::trace_export::{collector, service, show_collector};
use super::super::traces::SampleRatio;
use super::super::value::{boolean, path, show_switch};

pub(super) const TRACES: Setting = Setting::server(
    "traces",
    Section::Requests,
    "",
    "Make each request part of a trace (W3C Trace Context): the app gets a traceparent that continues the caller's, or else \
     begins a new trace, and the access log can contain its ids",
)
.apply(|draft, text| boolean(text).map(|on| draft.settings.traces = on))
.show(|settings| show_switch(settings.traces));

pub(super) const SAMPLE: Setting = Setting::server(
    "trace-sample",
    Section::Requests,
    "RATIO",
    "The fraction, from 0 to 1, of the traces begun here that are marked as sampled; traces of callers keep their mark",
)
.apply(|draft, text| SampleRatio::parse(text).map(|ratio| draft.settings.trace_sample = ratio))
.show(|settings| settings.trace_sample.to_string());

pub(super) const EXPORT: Setting = Setting::server(
    "trace-export",
    Section::Requests,
    "COLLECTOR",
    "Send the spans of sampled requests to an OpenTelemetry collector, by OTLP/HTTP: http://HOST:PORT or https://HOST:PORT, \
     with a path if that is not /v1/traces; auto for the URL in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or \
     OTEL_EXPORTER_OTLP_ENDPOINT; or off. Fields in OTEL_EXPORTER_OTLP_HEADERS are also sent",
)
.apply(|draft, text| collector(text).map(|url| draft.settings.trace_export.endpoint = url))
.show(|settings| show_collector(&settings.trace_export));

pub(super) const AUTHORITIES: Setting =
    Setting::server("trace-export-ca", Section::Requests, "PATH", "CA certificates (PEM) for a collector with https")
        .default_words("those of the system")
        .apply(|draft, text| path(text).map(|path| draft.settings.trace_export.authorities = Some(path)))
        .show(|settings| {
            settings.trace_export.authorities.as_ref().map_or_else(String::new, |path| path.display().to_string())
        });

pub(super) const SERVICE: Setting =
    Setting::server("trace-service", Section::Requests, "NAME", "The name of this service in its spans (service.name)")
        .environment("OTEL_SERVICE_NAME")
        .default_words("that of the app's file")
        .apply(|draft, text| service(text).map(|name| draft.settings.trace_export.service = name))
        .show(|settings| settings.trace_export.service.clone());
