//! `cargo xtask bench floor`: many graphs at once by an operator, and the same objects by a plain client.
//!
//! The client is the floor: what the control plane needs for these objects, without an operator.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use local_operator::{Binaries, OperatorArgs, Running};
use serde::{Deserialize, Serialize};
use test_cluster::{Cluster, Options};
use tokio::time::Instant;

use super::{
    JsonArgs,
    audit::{AuditLog, Requests},
    budgets::Budget,
    load::Load,
    nodes, processes,
    progress::Progress,
    template::Template,
    usage::Usage,
};

/// Requests of the plain client at a time.
const CONNECTIONS: usize = 16;
/// Limit of the operator's time, as a multiple of the floor.
const BUDGET: f64 = 1.15;

/// Arguments of `cargo xtask bench floor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Graphs that are applied all at once
    #[arg(long, value_name = "N", default_value_t = 500)]
    graphs: usize,
    /// Components of each graph: one frontend, the others workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=25))]
    components: u8,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Measurements of the operator, or of the plain client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    /// From the first request until nothing moved any more.
    pub(super) seconds: f64,
    /// Writes until then.
    pub(super) writes: usize,
    /// By process.
    pub(super) cpu_seconds: BTreeMap<String, f64>,
}

/// Measures and prints the figures.
///
/// # Errors
/// The operator does not start, a graph does not become Ready, or an object cannot be created again.
pub(super) async fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.graphs > 0, "nothing to measure");
    let binaries = args.operator.build()?;
    eprintln!("{} graphs by the operator", args.graphs);
    let (operator, template) = by_operator(args, &binaries).await?;
    eprintln!("the same objects by a plain client");
    let floor = by_client(args, &binaries, &template).await?;
    print!("{}", table(args, &operator, &floor));
    args.json.write(&BTreeMap::from([("operator", &operator), ("floor", &floor)]))?;
    Ok(ExitCode::SUCCESS)
}

async fn by_operator(args: &Args, binaries: &Binaries) -> Result<(Figures, Template)> {
    let cluster = cluster(args, binaries).await?;
    let operators = args.operator.start(&cluster, binaries).await?;
    let mut audit = AuditLog::new(cluster.audit_log()?);
    let processes = processes(&cluster, operators.iter().map(Running::name))?;
    let progress = Progress::watch(&cluster.client()?).await?;
    let mut load = Load::new(cluster.client()?, args.components);
    let names = load.prepare(args.graphs).await?;
    progress.rests().await?;
    audit.next()?;
    let before = Usage::of(&processes)?;
    let begin = Instant::now();
    load.settle(&names, &progress, (&cluster, &operators)).await?;
    let seconds = (progress.last_moved() - begin).as_secs_f64();
    let cpu_seconds = Usage::of(&processes)?.cpu_since(&before);
    let events = audit.next()?;
    let users: Vec<&str> = operators.iter().map(|operator| operator.user.as_str()).collect();
    let writes: usize = users.iter().map(|user| Requests::of(user, &events).writes()).sum();
    let first = names.first().context("no graph")?;
    let template = Template::read(&cluster.client()?, &events, &users, &first.namespace).await?;
    cluster.stop().await?;
    // The graphs themselves are written by their users.
    Ok((Figures { seconds, writes: writes + args.graphs, cpu_seconds }, template))
}

async fn by_client(args: &Args, binaries: &Binaries, template: &Template) -> Result<Figures> {
    let cluster = cluster(args, binaries).await?;
    let processes = processes(&cluster, std::iter::empty())?;
    let client = cluster.client()?;
    let progress = Progress::watch(&client).await?;
    let names = Load::new(client.clone(), args.components).prepare(args.graphs).await?;
    progress.rests().await?;
    let before = Usage::of(&processes)?;
    let begin = Instant::now();
    let creations = stream::iter(&names).map(|graph| template.create(&client, &graph.namespace));
    creations.buffer_unordered(CONNECTIONS).try_for_each(async |()| Ok(())).await?;
    progress.rests().await?;
    let seconds = (progress.last_moved() - begin).as_secs_f64();
    let cpu_seconds = Usage::of(&processes)?.cpu_since(&before);
    cluster.stop().await?;
    Ok(Figures { seconds, writes: template.requests() * args.graphs, cpu_seconds })
}

async fn cluster(args: &Args, binaries: &Binaries) -> Result<Cluster> {
    let nodes = nodes(args.graphs, args.components)?;
    Ok(Cluster::start(Options { crds: binaries.crds()?, audit: true, ..Options::with_nodes(nodes) }).await?)
}

fn table(args: &Args, operator: &Figures, floor: &Figures) -> String {
    let whose = args.operator.other().unwrap_or("operator");
    let mut text = format!("{} graphs of {} components at once\n", args.graphs, args.components);
    let mut row = |name: &str, ours: f64, floor: f64, unit: &str| {
        let ratio = if floor > 0.0 { format!("{:.2}", ours / floor) } else { "-".to_owned() };
        text += &format!("{name:<36} {ours:>9.1} {floor:>9.1} {unit:<3} {ratio:>6}\n");
    };
    row(&format!("{whose}, plain client, ratio: time"), operator.seconds, floor.seconds, "s");
    let each = |figures: &Figures| figures.writes as f64 / args.graphs as f64;
    row("writes for a graph", each(operator), each(floor), "");
    for (process, cpu) in &operator.cpu_seconds {
        row(&format!("CPU of {process}"), *cpu, floor.cpu_seconds.get(process).copied().unwrap_or_default(), "s");
    }
    let ratio = Budget {
        what: "time by that of the plain client".to_owned(),
        measured: operator.seconds / floor.seconds,
        limit: BUDGET,
        unit: "",
    };
    text + &format!("{}: {ratio}\n", ratio.what)
}
