//! `cargo xtask bench growth`: what a graph costs with few graphs in the cluster, and with many.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Result, ensure};
use local_operator::{OperatorArgs, Running};
use serde::{Deserialize, Serialize};
use test_cluster::{Cluster, Options};

use super::{CONTROL_PLANE, JsonArgs, budgets::Budget, load::Load, nodes, processes, progress::Progress, usage::Usage};

/// Limit of the cost of a graph with the most graphs, as a multiple of that with the fewest.
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

/// Cost of a graph of one step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Graphs in the cluster at the end of the step.
    pub(super) graphs: usize,
    /// Seconds for each graph, from the first request until all were Ready.
    pub(super) seconds: f64,
    /// CPU seconds of the operator for each graph.
    pub(super) operator_cpu_seconds: f64,
    /// CPU seconds of the control plane for each graph.
    pub(super) control_plane_cpu_seconds: f64,
    /// PSS of the operator's processes above that without graphs, for each graph in the cluster.
    pub(super) pss_kib: f64,
    /// PSS of the operator's processes.
    pub(super) total_pss_kib: u64,
}

/// Measures and prints the figures.
///
/// # Errors
/// The operator does not start, or a graph does not become Ready.
pub(super) async fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.namespaces > 0, "--namespaces must be more than 0");
    ensure!(args.steps.first().is_some_and(|first| *first > 0), "--steps must be more than 0");
    ensure!(args.steps.is_sorted_by(|one, next| one < next), "--steps must ascend");
    let binaries = args.operator.build()?;
    let nodes = nodes(args.steps.iter().max().copied().unwrap_or_default(), args.components)?;
    let cluster = Cluster::start(Options { crds: binaries.crds()?, ..Options::with_nodes(nodes) }).await?;
    let operators = args.operator.start(&cluster, &binaries).await?;
    let processes = processes(&cluster, operators.iter().map(Running::name))?;
    let progress = Progress::watch(&cluster.client()?).await?;
    let mut load = Load::new(cluster.client()?, args.components).sharing(args.namespaces);
    let pss = |usage: &Usage| operators.iter().map(|operator| usage.pss_kib(operator.name())).sum::<u64>();
    progress.rests().await?;
    let empty = pss(&Usage::of(&processes)?);
    let (mut all, mut present) = (Vec::new(), 0);
    for step in &args.steps {
        eprintln!("{step} graphs");
        let graphs = load.prepare(step - present).await?;
        present = *step;
        progress.rests().await?;
        let before = Usage::of(&processes)?;
        let seconds = load.settle(&graphs, &progress, (&cluster, &operators)).await?.as_secs_f64();
        let after = Usage::of(&processes)?;
        let cpu: BTreeMap<String, f64> = after.cpu_since(&before);
        let each = |sum: f64| sum / graphs.len() as f64;
        all.push(Figures {
            graphs: *step,
            seconds: each(seconds),
            operator_cpu_seconds: each(operators.iter().filter_map(|operator| cpu.get(operator.name())).sum()),
            control_plane_cpu_seconds: each(CONTROL_PLANE.iter().filter_map(|name| cpu.get(*name)).sum()),
            pss_kib: pss(&after).saturating_sub(empty) as f64 / *step as f64,
            total_pss_kib: pss(&after),
        });
    }
    cluster.stop().await?;
    print!("{}", table(args, &all));
    args.json.write(&all)?;
    Ok(ExitCode::SUCCESS)
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
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return text };
    let ratios = [
        ("time", last.seconds / first.seconds),
        ("CPU of the operator", last.operator_cpu_seconds / first.operator_cpu_seconds),
        ("CPU of the control plane", last.control_plane_cpu_seconds / first.control_plane_cpu_seconds),
        ("memory", last.pss_kib / first.pss_kib),
    ];
    for (what, measured) in ratios {
        let budget = Budget { what: format!("{what}, last by first"), measured, limit: BUDGET, unit: "" };
        text += &format!("{}: {budget}\n", budget.what);
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
        };
        let text = table(&args, &[figures(500, 0.15, 100.0), figures(5000, 0.3, 110.0)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[2], "     500   150.0 ms           10.0 ms           200.0 ms  100.0 KiB    40 MiB");
        assert_eq!(lines[4], "time, last by first: MISSED: 2 of 1.15");
        assert_eq!(lines[7], "memory, last by first: holds: 1.100 of 1.15");
    }
}
