//! The `workqueue_*` families, by upstream's names, labels and buckets. The gauges are computed when they are
//! scraped, so that they are never older than the scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::{Declared, Registrar};

/// The one label of all families: the name of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Labels {
    pub(crate) name: String,
}

type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of all queues of a process.
#[derive(Debug, Clone)]
pub struct Metrics {
    adds: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
    queue_duration: Histograms,
    work_duration: Histograms,
    gauges: Gauges,
}

impl Metrics {
    /// Registers the families and returns the handle that queues are built with.
    pub fn register(registry: &mut impl Registrar) -> Metrics {
        let metrics = Self::unregistered();
        registry.family(
            "workqueue_adds",
            "Total number of adds handled by workqueue",
            &["name"],
            metrics.adds.clone(),
        );
        registry.family(
            "workqueue_retries",
            "Total number of retries handled by workqueue",
            &["name"],
            metrics.retries.clone(),
        );
        registry.family(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            &["name"],
            metrics.queue_duration.clone(),
        );
        registry.family(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes",
            &["name"],
            metrics.work_duration.clone(),
        );
        let gauges =
            READINGS.iter().map(|(name, help, _)| Declared::new(name, help, &["name"], MetricType::Gauge));
        registry.collector(gauges.collect(), metrics.gauges.clone());
        metrics
    }

    /// Metrics that nobody scrapes, for tests.
    pub fn unregistered() -> Metrics {
        Metrics {
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(histogram as fn() -> Histogram),
            work_duration: Family::new_with_constructor(histogram as fn() -> Histogram),
            gauges: Gauges::default(),
        }
    }

    /// The metrics of the queue `name`; the families show it with zeroes from now on.
    pub(super) fn of(&self, name: &str) -> QueueMetrics {
        let labels = Labels { name: name.to_owned() };
        QueueMetrics {
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            queue_duration: self.queue_duration.get_or_create_owned(&labels),
            work_duration: self.work_duration.get_or_create_owned(&labels),
        }
    }

    /// Shows the gauges of `queue` under `name` for as long as it lives.
    pub(super) fn observe(&self, name: &str, queue: Weak<dyn Gauged>) {
        self.gauges.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), queue);
    }
}

/// Upstream's buckets: 10 ns to 10 s, each ten times the one before, by multiplication as upstream does it.
fn histogram() -> Histogram {
    Histogram::new(std::iter::successors(Some(10e-9), |bound| Some(bound * 10.0)).take(10))
}

/// The metrics of one queue.
#[derive(Debug)]
pub(super) struct QueueMetrics {
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) queue_duration: Histogram,
    pub(super) work_duration: Histogram,
}

/// What a queue shows in its gauges.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Levels {
    pub(super) depth: usize,
    pub(super) unfinished: Duration,
    pub(super) longest: Duration,
}

/// A queue that can be asked for its gauges at any time.
pub(super) trait Gauged: Send + Sync {
    fn levels(&self) -> Levels;
}

#[derive(Clone, Default)]
struct Gauges(Arc<Mutex<BTreeMap<String, Weak<dyn Gauged>>>>);

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauges").finish_non_exhaustive()
    }
}

type Reading = (&'static str, &'static str, fn(&Levels) -> f64);

const READINGS: [Reading; 3] = [
    ("workqueue_depth", "Current depth of workqueue", |levels| {
        #[expect(clippy::cast_precision_loss, reason = "no queue is 2^52 deep")]
        let depth = levels.depth as f64;
        depth
    }),
    (
        "workqueue_unfinished_work_seconds",
        "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. \
         Large values indicate stuck threads",
        |levels| levels.unfinished.as_secs_f64(),
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "How many seconds has the longest running processor for workqueue been running",
        |levels| levels.longest.as_secs_f64(),
    ),
];

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|_, queue| queue.strong_count() > 0);
        let levels: Vec<(Labels, Levels)> = queues
            .iter()
            .filter_map(|(name, queue)| Some((Labels { name: name.clone() }, queue.upgrade()?.levels())))
            .collect();
        if levels.is_empty() {
            return Ok(());
        }
        for (family, help, read) in READINGS {
            let mut metric = encoder.encode_descriptor(family, help, None, MetricType::Gauge)?;
            for (labels, levels) in &levels {
                metric.encode_family(labels)?.encode_gauge(&read(levels))?;
            }
        }
        Ok(())
    }
}
