//! `cargo xtask bench floor`: many graphs at once by an operator, and the same objects by clients.
//!
//! The plain client is the floor: what the control plane needs for these objects, without an operator. A third run is
//! by a client that sends what an operator has to send: server-side applies, while it holds the watches that the
//! controllers held, in a cluster with the webhook server, so that graphs are admitted and every object is converted for
//! watches of the other version.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Context, Result, ensure};
use local_operator::{Binaries, OperatorArgs, Running};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use test_cluster::{Cluster, Options};
use tokio::time::Instant;

use super::{
    JsonArgs,
    audit::{AuditLog, Requests},
    budgets::Budget,
    load::Load,
    nodes, processes,
    progress::Progress,
    template::{Template, WriteForm},
    usage::{Usage, own_cpu_seconds},
    watches::{hold, watches},
};

/// Programs of ours that keep running beside the client that applies.
const SERVERS: [&str; 2] = ["crds", "webhook-server"];
/// Name of this process in the figures: it applies the graphs, or writes all objects.
const CLIENT: &str = "client";
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

/// Measurements of the operator, or of a client.
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
    let (operator, template, watches) = by_operator(args, &binaries).await?;
    eprintln!("the same objects by a plain client");
    let floor = by_client(args, &binaries, &template).await?;
    let mut all = BTreeMap::from([("operator", &operator), ("floor", &floor)]);
    let applies = match args.operator.other() {
        None => {
            eprintln!("the same objects by a client that applies them");
            Some(by_applies(args, &binaries, &template, &watches).await?)
        }
        Some(_) => None,
    };
    all.extend(applies.as_ref().map(|applies| ("applies", applies)));
    print!("{}", table(args, &operator, &floor, applies.as_ref()));
    args.json.write(&all)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the objects of a graph, and the watches of the controllers, too.
async fn by_operator(args: &Args, binaries: &Binaries) -> Result<(Figures, Template, Vec<String>)> {
    let cluster = cluster(args, binaries.crds()?).await?;
    let operators = args.operator.start(&cluster, binaries).await?;
    let mut audit = AuditLog::new(cluster.audit_log()?);
    let processes = processes(&cluster, operators.iter().map(Running::name))?;
    let progress = Progress::watch(&cluster.client()?).await?;
    let mut load = Load::new(cluster.client()?, args.components);
    let names = load.prepare(args.graphs).await?;
    progress.rests().await?;
    let controllers = operators.iter().filter(|operator| !SERVERS.contains(&operator.name()));
    let controllers: Vec<&str> = controllers.map(|operator| operator.user.as_str()).collect();
    let watches = watches(&audit.next()?, &controllers);
    let (before, own) = (Usage::of(&processes)?, own_cpu_seconds()?);
    let begin = Instant::now();
    load.settle(&names, &progress, (&cluster, &operators)).await?;
    let seconds = (progress.last_moved() - begin).as_secs_f64();
    let mut cpu_seconds = Usage::of(&processes)?.cpu_since(&before);
    cpu_seconds.insert(CLIENT.to_owned(), own_cpu_seconds()? - own);
    let events = audit.next()?;
    let users: Vec<&str> = operators.iter().map(|operator| operator.user.as_str()).collect();
    let writes: usize = users.iter().map(|user| Requests::of(user, &events).writes()).sum();
    let first = names.first().context("no graph")?;
    let template = Template::read(&cluster.client()?, &events, &users, first).await?;
    cluster.stop().await?;
    // The graphs themselves are written by their users.
    Ok((Figures { seconds, writes: writes + args.graphs, cpu_seconds }, template, watches))
}

/// Definitions for a cluster without webhooks: without an operator, none serves the conversion.
pub(super) fn without_conversion(mut crds: Vec<Value>) -> Vec<Value> {
    for spec in crds.iter_mut().filter_map(|crd| crd["spec"].as_object_mut()) {
        spec.remove("conversion");
    }
    crds
}

