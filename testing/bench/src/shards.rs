//! `cargo xtask bench shards`: many graphs at once by one replica of each controller, and by several.
//!
//! The answers of the API server come late, each replica reconciles one object at a time, and graphs have no pods: the
//! operator is what takes the time, and not the machine.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use anyhow::{Result, ensure};
use local_operator::{Binaries, OperatorArgs, Replicas, Running};
use serde::{Deserialize, Serialize};
use test_cluster::{Cluster, Options};

use super::{CONTROL_PLANE, JsonArgs, NODES, delay::Delay, load::Load, processes, progress::Progress, usage::Usage};

/// The controller whose memory and CPU time are shown.
const CONTROLLER: &str = "graph-controller";

/// Arguments of `cargo xtask bench shards`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replicas of each controller, one measurement after the other
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,2,4")]
    replicas: Vec<usize>,
    /// Graphs that are applied all at once, each in a namespace of its own
    #[arg(long, value_name = "N", default_value_t = 200)]
    graphs: usize,
    /// Components of each graph: one frontend, the others workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=25))]
    components: u8,
    /// Milliseconds by which each answer of the API server comes later
    #[arg(long, value_name = "MS", default_value_t = 20)]
    delay: u64,
    /// Objects that each replica reconciles at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrency: usize,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Measurements with one number of replicas.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) replicas: usize,
    /// From the first request until all graphs were Ready.
    pub(super) seconds: f64,
    /// PSS of each replica of the graph controller, with all graphs.
    pub(super) pss_kib: Vec<u64>,
    /// CPU time of each of them.
    pub(super) cpu_seconds: Vec<f64>,
    /// CPU time of the control plane.
    pub(super) control_plane_cpu_seconds: f64,
}

impl Figures {
    /// PSS of the largest replica.
    pub(super) fn largest_mib(&self) -> f64 {
        self.pss_kib.iter().max().copied().unwrap_or_default() as f64 / 1024.0
    }
}

/// Measures and prints the figures.
///
/// # Errors
/// The operator does not start, or a graph does not become Ready.
pub(super) async fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.operator.other().is_none(), "another operator has no replicas that share namespaces");
    ensure!(args.graphs > 0 && !args.replicas.contains(&0), "nothing to measure");
    let binaries = args.operator.build()?;
    let mut all = Vec::new();
    for count in &args.replicas {
        eprintln!("{} graphs by {count} replicas", args.graphs);
        all.push(measure(args, &binaries, *count).await?);
    }
    print!("{}", table(args, &all));
    args.json.write(&all)?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &Args, binaries: &Binaries, count: usize) -> Result<Figures> {
    let cluster = Cluster::start(Options { crds: binaries.crds()?, ..Options::with_nodes(NODES) }).await?;
    let server = cluster.server();
    let server = server.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let proxy = Delay::start(server, Duration::from_millis(args.delay)).await?;
    let replicas = Replicas { count, concurrency: args.concurrency, port: proxy.port };
    let operators = args.operator.clone().with_replicas(replicas).start(&cluster, binaries).await?;
    let processes = processes(&cluster, operators.iter().map(Running::name))?;
    let client = cluster.client()?;
    let progress = Progress::watch(&client).await?;
    let mut load = Load::new(client, args.components).without_pods();
    let names = load.prepare(args.graphs).await?;
    progress.rests().await?;
    let before = Usage::of(&processes)?;
    let seconds = load.settle(&names, &progress, (&cluster, &operators)).await?.as_secs_f64();
    let after = Usage::of(&processes)?;
    let cpu: BTreeMap<String, f64> = after.cpu_since(&before);
    let ours = operators.iter().map(Running::name).filter(|name| name.starts_with(CONTROLLER));
    let ours: Vec<&str> = ours.collect();
    let figures = Figures {
        replicas: count,
        seconds,
        pss_kib: ours.iter().map(|name| after.pss_kib(name)).collect(),
        cpu_seconds: ours.iter().filter_map(|name| cpu.get(*name).copied()).collect(),
        control_plane_cpu_seconds: CONTROL_PLANE.iter().filter_map(|name| cpu.get(*name)).sum(),
    };
    cluster.stop().await?;
    Ok(figures)
}

fn table(args: &Args, all: &[Figures]) -> String {
    let mut text = format!(
        "{} graphs of {} components at once; each answer {} ms later; {} object(s) at a time in each replica\n",
        args.graphs, args.components, args.delay, args.concurrency
    );
    text += "replicas      time   faster   memory of a replica   of one   control plane\n";
    let Some(first) = all.first() else { return text };
    for figures in all {
        text += &format!(
            "{:>8} {:>7.1} s {:>7.2}x {:>17.1} MiB {:>7.2}x {:>9.1} CPU\n",
            figures.replicas,
            figures.seconds,
            first.seconds / figures.seconds,
            figures.largest_mib(),
            figures.largest_mib() / first.largest_mib(),
            figures.control_plane_cpu_seconds / figures.seconds,
        );
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
    fn ratios_are_those_to_the_first_line() {
        let args = Alone::parse_from(["x"]).args;
        assert_eq!(args.replicas, [1, 2, 4]);
        let figures = |replicas, seconds, pss_kib: &[u64]| Figures {
            replicas,
            seconds,
            pss_kib: pss_kib.to_vec(),
            cpu_seconds: vec![],
            control_plane_cpu_seconds: 20.0,
        };
        let text = table(&args, &[figures(1, 40.0, &[20 * 1024]), figures(4, 10.0, &[7 * 1024, 8 * 1024])]);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "       1    40.0 s    1.00x              20.0 MiB    1.00x       0.5 CPU");
        assert_eq!(lines[1], "       4    10.0 s    4.00x               8.0 MiB    0.40x       2.0 CPU");
    }
}
