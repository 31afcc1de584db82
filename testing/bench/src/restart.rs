//! `cargo xtask bench restart`: the operator starts with many graphs, one of whose Deployments was changed meanwhile.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::{api::apps::v1::Deployment, jiff::Timestamp};
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams, Patch, PatchParams},
};
use local_operator::{OperatorArgs, Running};
use serde_json::json;
use test_cluster::{Cluster, Options, wait};
use tokio::time::sleep;

use super::{
    audit::AuditLog,
    budgets::Budget,
    load::Load,
    nodes,
    progress::Progress,
    watches::{read_initial, watches},
};

/// Without a request for so long, the operator is quiet.
const QUIET: Duration = Duration::from_secs(5);
/// The longest that a restart may take.
const LIMIT: Duration = Duration::from_secs(300);
/// Replicas that no graph has.
const DRIFT: i32 = 7;

/// Arguments of `cargo xtask bench restart`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Graphs that are there
    #[arg(long, value_name = "N", default_value_t = 2000)]
    graphs: usize,
    /// Components of each graph: one frontend, the others workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=25))]
    components: u8,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Measures and prints the figures.
///
/// # Errors
/// The operator does not start, a graph does not become Ready, or the drift stays.
pub(super) async fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.graphs > 0, "nothing to measure");
    let binaries = args.operator.build()?;
    let nodes = nodes(args.graphs, args.components)?;
    let cluster = Cluster::start(Options { crds: binaries.crds()?, audit: true, ..Options::with_nodes(nodes) }).await?;
    let mut operators = args.operator.start(&cluster, &binaries).await?;
    let client = cluster.client()?;
    let progress = Progress::watch(&client).await?;
    let mut load = Load::new(client.clone(), args.components);
    let names = load.prepare(args.graphs).await?;
    load.settle(&names, &progress, (&cluster, &operators)).await?;

    try_join_all(operators.iter().map(|operator| operator.stop(&cluster))).await?;
    let drifted = drift(&client, &names.last().context("no graph")?.namespace).await?;
    let mut audit = AuditLog::new(cluster.audit_log()?);
    audit.next()?;
    let (begin, moment) = (Instant::now(), Timestamp::now());
    let start = try_join_all(operators.iter_mut().map(|operator| operator.start_again(&cluster)));
    let repair = async {
        let repaired = until_repaired(&drifted).await;
        repaired.map(|()| begin.elapsed().as_secs_f64())
    };
    let (_, repaired) = tokio::try_join!(start, repair)?;
    let (quiet, begun) = until_quiet(&mut audit, &operators, moment).await?;
    try_join_all(operators.iter().map(|operator| operator.stop(&cluster))).await?;
    let begin = Instant::now();
    read_initial(&client, &begun).await?;
    let floor = begin.elapsed().as_secs_f64();
    cluster.stop().await?;

    println!("restart with {} graphs of {} components", args.graphs, args.components);
    for operator in &operators {
        let ready = operator.ready_after().unwrap_or_default();
        println!("{} ready: {:.2} s", operator.name(), ready.as_secs_f64());
    }
    for (what, measured, limit) in [("drift repaired", repaired, 2.0), ("last request", quiet, 5.0)] {
        println!("{what}: {}", Budget { what: what.to_owned(), measured, limit, unit: "s" });
    }
    println!("a client has read the initial state of the operator's watches: {floor:.2} s");
    Ok(ExitCode::SUCCESS)
}

/// A Deployment whose replicas were changed.
struct Drifted {
    api: Api<Deployment>,
    name: String,
}

async fn drift(client: &Client, namespace: &str) -> Result<Drifted> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let list = api.list(&ListParams::default()).await?;
    let name = list.iter().next().with_context(|| format!("no Deployment in {namespace}"))?.name_any();
    api.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": DRIFT}}))).await?;
    Ok(Drifted { api, name })
}

async fn until_repaired(drifted: &Drifted) -> Result<()> {
    wait::until("the Deployment to be repaired", LIMIT, async || {
        let found = drifted.api.get(&drifted.name).await.map_err(|error| error.to_string())?;
        let replicas = found.spec.and_then(|spec| spec.replicas);
        if replicas == Some(DRIFT) { Err(format!("{DRIFT} replicas")) } else { Ok(()) }
    })
    .await?;
    Ok(())
}

/// Seconds from `begin` to the last request of the operator before it sends none for [`QUIET`], and the watches that it
/// has begun.
async fn until_quiet(audit: &mut AuditLog, operators: &[Running], begin: Timestamp) -> Result<(f64, Vec<String>)> {
    let users: Vec<&str> = operators.iter().map(|operator| operator.user.as_str()).collect();
    let (end, mut last, mut all) = (Instant::now() + LIMIT, begin, Vec::new());
    let mut seen = Instant::now();
    while seen.elapsed() < QUIET {
        ensure!(Instant::now() < end, "the operator is not quiet after {} s", LIMIT.as_secs());
        // Time without a request is what is measured.
        sleep(Duration::from_millis(200)).await;
        let events = audit.next()?;
        if let Some(newest) = events.iter().filter_map(|event| event.worked(&users)).max() {
            (last, seen) = (last.max(newest), Instant::now());
        }
        all.extend(events);
    }
    Ok((last.duration_since(begin).as_secs_f64(), watches(&all, &users)))
}
