//! Limits for the figures.

use super::{
    audit::Requests,
    figures::{Figures, Phase, ratio},
};

/// Graphs that the larger budget of memory is for.
const MANY: f64 = 1000.0;
/// Profiles whose binaries are what is shipped.
const SHIPPED: [&str; 2] = ["dist", "release"];

/// One figure and its limit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Budget {
    /// Name of the figure.
    pub(super) what: String,
    /// The figure.
    pub(super) measured: f64,
    /// Maximum of the figure.
    pub(super) limit: f64,
    /// The unit of both.
    pub(super) unit: &'static str,
}

impl Budget {
    fn new(what: impl Into<String>, measured: f64, limit: f64, unit: &'static str) -> Self {
        Self { what: what.into(), measured, limit, unit }
    }

    /// Whether the figure is within its limit.
    pub(super) fn holds(&self) -> bool {
        self.measured <= self.limit
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { measured, limit, unit, .. } = self;
        let outcome = if self.holds() { "holds" } else { "MISSED" };
        // A value near the limit is not shown as the limit, so it has one digit more, and ratios are small.
        let digits = |value: f64| {
            if value.fract() == 0.0 {
                0
            } else if *limit < 10.0 {
                2
            } else {
                1
            }
        };
        let digits = (digits(*measured) + usize::from(measured.fract() != 0.0), digits(*limit));
        write!(f, "{outcome}: {measured:.*} of {limit:.*}", digits.0, digits.1)?;
        if unit.is_empty() { Ok(()) } else { write!(f, " {unit}") }
    }
}

/// All budgets of our own controllers. Those that figures of this kind do not show are left out.
pub(super) fn budgets(figures: &Figures) -> Vec<Budget> {
    let Some(profile) = figures.profile.as_deref() else { return Vec::new() };
    let ours = || figures.processes.iter().filter(|process| process.operator);
    let (count, mib) = (ours().count(), |kib: u64| kib as f64 / 1024.0);
    let empty = mib(ours().map(|process| process.pss_kib_without_graphs).sum());
    let loaded = mib(ours().map(|process| process.pss_kib_with_graphs).sum());
    let each = if figures.graphs == 0 { 0.0 } else { (loaded - empty) / figures.graphs as f64 };
    let mut all = vec![
        Budget::new(format!("PSS of {count} processes without graphs"), empty, 45.0, "MiB"),
        Budget::new(
            format!("the same for 1000 graphs, by {} graphs", figures.graphs),
            empty + MANY * each,
            110.0,
            "MiB",
        ),
    ];
    for process in ours() {
        // The webhook server has no certificate yet, and makes one.
        let limit = if process.name == "webhook-server" { 1000.0 } else { 300.0 };
        let start = process.start_ms.map(|ms| Budget::new(format!("start of {}", process.name), ms, limit, "ms"));
        let size = process.binary_bytes.filter(|_| SHIPPED.contains(&profile));
        let size = size.map(|bytes| {
            Budget::new(format!("binary {}", process.name), bytes as f64 / (1024.0 * 1024.0), 12.0, "MiB")
        });
        all.extend(start);
        if process.name == "webhook-server" {
            let bundles = "CA bundle in all definitions, by a plain client";
            all.extend(figures.bundles_ms.map(|ms| Budget::new(bundles, ms, limit, "ms")));
        }
        all.extend(size);
    }
    all.extend(figures.phases.iter().map(writes));
    if let Some(phase) = figures.phases.first() {
        all.push(Budget::new(
            format!("apply to all children, p50, {}", phase.name),
            phase.to_children_ms.p50,
            90.0,
            "ms",
        ));
        all.push(Budget::new(
            format!("apply to all children, p99, {}", phase.name),
            phase.to_children_ms.p99,
            200.0,
            "ms",
        ));
    }
    if let Some(phase) = figures.phases.last() {
        let share = phase.operator_cpu_share * 100.0;
        all.push(Budget::new(format!("CPU of the operator, {}", phase.name), share, 25.0, "% of all processes"));
    }
    let idle = |count: fn(&Requests) -> usize| figures.idle.requests.values().map(count).sum::<usize>() as f64;
    all.push(Budget::new("writes without a change", idle(Requests::writes), 0.0, "requests"));
    all.push(Budget::new("lists without a change", idle(|requests| requests.lists), 0.0, "requests"));
    all
}

/// The objects that a graph needs and a tenth more.
fn writes(phase: &Phase) -> Budget {
    let all: usize = phase.requests.values().map(Requests::writes).sum();
    let what = format!("writes per graph until Ready, {}", phase.name);
    Budget::new(what, ratio(all, phase.graphs), phase.children_per_graph * 1.1, "requests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_shown_with_its_limit_and_whether_it_holds() {
        let budget = |measured, limit| Budget::new("x", measured, limit, "ms").to_string();
        assert_eq!(budget(100.0, 300.0), "holds: 100 of 300 ms");
        assert_eq!(budget(300.04, 300.0), "MISSED: 300.04 of 300 ms");
        assert_eq!(budget(16.0, 13.2), "MISSED: 16 of 13.2 ms");
        assert_eq!(budget(0.0, 0.0), "holds: 0 of 0 ms");
        assert_eq!(budget(1.1501, 1.15), "MISSED: 1.150 of 1.15 ms");
        assert_eq!(budget(1.144, 1.15), "holds: 1.144 of 1.15 ms");
    }
}
