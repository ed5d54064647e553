//! The `process_*` families, read from `/proc` on each scrape. On a system without `/proc` they are absent.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Declared;

/// The collector; it has no state of its own.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(reading) = Reading::take() else { return Ok(()) };
        let (name, help) = CPU;
        let cpu = ConstCounter::new(reading.cpu_seconds);
        cpu.encode(encoder.encode_descriptor(name, help, None, cpu.metric_type())?)?;
        for (name, help, read) in GAUGES {
            let gauge = ConstGauge::new(read(&reading));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

const CPU: (&str, &str) = ("process_cpu_seconds", "Total user and system CPU time spent in seconds");

type Gauge = (&'static str, &'static str, fn(&Reading) -> f64);

const GAUGES: [Gauge; 6] = [
    ("process_resident_memory_bytes", "Resident memory size in bytes", |reading| reading.resident_bytes),
    ("process_virtual_memory_bytes", "Virtual memory size in bytes", |reading| reading.virtual_bytes),
    ("process_open_fds", "Number of open file descriptors", |reading| reading.open_files),
    ("process_max_fds", "Maximum number of open file descriptors", |reading| reading.max_files),
    ("process_threads", "Number of operating system threads", |reading| reading.threads),
    ("process_start_time_seconds", "Start time since the Unix epoch", |reading| reading.started),
];

/// All that it tells.
pub(super) fn families() -> Vec<Declared> {
    let gauges = GAUGES.iter().map(|(name, help, _)| Declared::new(name, help, &[], MetricType::Gauge));
    std::iter::once(Declared::new(CPU.0, CPU.1, &[], MetricType::Counter)).chain(gauges).collect()
}

struct Reading {
    cpu_seconds: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    open_files: f64,
    max_files: f64,
    threads: f64,
    started: f64,
}

impl Reading {
    fn take() -> Option<Self> {
        // Linux shows times to user space in hundredths of a second on every platform we build for.
        const TICKS: f64 = 100.0;
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The command name, in parentheses, may hold spaces; all that follows it is numbers.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let kibibytes = |name: &str| Some(number_after(&status, name)? * 1024.0);
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let uptime = fs::read_to_string("/proc/stat").ok()?;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            resident_bytes: kibibytes("VmRSS:")?,
            virtual_bytes: kibibytes("VmSize:")?,
            open_files: fs::read_dir("/proc/self/fd").map_or(0.0, |entries| count(entries.count())),
            max_files: number_after(&limits, "Max open files").unwrap_or(-1.0),
            threads: number_after(&status, "Threads:")?,
            started: number_after(&uptime, "btime")? + field(22)? / TICKS,
        })
    }
}

fn count(entries: usize) -> f64 {
    f64::from(u32::try_from(entries).unwrap_or(u32::MAX))
}

/// The first number behind `name` at the start of a line.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
