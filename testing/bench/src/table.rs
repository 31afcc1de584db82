//! The figures as a table for people.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    audit::Requests,
    budgets,
    figures::{Figures, Percentiles, Phase, ratio},
};

/// The whole table.
pub(super) fn render(figures: &Figures) -> String {
    let mut rows = Rows::default();
    head(figures, &mut rows);
    processes(figures, &mut rows);
    figures.phases.iter().for_each(|phase| self::phase(phase, &mut rows));
    idle(figures, &mut rows);
    let mut text = rows.render();
    if let Some(phase) = figures.phases.last() {
        let _ = writeln!(text, "\nrequests per graph, {}", phase.name);
        text += &kinds(&phase.requests, phase.graphs);
    }
    text + &budgets(figures)
}

/// Lines of name and value, with titles between them.
#[derive(Default)]
struct Rows(Vec<(String, Option<String>)>);

impl Rows {
    fn title(&mut self, title: impl Into<String>) {
        self.0.push((title.into(), None));
    }

    fn add(&mut self, name: impl AsRef<str>, value: impl Into<String>) {
        self.0.push((format!("  {}", name.as_ref()), Some(value.into())));
    }

    fn render(&self) -> String {
        let width =
            self.0.iter().filter(|row| row.1.is_some()).map(|row| row.0.chars().count()).max().unwrap_or_default();
        let line = |(name, value): &(String, Option<String>)| match value {
            Some(value) => format!("{name:<width$}  {value}\n"),
            None => format!("{name}\n"),
        };
        self.0.iter().map(line).collect()
    }
}

fn head(figures: &Figures, rows: &mut Rows) {
    rows.title(format!("operator: {}", figures.operator));
    if let Some(profile) = figures.profile.as_deref().filter(|profile| matches!(*profile, "dev" | "test")) {
        rows.title(format!("profile {profile}: sizes, memory and CPU are not those of a release; see --profile"));
    }
    rows.title(format!("{} graphs of {} components in the end", figures.graphs, figures.components));
}

fn processes(figures: &Figures, rows: &mut Rows) {
    let (mut before, mut after) = (0, 0);
    for process in figures.processes.iter().filter(|process| process.operator) {
        rows.title(&process.name);
        if let Some(start) = process.start_ms {
            rows.add("start to ready", format!("{start:.0} ms"));
        }
        if let Some(bytes) = process.binary_bytes {
            rows.add("binary", format!("{:.1} MB", bytes as f64 / 1e6));
        }
        rows.add("PSS without graphs", mib(process.pss_kib_without_graphs));
        rows.add("PSS with graphs", mib(process.pss_kib_with_graphs));
        before += process.pss_kib_without_graphs;
        after += process.pss_kib_with_graphs;
    }
    rows.title("operator, all processes");
    rows.add("PSS without graphs", mib(before));
    rows.add("PSS with graphs", mib(after));
}

fn phase(phase: &Phase, rows: &mut Rows) {
    rows.title(format!("{} graphs, {}", phase.graphs, phase.name));
    rows.add("graphs per second until Ready", format!("{:.2}", phase.graphs_per_second()));
    rows.add("apply to Deployments, p50 / p99", percentiles(phase.to_workloads_ms));
    rows.add("apply to all children, p50 / p99", percentiles(phase.to_children_ms));
    rows.add("apply to Ready, p50 / p99", percentiles(phase.to_ready_ms));
    rows.add("children per graph", format!("{:.2}", phase.children_per_graph));
    let all = sum(&phase.requests);
    rows.add("writes of objects per graph", per(all.object_writes, phase.graphs));
    rows.add("writes of status per graph", per(all.status_writes, phase.graphs));
    rows.add("writes of events per graph", per(all.event_writes, phase.graphs));
    rows.add("reads per graph", per(all.reads(), phase.graphs));
    rows.add("CPU of the operator", cpu(phase, phase.requests.keys(), phase.operator_cpu_share));
    let apiserver = "kube-apiserver".to_owned();
    rows.add("CPU of the API server", cpu(phase, std::iter::once(&apiserver), phase.apiserver_cpu_share));
}

fn cpu<'a>(phase: &Phase, names: impl Iterator<Item = &'a String>, share: f64) -> String {
    let seconds: f64 = names.filter_map(|name| phase.cpu_seconds.get(name)).sum();
    format!("{seconds:.2} s, {:.1} % of all processes", share * 100.0)
}

