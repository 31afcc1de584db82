//! `cargo xtask bench`: what an operator costs, and how quick it is, for many graphs on a real control plane with fake
//! nodes. The operator is a command line, so that others can be measured in the same way.

mod api;
mod audit;
mod budgets;
mod chart;
mod definitions;
mod delay;
mod edits;
mod figures;
mod floor;
mod graph;
mod growth;
mod load;
mod progress;
mod restart;
mod shards;
mod table;
mod template;
mod usage;
mod watches;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use audit::{AuditLog, Requests};
use clap::Parser;
use figures::{Figures, Idle, Phase, ProcessFigures};
use futures::future::try_join_all;
use load::{Load, Pace};
use local_operator::{OperatorArgs, Running};
use progress::Progress;
use serde::Serialize;
use test_cluster::{Cluster, Options, Process};
use tokio::time::{Instant, sleep};
use usage::Usage;

/// Graphs of the phase at low load.
const ONE_BY_ONE: usize = 20;
/// One in so many graphs of the whole number takes part in the paced phase.
const PACED_SHARE: usize = 4;
/// The fewest fake nodes.
const NODES: u16 = 8;
/// Pods for which a node has room, with some to spare.
const PODS_OF_NODE: usize = 100;
const CONTROL_PLANE: [&str; 5] = ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok"];

/// Measures what an operator costs, and how quick it is, for many graphs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// Graphs that are applied all at once; a quarter as many before at --pace, and 20 before that one by one
    #[arg(long, value_name = "N", default_value_t = 200)]
    graphs: usize,
    /// Components of each graph: one frontend, the others workers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=25))]
    components: u8,
    /// Graphs per second in the paced phase
    #[arg(long, value_name = "RATE", default_value_t = 2.0)]
    pace: f64,
    /// Seconds of watching what happens when nothing happens
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    idle: u64,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Destination of figures beside the standard output
#[derive(Debug, clap::Args)]
struct JsonArgs {
    /// Write the figures to a file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl JsonArgs {
    fn write(&self, figures: &impl Serialize) -> Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let text = serde_json::to_string_pretty(figures)?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            // Not by returning it from main, which adds a back trace when the environment enables those of panics.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Separate measurement
#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Time of the webhook server for its answers, and extra time of reads for conversion
    Api(api::Args),
    /// Picture of the figures of earlier measurements
    Chart(chart::Args),
    /// Many graphs at once: the operator beside clients that write the same objects
    Floor(floor::Args),
    /// Time, CPU and memory of each graph, with few graphs and with many; time and CPU by a plain client, too
    Growth(growth::Args),
    /// The time from an edit of a controller to its new behaviour
    Loop(edits::Args),
    /// A restart of the operator with many graphs: until drift is repaired, and until it is quiet
    Restart(restart::Args),
    /// Many graphs at once by one replica of each controller, and by several that share the namespaces
    Shards(shards::Args),
}

/// Measures and prints the figures.
///
/// # Errors
/// The operator does not start, or a graph does not become Ready.
async fn run(args: &Args) -> Result<ExitCode> {
    match &args.part {
        Some(Part::Api(args)) => return api::run(args).await,
        Some(Part::Chart(args)) => return chart::run(args),
        Some(Part::Floor(args)) => return floor::run(args).await,
        Some(Part::Growth(args)) => return growth::run(args).await,
        Some(Part::Loop(args)) => return edits::run(args).await,
        Some(Part::Restart(args)) => return restart::run(args).await,
        Some(Part::Shards(args)) => return shards::run(args).await,
        None => {}
    }
    ensure!(args.pace > 0.0, "--pace must be more than 0");
    let binaries = args.operator.build_all()?;
    let graphs = ONE_BY_ONE + args.graphs + args.graphs / PACED_SHARE;
    let nodes = nodes(graphs, args.components)?;
    let cluster = Cluster::start(Options { crds: binaries.crds()?, audit: true, ..Options::with_nodes(nodes) }).await?;
    let operators = args.operator.start(&cluster, &binaries).await?;
    let keeper = args.operator.start_scope_keeper(&cluster, &binaries).await?;
    let mut bench = Bench::new(args, &cluster, operators, keeper).await?;
    let figures = bench.measure().await?;
    cluster.stop().await?;
    print!("{}", table::render(&figures));
    args.json.write(&figures)?;
    Ok(ExitCode::SUCCESS)
}

/// Fake nodes with room for the pods of so many graphs, each with one pod for a component.
fn nodes(graphs: usize, components: u8) -> Result<u16> {
    Ok(u16::try_from((graphs * usize::from(components)).div_ceil(PODS_OF_NODE))?.max(NODES))
}

/// Processes of the control plane, and others by name.
fn processes<'a>(cluster: &Cluster, others: impl Iterator<Item = &'a str>) -> Result<Vec<(String, Process)>> {
    let found = others.chain(CONTROL_PLANE).map(|name| {
        let process = cluster.process(name).with_context(|| format!("{name} does not run"))?;
        Ok((name.to_owned(), process))
    });
    found.collect()
}

