//! `cargo xtask bench growth`: what a graph costs with few graphs in the cluster, and with many: by an operator, and by
//! a plain client that writes the same objects in a cluster without operator.

use std::{iter, process::ExitCode};

use anyhow::{Context, Result, ensure};
use local_operator::{Binaries, OperatorArgs, Running};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use test_cluster::{Cluster, Options, Process};
use tokio::time::Instant;

use super::{
    CONTROL_PLANE, JsonArgs,
    audit::AuditLog,
    budgets::Budget,
    floor::without_conversion,
    load::Load,
    nodes, processes,
    progress::{GraphId, Progress},
    template::{Template, WriteForm},
    usage::Usage,
};

/// Limit of the cost of a graph with the most graphs, as a multiple of that with the fewest, and of the operator's time
/// as a multiple of the client's.
const BUDGET: f64 = 1.15;

/// Arguments of `cargo xtask bench growth`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Graphs in the cluster at the end of each step, in ascending order
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "500,1000,2000,5000")]
    steps: Vec<usize>,
    /// Namespaces that the graphs share
    #[arg(long, value_name = "N", default_value_t = 200)]
    namespaces: usize,
    /// Components of each graph: one frontend, the others workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=25))]
    components: u8,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Cost of a graph of one step, by the operator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Graphs in the cluster at the end of the step.
    pub(super) graphs: usize,
    /// Seconds for each graph, from the first request until nothing moved any more.
    pub(super) seconds: f64,
    /// CPU seconds of the operator for each graph.
    operator_cpu_seconds: f64,
    /// CPU seconds of the control plane for each graph.
    control_plane_cpu_seconds: f64,
    /// PSS of the operator's processes above that without graphs, for each graph in the cluster.
    pss_kib: f64,
    /// PSS of the operator's processes.
    total_pss_kib: u64,
    /// The same step by a plain client; not measured beside another operator.
    pub(super) client: Option<ClientFigures>,
}

/// Cost of a graph of one step, by a client.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ClientFigures {
    /// Seconds for each graph, from the first request until nothing moved any more.
    pub(super) seconds: f64,
    /// CPU seconds of the control plane for each graph.
    control_plane_cpu_seconds: f64,
}

/// Measures and prints the figures.
///
/// # Errors
/// The operator does not start, a graph does not become Ready, or an object cannot be created again.
pub(super) async fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.namespaces > 0, "--namespaces must be more than 0");
    ensure!(args.steps.first().is_some_and(|first| *first > 0), "--steps must be more than 0");
    ensure!(args.steps.is_sorted_by(|one, next| one < next), "--steps must ascend");
    let binaries = args.operator.build()?;
    let floor = match args.operator.other() {
        None => {
            let template = template(args, &binaries).await?;
            eprintln!("by a plain client");
            by_client(args, &binaries, &template).await?
        }
        // It may make objects once in a namespace, which the client would create for each graph.
        Some(_) => Vec::new(),
    };
    eprintln!("by the operator");
    let all = by_operator(args, &binaries, &floor).await?;
    print!("{}", table(args, &all));
    args.json.write(&all)?;
    Ok(ExitCode::SUCCESS)
}

/// The objects of a graph, from a cluster of its own: where the costs are measured, an audit log would be one of them.
async fn template(args: &Args, binaries: &Binaries) -> Result<Template> {
    let options = Options { crds: binaries.crds()?, audit: true, ..Options::with_nodes(nodes(1, args.components)?) };
    let cluster = Cluster::start(options).await?;
    let operators = args.operator.start(&cluster, binaries).await?;
    let client = cluster.client()?;
    let progress = Progress::watch(&client).await?;
    let mut load = Load::new(client.clone(), args.components);
    let graphs = load.prepare(1).await?;
    load.settle(&graphs, &progress, (&cluster, &operators)).await?;
    let events = AuditLog::new(cluster.audit_log()?).next()?;
    let users: Vec<&str> = operators.iter().map(|operator| operator.user.as_str()).collect();
    let template = Template::read(&client, &events, &users, graphs.first().context("no graph")?).await?;
    cluster.stop().await?;
    Ok(template)
}