async fn by_client(args: &Args, binaries: &Binaries, template: &Template) -> Result<Figures> {
    let cluster = cluster(args, without_conversion(binaries.crds()?)).await?;
    let figures = write_all(args, &cluster, std::iter::empty(), (template, WriteForm::Create)).await?;
    cluster.stop().await?;
    Ok(figures)
}

/// A cluster with the webhook server, the watches of the controllers and no controller.
async fn by_applies(args: &Args, binaries: &Binaries, template: &Template, watches: &[String]) -> Result<Figures> {
    let cluster = cluster(args, binaries.crds()?).await?;
    let operators = args.operator.start(&cluster, binaries).await?;
    let (servers, controllers): (Vec<_>, Vec<_>) =
        operators.iter().partition(|operator| SERVERS.contains(&operator.name()));
    for controller in controllers {
        controller.stop(&cluster).await?;
    }
    let servers = servers.into_iter().map(Running::name);
    let held = hold(&cluster.client()?, watches).await?;
    let figures = write_all(args, &cluster, servers, (template, WriteForm::Apply)).await?;
    drop(held);
    cluster.stop().await?;
    Ok(figures)
}

/// Writes the objects of all graphs. `programs` are measured beside the control plane.
async fn write_all(
    args: &Args,
    cluster: &Cluster,
    programs: impl Iterator<Item = &str>,
    (template, form): (&Template, WriteForm),
) -> Result<Figures> {
    let processes = processes(cluster, programs)?;
    let client = cluster.client()?;
    let progress = Progress::watch(&client).await?;
    let names = Load::new(client.clone(), args.components).prepare(args.graphs).await?;
    progress.rests().await?;
    let (before, own) = (Usage::of(&processes)?, own_cpu_seconds()?);
    let begin = Instant::now();
    template.write(&client, &names, form).await?;
    progress.rests().await?;
    let seconds = (progress.last_moved() - begin).as_secs_f64();
    let mut cpu_seconds = Usage::of(&processes)?.cpu_since(&before);
    cpu_seconds.insert(CLIENT.to_owned(), own_cpu_seconds()? - own);
    Ok(Figures { seconds, writes: template.requests(form) * args.graphs, cpu_seconds })
}

async fn cluster(args: &Args, crds: Vec<Value>) -> Result<Cluster> {
    let nodes = nodes(args.graphs, args.components)?;
    Ok(Cluster::start(Options { crds, audit: true, ..Options::with_nodes(nodes) }).await?)
}

fn table(args: &Args, operator: &Figures, floor: &Figures, applies: Option<&Figures>) -> String {
    let whose = args.operator.other().unwrap_or("operator");
    let mut text = format!("{} graphs of {} components at once\n", args.graphs, args.components);
    text += &format!("{:<36} {whose:>9} {:>9} {:>10}", "", "client", "ratio");
    text += if applies.is_some() { "   applies  ratio\n" } else { "\n" };
    let mut row = |name: &str, unit: &str, of: &dyn Fn(&Figures) -> f64| {
        let (ours, floor) = (of(operator), of(floor));
        let ratio = |value: f64| if floor > 0.0 { format!("{:.2}", value / floor) } else { "-".to_owned() };
        text += &format!("{name:<36} {ours:>9.1} {floor:>9.1} {unit:<3} {:>6}", ratio(ours));
        if let Some(applies) = applies.map(of) {
            text += &format!(" {applies:>9.1} {:>6}", ratio(applies));
        }
        text.push('\n');
    };
    row("time", "s", &|figures| figures.seconds);
    row("writes for a graph", "", &|figures| figures.writes as f64 / args.graphs as f64);
    for process in operator.cpu_seconds.keys() {
        let cpu = |figures: &Figures| figures.cpu_seconds.get(process).copied().unwrap_or_default();
        row(&format!("CPU of {process}"), "s", &cpu);
    }
    let ratio = Budget {
        what: "time by that of the plain client".to_owned(),
        measured: operator.seconds / floor.seconds,
        limit: BUDGET,
        unit: "",
    };
    text + &format!("{}: {ratio}\n", ratio.what)
}
