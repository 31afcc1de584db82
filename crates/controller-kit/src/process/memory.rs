//! Memory of the process beside the limit of its container. No cache is optional: a controller that plans without one
//! of them would create or delete the wrong things. So a process near its limit reports it in its log and its metrics.

use std::{fmt, fs, path::Path, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::metrics::Metrics;

/// Files with the memory limit of the container, of version 2 and 1 of cgroups.
const LIMITS: [&str; 2] = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

const STATUS: &str = "/proc/self/status";

/// Version 1 has a limit near this one where none is set.
const UNLIMITED: u64 = 1 << 60;

/// Percentages of the limit from which memory is near it, and from which it no longer is.
const NEAR: u64 = 80;
const FAR: u64 = 70;

/// Pause between two comparisons. A start with large caches takes some seconds.
const PERIOD: Duration = Duration::from_secs(1);

/// Adds the metrics, and logs when memory comes near its limit.
pub(super) fn follow(metrics: &Metrics) {
    let limit = limit();
    metrics.register(|registry| registry.register_collector(Box::new(Gauges { limit })));
    if let Some(limit) = limit {
        tokio::spawn(warn_near(limit));
    }
}

async fn warn_near(limit: u64) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_near = false;
    loop {
        ticks.tick().await;
        let Some(resident) = resident() else { return };
        if is_near == near(is_near, resident, limit) {
            continue;
        }
        is_near = !is_near;
        if is_near {
            warn!(
                resident,
                limit,
                "memory is near its limit; raise resources.limits.memory of this program, or limit the number of \
                 objects by a ResourceQuota"
            );
        } else {
            info!(resident, limit, "memory is no longer near its limit");
        }
    }
}

/// Whether memory is near its limit; `before` is the last answer.
fn near(before: bool, resident: u64, limit: u64) -> bool {
    resident.saturating_mul(100) >= limit.saturating_mul(if before { FAR } else { NEAR })
}

/// The memory limit of the container in bytes, if there is one.
fn limit() -> Option<u64> {
    LIMITS.iter().find_map(|path| fs::read_to_string(Path::new(path)).ok()).and_then(|text| parse_limit(&text))
}

/// `max` means no limit.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
}

/// Resident memory of this process in bytes; `None` on systems without `/proc`.
fn resident() -> Option<u64> {
    parse_resident(&fs::read_to_string(STATUS).ok()?)
}

fn parse_resident(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[derive(Debug)]
struct Gauges {
    limit: Option<u64>,
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        if let Some(resident) = resident() {
            let help = "Resident memory of the process in bytes";
            let gauge = encoder.encode_descriptor("memory_resident_bytes", help, None, MetricType::Gauge)?;
            ConstGauge::new(resident).encode(gauge)?;
        }
        if let Some(limit) = self.limit {
            let help = "Memory limit of the container in bytes";
            let gauge = encoder.encode_descriptor("memory_limit_bytes", help, None, MetricType::Gauge)?;
            ConstGauge::new(limit).encode(gauge)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions_are_read() {
        assert_eq!(parse_limit("536870912\n"), Some(512 << 20));
        assert_eq!(parse_limit("max\n"), None);
        assert_eq!(parse_limit("9223372036854771712\n"), None);
    }

    #[test]
    fn memory_is_near_its_limit_from_80_percent_until_it_is_below_70() {
        for (before, resident, expected) in
            [(false, 79, false), (false, 80, true), (true, 79, true), (true, 70, true), (true, 69, false)]
        {
            assert_eq!(near(before, resident, 100), expected, "{before} {resident}");
        }
        assert!(near(false, u64::MAX, u64::MAX));
    }

    #[test]
    fn metrics_show_resident_memory_and_the_limit() {
        assert_eq!(parse_resident("Name:\tx\nVmRSS:\t   12 kB\n"), Some(12 << 10));
        let metrics = Metrics::new();
        metrics.register(|registry| registry.register_collector(Box::new(Gauges { limit: Some(512 << 20) })));
        let text = metrics.text();
        assert!(text.contains("dynamo_operator_memory_limit_bytes 536870912"), "{text}");
        let resident = text.lines().find_map(|line| line.strip_prefix("dynamo_operator_memory_resident_bytes "));
        assert!(resident.is_some_and(|bytes| bytes.parse::<u64>().is_ok_and(|bytes| bytes > 1 << 20)), "{text}");
    }
}
