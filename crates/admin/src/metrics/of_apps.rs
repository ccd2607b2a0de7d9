//! Writes the app metrics, and those of language runtimes.

use super::text::{Kind, Text};
use oribi_stats::app_metrics::{self, AppMetric, AppMetrics, bounds, exported_name};
use std::time::Duration;

/// Writes the metrics of apps and of language runtimes.
pub(super) fn write(text: &mut Text, app_metrics: &AppMetrics) {
    let AppMetrics { families, sums, contexts } = app_metrics;
    let refused = "Calls of count and observe by apps for which there was no room.";
    text.family(Kind::Counter, "oribi_app_figures_refused", refused);
    text.sample(&[], sums.refused);
    let collecting = Duration::from_nanos(sums.collecting);
    text.family(Kind::Counter, "oribi_ruby_gc_seconds", "Time in which Ruby has collected garbage, of all workers.");
    text.sample(&[], format!("{}.{:06}", collecting.as_secs(), collecting.subsec_micros()));
    text.family(Kind::Counter, "oribi_ruby_gc_collections", "How often Ruby has collected garbage, in all workers.");
    text.sample(&[], sums.collections);
    text.family(Kind::Gauge, "oribi_lua_states", "States of Lua that exist in all workers.");
    text.sample(&[], contexts.lua_states);
    text.family(Kind::Gauge, "oribi_perl_interpreters", "Interpreters of Perl that answer requests, in all workers.");
    text.sample(&[], contexts.perl_interpreters);
    for (name, (kind, app_metrics)) in families {
        let name = exported_name(name);
        match kind {
            app_metrics::Kind::Counter => text.family(Kind::Counter, &name, "Counted by the app."),
            app_metrics::Kind::Histogram => text.family(Kind::Histogram, &name, "Observed by the app."),
        }
        app_metrics.iter().for_each(|metric| write_metric(text, &name, *kind, metric));
    }
}

fn write_metric(text: &mut Text, name: &str, kind: app_metrics::Kind, metric: &AppMetric) {
    let labels: Vec<(&str, &str)> = metric.labels.iter().map(|(label, value)| (label.as_str(), value.as_str())).collect();
    if kind == app_metrics::Kind::Counter {
        return text.sample(&labels, metric.sum);
    }
    let up_to = |end: usize| metric.buckets.iter().take(end).fold(0u64, |sum, bucket| sum.saturating_add(*bucket));
    let buckets = bounds(name).iter().enumerate().map(|(index, bound)| (*bound, up_to(index + 1)));
    text.histogram(&labels, buckets, metric.sum, up_to(metric.buckets.len()));
}

#[cfg(test)]
mod tests {
    use super::super::text::Format;
    use super::*;
    use oribi_stats::app_metrics::{Contexts, Sums};
    use std::collections::BTreeMap;

    #[test]
    fn figures_are_told_under_their_names_with_their_labels() {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let orders =
            AppMetric { labels: vec![label("by", "card"), label("kind", "a \"b\"\n")], sum: 2.5, buckets: vec![3; 15] };
        let more = AppMetric { labels: Vec::new(), sum: 12_345_678_901_234.0, buckets: vec![0; 15] };
        let pages = AppMetric {
            labels: vec![label("of", "x")],
            sum: 7.0,
            buckets: (0..15).map(|index| u64::from(index < 2)).collect(),
        };
        let families = BTreeMap::from([
            ("orders".to_owned(), (app_metrics::Kind::Counter, vec![orders, more])),
            ("pages".to_owned(), (app_metrics::Kind::Histogram, vec![pages])),
        ]);
        let sums = Sums { refused: 4, collecting: 1_500_000_000, collections: 9 };
        let app_metrics = AppMetrics { families, sums, contexts: Contexts { lua_states: 5, perl_interpreters: 6 } };
        let written = |format| {
            let mut text = Text::new(format);
            write(&mut text, &app_metrics);
            String::from_utf8(text.end()).expect("it is text")
        };
        let text = written(Format::Plain);
        for line in [
            "oribi_app_figures_refused_total 4",
            "oribi_ruby_gc_seconds_total 1.500000",
            "oribi_ruby_gc_collections_total 9",
            "oribi_lua_states 5",
            "oribi_perl_interpreters 6",
            "# TYPE app_orders_total counter",
            "app_orders_total{by=\"card\",kind=\"a \\\"b\\\"\\n\"} 2.5",
            "app_orders_total 12345678901234",
            "# TYPE app_pages histogram",
            "app_pages_bucket{of=\"x\",le=\"1.0\"} 1",
            "app_pages_bucket{of=\"x\",le=\"4.0\"} 2",
            "app_pages_bucket{of=\"x\",le=\"67108864.0\"} 2",
            "app_pages_bucket{of=\"x\",le=\"+Inf\"} 2",
            "app_pages_sum{of=\"x\"} 7",
            "app_pages_count{of=\"x\"} 2",
        ] {
            assert!(text.lines().any(|present| present == line), "{line} is missing:\n{text}");
        }
        assert!(written(Format::Open).contains("# TYPE app_orders counter\napp_orders_total{"));
    }
}