async fn by_operator(args: &Args, binaries: &Binaries, floor: &[ClientFigures]) -> Result<Vec<Figures>> {
    let cluster = cluster(args, binaries.crds()?).await?;
    let operators = args.operator.start(&cluster, binaries).await?;
    let mut steps = Steps::new(args, &cluster, operators.iter().map(Running::name)).await?;
    let pss = |usage: &Usage| operators.iter().map(|operator| usage.pss_kib(operator.name())).sum::<u64>();
    let empty = pss(&steps.usage()?);
    let mut all = Vec::new();
    for (index, &graphs) in args.steps.iter().enumerate() {
        let new = steps.prepare(graphs).await?;
        let before = steps.usage()?;
        let begin = Instant::now();
        steps.load.settle(&new, &steps.progress, (&cluster, &operators)).await?;
        let (seconds, after) = (steps.seconds_since(begin), steps.usage()?);
        eprintln!("{} more graphs took {seconds:.1} s", new.len());
        let cpu = after.cpu_since(&before);
        let each = |sum: f64| sum / new.len() as f64;
        all.push(Figures {
            graphs,
            seconds: each(seconds),
            operator_cpu_seconds: each(operators.iter().filter_map(|operator| cpu.get(operator.name())).sum()),
            control_plane_cpu_seconds: each(CONTROL_PLANE.iter().filter_map(|name| cpu.get(*name)).sum()),
            pss_kib: pss(&after).saturating_sub(empty) as f64 / graphs as f64,
            total_pss_kib: pss(&after),
            client: floor.get(index).copied(),
        });
    }
    cluster.stop().await?;
    Ok(all)
}

async fn by_client(args: &Args, binaries: &Binaries, template: &Template) -> Result<Vec<ClientFigures>> {
    let cluster = cluster(args, without_conversion(binaries.crds()?)).await?;
    let client = cluster.client()?;
    let mut steps = Steps::new(args, &cluster, iter::empty()).await?;
    let mut all = Vec::new();
    for &graphs in &args.steps {
        let new = steps.prepare(graphs).await?;
        let before = steps.usage()?;
        let begin = Instant::now();
        template.write(&client, &new, WriteForm::Create).await?;
        steps.progress.rests().await?;
        let (seconds, cpu) = (steps.seconds_since(begin), steps.usage()?.cpu_since(&before));
        eprintln!("{} more graphs took {seconds:.1} s", new.len());
        let each = |sum: f64| sum / new.len() as f64;
        all.push(ClientFigures { seconds: each(seconds), control_plane_cpu_seconds: each(cpu.values().sum()) });
    }
    cluster.stop().await?;
    Ok(all)
}

async fn cluster(args: &Args, crds: Vec<Value>) -> Result<Cluster> {
    let nodes = nodes(args.steps.iter().max().copied().unwrap_or_default(), args.components)?;
    Ok(Cluster::start(Options { crds, ..Options::with_nodes(nodes) }).await?)
}

/// The steps in one cluster.
struct Steps {
    load: Load,
    progress: Progress,
    processes: Vec<(String, Process)>,
}

impl Steps {
    /// `programs` are measured beside the control plane.
    async fn new(args: &Args, cluster: &Cluster, programs: impl Iterator<Item = &str>) -> Result<Self> {
        let processes = processes(cluster, programs)?;
        let progress = Progress::watch(&cluster.client()?).await?;
        let load = Load::new(cluster.client()?, args.components).sharing(args.namespaces);
        Ok(Self { load, progress, processes })
    }

    /// Makes room for the graphs that are new in the next step.
    async fn prepare(&mut self, graphs: usize) -> Result<Vec<GraphId>> {
        eprintln!("{graphs} graphs");
        let new = self.load.prepare(graphs - self.load.prepared).await?;
        self.progress.rests().await?;
        Ok(new)
    }

