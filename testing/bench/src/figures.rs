//! Measured figures.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{audit::Requests, progress::Times};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// The operator: its command line, or ours.
    pub(super) operator: String,
    /// Cargo profile of our controllers.
    pub(super) profile: Option<String>,
    /// Graphs in the cluster at the end.
    pub(super) graphs: usize,
    /// Components of each.
    pub(super) components: usize,
    /// The operator's processes and those of the control plane.
    pub(super) processes: Vec<ProcessFigures>,
    /// Graphs at different paces.
    pub(super) phases: Vec<Phase>,
    /// Nothing to do.
    pub(super) idle: Idle,
    /// Time of a plain client to change the CA bundle of all definitions, for which a webhook server without a
    /// certificate waits.
    pub(super) bundles_ms: Option<f64>,
}

/// One process.
#[derive(Debug, Serialize)]
pub(super) struct ProcessFigures {
    pub(super) name: String,
    /// Whether it belongs to the operator.
    pub(super) operator: bool,
    /// From its start until it was ready.
    pub(super) start_ms: Option<f64>,
    pub(super) binary_bytes: Option<u64>,
    pub(super) pss_kib_without_graphs: u64,
    pub(super) pss_kib_with_graphs: u64,
    /// In all phases together.
    pub(super) cpu_seconds: f64,
}

/// Graphs that were applied at one pace.
#[derive(Debug, Serialize)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) graphs: usize,
    /// From the first apply until the last graph was Ready.
    pub(super) seconds: f64,
    /// Objects that were made for a graph.
    pub(super) children_per_graph: f64,
    /// From the apply of a graph until its last child existed.
    pub(super) to_children_ms: Percentiles,
    /// From the apply of a graph until its last Deployment existed.
    pub(super) to_workloads_ms: Percentiles,
    /// From the apply of a graph until it was Ready.
    pub(super) to_ready_ms: Percentiles,
    /// By process.
    pub(super) cpu_seconds: BTreeMap<String, f64>,
    /// The operator's part of the CPU time of all processes.
    pub(super) operator_cpu_share: f64,
    /// The API server's part of it.
    pub(super) apiserver_cpu_share: f64,
    /// By process of the operator.
    pub(super) requests: BTreeMap<String, Requests>,
}

/// Time in which nothing was changed.
#[derive(Debug, Serialize)]
pub(super) struct Idle {
    pub(super) seconds: u64,
    pub(super) cpu_seconds: BTreeMap<String, f64>,
    pub(super) requests: BTreeMap<String, Requests>,
}

/// The value below which half, and 99 of 100, lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Phase {
    /// Puts together what was measured in a phase.
    pub(super) fn new(
        name: &'static str,
        took: Duration,
        times: &[Times],
        cpu_seconds: BTreeMap<String, f64>,
        requests: BTreeMap<String, Requests>,
    ) -> Self {
        let total: f64 = cpu_seconds.values().sum();
        let share = |part: f64| if total > 0.0 { part / total } else { 0.0 };
        let operator = requests.keys().filter_map(|name| cpu_seconds.get(name)).sum();
        let apiserver = cpu_seconds.get("kube-apiserver").copied().unwrap_or_default();
        let children: usize = times.iter().map(|times| times.children).sum();
        Self {
            name,
            graphs: times.len(),
            seconds: took.as_secs_f64(),
            children_per_graph: ratio(children, times.len()),
            to_children_ms: Percentiles::of(times.iter().map(|times| times.to_children)),
            to_workloads_ms: Percentiles::of(times.iter().map(|times| times.to_workloads)),
            to_ready_ms: Percentiles::of(times.iter().map(|times| times.to_ready)),
            operator_cpu_share: share(operator),
            apiserver_cpu_share: share(apiserver),
            cpu_seconds,
            requests,
        }
    }

    /// Graphs that became Ready in a second.
    pub(super) fn graphs_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.graphs as f64 / self.seconds } else { 0.0 }
    }
}

impl Percentiles {
    /// Of durations, in milliseconds, by nearest rank: with few values the 99th percentile is the largest.
    pub(super) fn of(durations: impl Iterator<Item = Duration>) -> Self {
        let mut sorted: Vec<_> = durations.map(|duration| duration.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().unwrap_or_default()
        };
        Self { p50: at(50), p99: at(99) }
    }
}

/// Returns `count` divided by `on`; 0 if `on` is 0.
pub(super) fn ratio(count: usize, on: usize) -> f64 {
    if on == 0 { 0.0 } else { count as f64 / on as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let of = |values: &[u64]| Percentiles::of(values.iter().map(|&value| Duration::from_millis(value)));
        let hundred: Vec<_> = (1..=100).collect();
        for (values, p50, p99) in
            [(&[][..], 0.0, 0.0), (&[7], 7.0, 7.0), (&[3, 1, 2], 2.0, 3.0), (&hundred, 50.0, 99.0)]
        {
            assert_eq!(of(values), Percentiles { p50, p99 }, "{values:?}");
        }
    }

    #[test]
    fn shares_are_of_the_whole() {
        let cpu = [("us", 1.0), ("kube-apiserver", 2.0), ("etcd", 1.0)].map(|(name, value)| (name.to_owned(), value));
        let requests = [("us".to_owned(), Requests::default())];
        let phase = Phase::new("x", Duration::from_secs(2), &[], cpu.into(), requests.into());
        assert_eq!((phase.operator_cpu_share, phase.apiserver_cpu_share), (0.25, 0.5));
    }
}