fn idle(figures: &Figures, rows: &mut Rows) {
    let all = sum(&figures.idle.requests);
    let seconds: f64 = figures.idle.requests.keys().filter_map(|name| figures.idle.cpu_seconds.get(name)).sum();
    rows.title(format!("{} s without a change", figures.idle.seconds));
    rows.add("writes", all.writes().to_string());
    rows.add("lists", all.lists.to_string());
    rows.add("gets", all.gets.to_string());
    rows.add("watches begun", all.watches.to_string());
    rows.add("CPU of the operator", format!("{seconds:.2} s"));
}

/// Every budget with its figure, and whether it holds.
fn budgets(figures: &Figures) -> String {
    let mut rows = Rows::default();
    let all = budgets::budgets(figures);
    if !all.is_empty() {
        rows.title("\nbudgets");
    }
    all.iter().for_each(|budget| rows.add(&budget.what, budget.to_string()));
    rows.render()
}

/// Requests by process, verb and resource.
fn kinds(requests: &BTreeMap<String, Requests>, graphs: usize) -> String {
    let mut rows = Rows::default();
    for (name, requests) in requests {
        rows.title(name);
        for (kind, count) in &requests.by_kind {
            rows.add(kind, per(*count, graphs));
        }
    }
    rows.render()
}

fn sum(requests: &BTreeMap<String, Requests>) -> Requests {
    requests.values().fold(Requests::default(), |sum, one| Requests {
        object_writes: sum.object_writes + one.object_writes,
        status_writes: sum.status_writes + one.status_writes,
        event_writes: sum.event_writes + one.event_writes,
        gets: sum.gets + one.gets,
        lists: sum.lists + one.lists,
        watches: sum.watches + one.watches,
        by_kind: BTreeMap::new(),
    })
}

fn per(count: usize, graphs: usize) -> String {
    format!("{:.2}", ratio(count, graphs))
}

fn percentiles(percentiles: Percentiles) -> String {
    format!("{:.0} / {:.0} ms", percentiles.p50, percentiles.p99)
}

fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{
            figures::{Idle, ProcessFigures},
            progress::Times,
        },
        *,
    };

    fn figures(profile: &str) -> Figures {
        let requests = Requests {
            object_writes: 20,
            status_writes: 4,
            gets: 2,
            by_kind: [("patch deployments.apps".to_owned(), 20)].into(),
            ..Requests::default()
        };
        let requests = BTreeMap::from([("us".to_owned(), requests)]);
        let cpu = BTreeMap::from([("us".to_owned(), 1.0), ("kube-apiserver".to_owned(), 3.0)]);
        let times = Times {
            children: 10,
            to_children: Duration::from_millis(40),
            to_workloads: Duration::from_millis(30),
            to_ready: Duration::from_millis(900),
        };
        Figures {
            operator: "ours".to_owned(),
            profile: Some(profile.to_owned()),
            graphs: 2,
            components: 3,
            processes: vec![ProcessFigures {
                name: "webhook-server".to_owned(),
                operator: true,
                start_ms: Some(30.0),
                binary_bytes: Some(9_900_000),
                pss_kib_without_graphs: 10_240,
                pss_kib_with_graphs: 20_480,
                cpu_seconds: 1.0,
            }],
            phases: vec![Phase::new("all at once", Duration::from_secs(4), &[times, times], cpu.clone(), requests)],
            idle: Idle { seconds: 30, cpu_seconds: cpu, requests: [("us".to_owned(), Requests::default())].into() },
            bundles_ms: Some(1234.0),
        }
    }

    #[test]
    fn every_figure_has_its_line() {
        let text = render(&figures("dist"));
        for line in [
            "  binary                            9.9 MB",
            "  PSS with graphs                   20.0 MiB",
            "  graphs per second until Ready     0.50",
            "  apply to Deployments, p50 / p99   30 / 30 ms",
            "  apply to all children, p50 / p99  40 / 40 ms",
            "  children per graph                10.00",
            "  writes of objects per graph       10.00",
            "  writes of status per graph        2.00",
            "  reads per graph                   1.00",
            "  CPU of the operator               1.00 s, 25.0 % of all processes",
            "  CPU of the API server             3.00 s, 75.0 % of all processes",
            "30 s without a change",
            "budgets",
            "  writes per graph until Ready, all at once        MISSED: 12 of 11 requests",
            "  CA bundle in all definitions, by a plain client  MISSED: 1234 of 1000 ms",
            "  patch deployments.apps  10.00",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} is missing in\n{text}");
        }
    }

    #[test]
    fn figures_of_a_debug_build_say_so() {
        assert!(render(&figures("dev")).contains("profile dev"));
        assert!(!render(&figures("dist")).contains("profile"));
    }
}