    fn usage(&self) -> Result<Usage> {
        Usage::of(&self.processes)
    }

    /// Returns the seconds until the last change.
    fn seconds_since(&self, begin: Instant) -> f64 {
        (self.progress.last_moved() - begin).as_secs_f64()
    }
}

fn table(args: &Args, all: &[Figures]) -> String {
    let mut text = format!(
        "graphs of {} components in {} namespaces; for each graph of a step:\n",
        args.components, args.namespaces
    );
    text += "  graphs       time   CPU of operator   of control plane     memory   of all\n";
    for figures in all {
        text += &format!(
            "{:>8} {:>7.1} ms {:>14.1} ms {:>15.1} ms {:>6.1} KiB {:>5.0} MiB\n",
            figures.graphs,
            figures.seconds * 1e3,
            figures.operator_cpu_seconds * 1e3,
            figures.control_plane_cpu_seconds * 1e3,
            figures.pss_kib,
            figures.total_pss_kib as f64 / 1024.0,
        );
    }
    let clients: Vec<_> = all.iter().filter_map(|figures| Some((figures, figures.client?))).collect();
    if let (Some((_, first)), Some((_, last))) = (clients.first(), clients.last()) {
        text += "the same objects by a plain client, whose time grows by ";
        text += &format!("{:.2}:\n", last.seconds / first.seconds);
        text += "  graphs       time   CPU of control plane\n";
    }
    for (figures, client) in &clients {
        let (time, cpu) = (client.seconds * 1e3, client.control_plane_cpu_seconds * 1e3);
        text += &format!("{:>8} {time:>7.1} ms {cpu:>19.1} ms\n", figures.graphs);
    }
    let mut line = |what: String, measured: f64| {
        let budget = Budget { what, measured, limit: BUDGET, unit: "" };
        text += &format!("{}: {budget}\n", budget.what);
    };
    for (figures, client) in clients {
        let what = format!("time by that of the plain client, {} graphs", figures.graphs);
        line(what, figures.seconds / client.seconds);
    }
    if let (Some(first), Some(last)) = (all.first(), all.last()) {
        let mut ratio =
            |what: &str, of: fn(&Figures) -> f64| line(format!("{what}, last by first"), of(last) / of(first));
        ratio("time", |figures| figures.seconds);
        ratio("CPU of the operator", |figures| figures.operator_cpu_seconds);
        ratio("CPU of the control plane", |figures| figures.control_plane_cpu_seconds);
        ratio("memory", |figures| figures.pss_kib);
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_last_step_is_held_against_the_first() {
        let args = Alone::parse_from(["x", "--namespaces", "20"]).args;
        assert_eq!(args.steps, [500, 1000, 2000, 5000]);
        let figures = |graphs, seconds, pss_kib| Figures {
            graphs,
            seconds,
            operator_cpu_seconds: 0.01,
            control_plane_cpu_seconds: 0.2,
            pss_kib,
            total_pss_kib: 40 * 1024,
            client: Some(ClientFigures { seconds: seconds / 1.5, control_plane_cpu_seconds: 0.1 }),
        };
        let text = table(&args, &[figures(500, 0.15, 100.0), figures(5000, 0.3, 110.0)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[2], "     500   150.0 ms           10.0 ms           200.0 ms  100.0 KiB    40 MiB");
        assert_eq!(lines[4], "the same objects by a plain client, whose time grows by 2.00:");
        assert_eq!(lines[6], "     500   100.0 ms               100.0 ms");
        assert_eq!(lines[8], "time by that of the plain client, 500 graphs: MISSED: 1.500 of 1.15");
        assert_eq!(lines[10], "time, last by first: MISSED: 2 of 1.15");
        assert_eq!(lines[13], "memory, last by first: holds: 1.100 of 1.15");
    }
}
