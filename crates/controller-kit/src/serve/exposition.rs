//! The registry's text in the format a scraper asks for. The registry writes OpenMetrics; most dashboards of Kubernetes
//! were made for the older Prometheus text, which names counters, units and bounds otherwise.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::HeaderMap;
use http::header::ACCEPT;

/// The content type of the Prometheus text format.
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether a client would rather have OpenMetrics. Without an opinion it gets Prometheus text, as from upstream.
pub(super) fn wants_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = accepted.flat_map(|value| value.split(',')).map(weigh);
    let (mut openmetrics, mut text) = (0.0_f32, 0.0_f32);
    for (range, weight) in ranges {
        match range {
            "application/openmetrics-text" => openmetrics = openmetrics.max(weight),
            "text/plain" | "text/*" | "*/*" => text = text.max(weight),
            _ => {}
        }
    }
    openmetrics > text
}

/// A media range and its `q`.
fn weigh(range: &str) -> (&str, f32) {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
    (name, weight.unwrap_or(0.0))
}

/// Turns OpenMetrics text into Prometheus text 0.0.4, families in the order of their names.
pub(super) fn prometheus(openmetrics: &str) -> String {
    let mut families: BTreeMap<String, String> = BTreeMap::new();
    let (mut help, mut current) = (None, String::new());
    for line in openmetrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').map(|(_, text)| text);
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap_or((typed, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            current = format!("{name}{suffix}");
            let head = families.entry(current.clone()).or_default();
            if head.is_empty() {
                let help = help.take().unwrap_or_default();
                let _ = write!(head, "# HELP {current} {help}\n# TYPE {current} {kind}\n");
            }
        } else if !line.starts_with('#')
            && let Some(family) = families.get_mut(&current)
        {
            sample(line, family);
        }
    }
    families.into_values().collect()
}

/// One sample: bounds are written as Go writes them, exemplars and timestamps left out.
fn sample(line: &str, into: &mut String) {
    let (series, rest) = match line.find('{') {
        Some(start) if line[..start].find(' ').is_none() => line.split_at(end_of_labels(line, start)),
        _ => line.split_at(line.find(' ').unwrap_or(line.len())),
    };
    let value = rest.split_whitespace().next().unwrap_or_default();
    let (name, labels) = series.split_at(series.find('{').unwrap_or(series.len()));
    into.push_str(name);
    // The encoder writes the bound first.
    match labels.strip_prefix("{le=\"").and_then(|labels| labels.split_once('"')) {
        Some((bound, others)) if name.ends_with("_bucket") => {
            let bound = bound.parse().map_or_else(|_| bound.to_owned(), float);
            let _ = write!(into, "{{le=\"{bound}\"{others}");
        }
        _ => into.push_str(labels),
    }
    let _ = writeln!(into, " {value}");
}

/// Where the labels that start at `start` end, quotes and escapes respected.
fn end_of_labels(line: &str, start: usize) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return at + 1,
            _ => {}
        }
    }
    line.len()
}

/// INVARIANT: the shortest form by Go's `%g`. A bound is part of a series' identity: dashboards and recording rules that
/// name `le="1"` would find nothing under `le="1.0"`.
fn float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..6 => format!("{value}"),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::EncodeLabelSet;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Labels {
        name: String,
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        let name = "a} b\"c\\le=\"1.0\" # {x}".to_owned();
        let adds = Family::<Labels, Counter>::default();
        adds.get_or_create(&Labels { name: name.clone() }).inc_by(3);
        registry.register("workqueue_adds", "Adds", adds);
        let depth = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
        depth.set(0.5);
        registry.register("depth", "Depth", depth);
        registry.register_with_unit("work", "Work", Unit::Bytes, Counter::<u64>::default());
        registry.register("build", "Build", Info::new(vec![("version", "1")]));
        let took =
            Family::<Labels, Histogram>::new_with_constructor(|| Histogram::new([1e-8, 0.25, 1.0, 1e6]));
        took.get_or_create(&Labels { name }).observe(0.3);
        registry.register("took_seconds", "Took", took);
        registry
    }

    #[test]
    fn prometheus_text_names_counters_units_and_bounds_as_go_does() {
        let text = prometheus(&crate::metrics::encode(&registry()).unwrap());
        insta::assert_snapshot!(text, @r##"
        # HELP build_info Build.
        # TYPE build_info gauge
        build_info{version="1"} 1
        # HELP depth Depth.
        # TYPE depth gauge
        depth 0.5
        # HELP took_seconds Took.
        # TYPE took_seconds histogram
        took_seconds_sum{name="a} b\"c\\le=\"1.0\" # {x}"} 0.3
        took_seconds_count{name="a} b\"c\\le=\"1.0\" # {x}"} 1
        took_seconds_bucket{le="1e-08",name="a} b\"c\\le=\"1.0\" # {x}"} 0
        took_seconds_bucket{le="0.25",name="a} b\"c\\le=\"1.0\" # {x}"} 0
        took_seconds_bucket{le="1",name="a} b\"c\\le=\"1.0\" # {x}"} 1
        took_seconds_bucket{le="1e+06",name="a} b\"c\\le=\"1.0\" # {x}"} 1
        took_seconds_bucket{le="+Inf",name="a} b\"c\\le=\"1.0\" # {x}"} 1
        # HELP work_bytes_total Work.
        # TYPE work_bytes_total counter
        work_bytes_total 0
        # HELP workqueue_adds_total Adds.
        # TYPE workqueue_adds_total counter
        workqueue_adds_total{name="a} b\"c\\le=\"1.0\" # {x}"} 3
        "##);
    }

    #[test]
    fn bounds_are_written_as_go_writes_them() {
        let cases = [(0.005, "0.005"), (1.0, "1"), (60.0, "60"), (100_000.0, "100000"), (1e6, "1e+06")];
        let more = [(1e-8, "1e-08"), (0.0001, "0.0001"), (1.5e-5, "1.5e-05"), (1_234_567.0, "1.234567e+06")];
        let last = [(f64::INFINITY, "+Inf"), (1e100, "1e+100")];
        for (value, written) in cases.into_iter().chain(more).chain(last) {
            assert_eq!(float(value), written);
        }
    }

    #[test]
    fn a_scraper_gets_the_format_it_prefers_and_prometheus_text_without_an_opinion() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            wants_openmetrics(&headers)
        };
        assert!(!wants_openmetrics(&HeaderMap::new()));
        assert!(
            !of("*/*")
                && !of("text/plain")
                && !of("application/json")
                && !of("application/openmetrics-text;q=x")
        );
        assert!(of("application/openmetrics-text"));
        assert!(of(
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        ));
        assert!(!of("application/openmetrics-text;q=0.2, text/plain;q=0.9"));
        assert!(!of("application/openmetrics-text;q=0"));
    }

    proptest::proptest! {
        #[test]
        fn no_label_value_is_changed_or_lost(value in ".*", count in 0..4_u64) {
            let mut registry = Registry::default();
            let family = Family::<Labels, Counter>::default();
            family.get_or_create(&Labels { name: value }).inc_by(count);
            registry.register("a", "A", family);
            let openmetrics = crate::metrics::encode(&registry).unwrap();
            let sample = openmetrics.lines().find(|line| line.starts_with("a_total")).unwrap();
            let text = prometheus(&openmetrics);
            proptest::prop_assert_eq!(text, format!("# HELP a_total A.\n# TYPE a_total counter\n{sample}\n"));
        }
    }
}
