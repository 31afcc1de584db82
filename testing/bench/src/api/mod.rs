//! `cargo xtask bench api`: what the webhook server takes for its answers, and what conversion adds to reads.
//!
//! The server runs alone, without controllers: what it costs is what is measured, and graphs stay as they were made.

mod dry_runs;
mod lists;
mod review_client;

use std::{process::ExitCode, time::Duration};

use anyhow::{Result, ensure};
use local_operator::WebhookServer;
use review_client::ReviewClient;
use test_cluster::{Cluster, Options};

use super::{budgets::Budget, figures::Percentiles, graph::graph};

/// Components of each graph: one frontend, the others workers.
const COMPONENTS: u8 = 3;
/// Answers that come before any is counted.
const WARM: usize = 100;
/// Graphs in one conversion of many.
const MANY: usize = 500;
/// Conversions of a list of many objects.
const TURNS: usize = 20;

/// Arguments of `cargo xtask bench api`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Graphs that are stored and listed
    #[arg(long, value_name = "N", default_value_t = 1000)]
    graphs: usize,
    /// Requests of each sort
    #[arg(long, value_name = "N", default_value_t = 2000)]
    requests: usize,
    /// Lists in each version
    #[arg(long, value_name = "N", default_value_t = 15)]
    lists: usize,
    /// Cargo profile of the webhook server
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
}

/// Measures and prints the figures.
///
/// # Errors
/// The server does not start, or gives other answers than it should.
pub(super) async fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.requests > 0 && args.lists > 0 && args.graphs > 0, "nothing to measure");
    let server = WebhookServer::build(&args.profile)?;
    let cluster = Cluster::start(Options { crds: server.crds()?, ..Options::default() }).await?;
    server.start(&cluster).await?;
    let client = ReviewClient::new(&server, &cluster).await?;
    println!("webhook server alone, profile {}; {COMPONENTS} components per graph", args.profile);
    admission(args, &client).await?;
    conversion(args, &client).await?;
    let dry_runs = dry_runs::measure(&cluster, args.requests).await?;
    let lists = lists::measure(&cluster, args.graphs, args.lists).await?;
    cluster.stop().await?;
    row("dry run of a new graph, p50 / p99", &percentiles(dry_runs.checked));
    row("the same without the webhook server, p50 / p99", &percentiles(dry_runs.unchecked));
    for (what, of, limit) in [("p50", (|p| p.p50) as fn(&Percentiles) -> f64, 1.5), ("p99", |p| p.p99, 4.0)] {
        let measured = of(&dry_runs.checked) - of(&dry_runs.unchecked);
        let budget = Budget { what: format!("difference of the dry runs, {what}"), measured, limit, unit: "ms" };
        row(&budget.what, &budget.to_string());
    }
    row("LIST in v1beta1, p50 / p99", &percentiles(lists.stored));
    row("LIST in v1alpha1, p50 / p99", &percentiles(lists.converted));
    row("LIST in v1alpha1 / v1beta1, medians", &format!("{:.2}", lists.converted.p50 / lists.stored.p50));
    Ok(ExitCode::SUCCESS)
}

/// Admission of a graph: defaults, then validation.
async fn admission(args: &Args, client: &ReviewClient) -> Result<()> {
    let graph = graph("chat", COMPONENTS);
    for (operation, old) in [("CREATE", None), ("UPDATE", Some(&graph))] {
        let (mut default, mut validate, mut both) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..WARM + args.requests {
            let first = client.admit(review_client::DEFAULT, operation, &graph, old).await?;
            let second = client.admit(review_client::VALIDATE, operation, &graph, old).await?;
            if turn >= WARM {
                default.push(first);
                validate.push(second);
                both.push(first + second);
            }
        }
        for (what, took) in [("default", default), ("validate", validate), ("both", both)] {
            let took = percentiles(Percentiles::of(took.into_iter()));
            row(&format!("admission, {operation}, {what}, p50 / p99"), &took);
        }
    }
    Ok(())
}

/// Graphs as they were written in either version, converted to the other one.
async fn conversion(args: &Args, client: &ReviewClient) -> Result<()> {
    let beta = graph("chat", COMPONENTS);
    let alpha = client.convert("v1alpha1", vec![beta.clone()]).await?.objects;
    for (object, from, to) in [(beta, "v1beta1", "v1alpha1"), (alpha[0].clone(), "v1alpha1", "v1beta1")] {
        let mut alone: Vec<Duration> = Vec::new();
        for turn in 0..WARM + args.requests {
            let took = client.convert(to, vec![object.clone()]).await?.took;
            if turn >= WARM {
                alone.push(took);
            }
        }
        let mut each = Vec::new();
        for _ in 0..TURNS {
            let done = client.convert(to, vec![object.clone(); MANY]).await?;
            each.push(done.took / u32::try_from(MANY)?);
        }
        row(&format!("conversion from {from}, one, p50 / p99"), &percentiles(Percentiles::of(alone.into_iter())));
        let each = percentiles(Percentiles::of(each.into_iter()));
        row(&format!("conversion from {from}, {MANY} at once, each, p50 / p99"), &each);
    }
    Ok(())
}

fn percentiles(percentiles: Percentiles) -> String {
    format!("{:.3} / {:.3} ms", percentiles.p50, percentiles.p99)
}

fn row(name: &str, value: &str) {
    println!("  {name:<58}  {value}");
}