struct Bench<'a> {
    args: &'a Args,
    cluster: &'a Cluster,
    operators: Vec<Running>,
    /// The process of restricted installs: its memory counts, its requests do not.
    keeper: Option<Running>,
    load: Load,
    progress: Progress,
    audit: AuditLog,
    processes: Vec<(String, Process)>,
}

impl<'a> Bench<'a> {
    async fn new(
        args: &'a Args,
        cluster: &'a Cluster,
        operators: Vec<Running>,
        keeper: Option<Running>,
    ) -> Result<Self> {
        let client = cluster.client()?;
        let processes = processes(cluster, operators.iter().chain(&keeper).map(Running::name))?;
        let progress = Progress::watch(&client).await?;
        let load = Load::new(client, args.components);
        let audit = AuditLog::new(cluster.audit_log()?);
        Ok(Self { args, cluster, operators, keeper, load, progress, audit, processes })
    }

    async fn measure(&mut self) -> Result<Figures> {
        self.progress.rests().await?;
        let empty = self.usage()?;
        let paced = (self.args.graphs / PACED_SHARE).max(1);
        let phases = vec![
            self.phase("one by one", ONE_BY_ONE, Pace::OneByOne).await?,
            self.phase("paced", paced, Pace::Rate(self.args.pace)).await?,
            self.phase("all at once", self.args.graphs, Pace::AllAtOnce).await?,
        ];
        let idle = self.idle().await?;
        let loaded = self.usage()?;
        let processes = self.processes.iter().map(|(name, _)| self.process(name, &empty, &loaded)).collect();
        let ours = self.args.operator.other().is_none();
        let bundles = if ours { Some(self.bundles_by_a_plain_client().await?) } else { None };
        Ok(Figures {
            operator: self.args.operator.other().unwrap_or("this repository's controllers").to_owned(),
            profile: self.args.operator.other().is_none().then(|| self.args.operator.profile().to_owned()),
            components: self.args.components.into(),
            graphs: ONE_BY_ONE + paced + self.args.graphs,
            processes,
            phases,
            idle,
            bundles_ms: bundles.map(|took| took.as_secs_f64() * 1e3),
        })
    }

    /// With nothing beside it: the operator has stopped.
    async fn bundles_by_a_plain_client(&self) -> Result<Duration> {
        let all = self.operators.iter().chain(&self.keeper);
        try_join_all(all.map(|operator| operator.stop(self.cluster))).await?;
        definitions::change_bundles(&self.cluster.client()?).await
    }

    /// Applies graphs and waits until all are Ready and nothing moves any more.
    async fn phase(&mut self, name: &'static str, graphs: usize, pace: Pace) -> Result<Phase> {
        eprintln!("{graphs} graphs, {name}");
        let names = self.load.prepare(graphs).await?;
        self.progress.rests().await?;
        self.audit.next()?;
        let before = self.usage()?;
        let begin = Instant::now();
        let applied = self.load.apply(&names, pace, &self.progress).await?;
        self.progress.all_ready(&names, || self.alive()).await?;
        let took = begin.elapsed();
        self.progress.rests().await?;
        let cpu = self.usage()?.cpu_since(&before);
        let events = self.audit.next()?;
        let times = self.progress.times(&applied)?;
        Ok(Phase::new(name, took, &times, cpu, self.requests(&events)))
    }

    async fn idle(&mut self) -> Result<Idle> {
        eprintln!("{} s without a change", self.args.idle);
        self.progress.rests().await?;
        self.audit.next()?;
        let before = self.usage()?;
        // Time itself is what is measured here.
        sleep(Duration::from_secs(self.args.idle)).await;
        self.alive()?;
        let cpu = self.usage()?.cpu_since(&before);
        let events = self.audit.next()?;
        Ok(Idle { seconds: self.args.idle, cpu_seconds: cpu, requests: self.requests(&events) })
    }

    fn usage(&self) -> Result<Usage> {
        Usage::of(&self.processes)
    }

    fn alive(&self) -> Result<()> {
        self.operators.iter().try_for_each(|operator| operator.check(self.cluster))
    }

    fn requests(&self, events: &[audit::Event]) -> BTreeMap<String, Requests> {
        let of = |operator: &Running| (operator.name().to_owned(), Requests::of(&operator.user, events));
        self.operators.iter().map(of).collect()
    }

    fn process(&self, name: &str, empty: &Usage, loaded: &Usage) -> ProcessFigures {
        let operator = self.operators.iter().chain(&self.keeper).find(|operator| operator.name() == name);
        let size = |path: &Path| fs::metadata(path).map(|data| data.len()).ok();
        ProcessFigures {
            name: name.to_owned(),
            operator: operator.is_some(),
            start_ms: operator.and_then(Running::ready_after).map(|took| took.as_secs_f64() * 1e3),
            binary_bytes: operator.and_then(|operator| size(operator.executable.as_deref()?)),
            pss_kib_without_graphs: empty.pss_kib(name),
            pss_kib_with_graphs: loaded.pss_kib(name),
            cpu_seconds: loaded.cpu_seconds(name) - empty.cpu_seconds(name),
        }
    }
}
