//! Writes the families about requests by route.

use super::text::{Kind, Text};
use oribi_config::Bound;
use oribi_stats::totals::{CLASSES, RouteCounts};

/// Writes the counters of routes with these names. Writes nothing if there are no routes.
pub(super) fn routes(text: &mut Text, names: &[String], counts: &[RouteCounts], bounds: &[Bound]) {
    if names.is_empty() {
        return;
    }
    let named = || names.iter().map(String::as_str).zip(counts);
    text.family(
        Kind::Counter,
        "oribi_route_responses",
        "Responses to requests of a route that have come to their end, by class.",
    );
    for (name, route) in named() {
        for (class, number) in CLASSES.iter().zip(route.classes) {
            text.sample(&[("route", name), ("class", class)], number);
        }
    }
    text.family(
        Kind::Histogram,
        "oribi_route_request_seconds",
        "How long requests of a route have taken, from when they were complete.",
    );
    for (name, RouteCounts { times, .. }) in named() {
        text.times(&[("route", name)], times, bounds);
    }
}
