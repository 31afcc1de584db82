//! The command line of the plugin.

mod bundle;
mod complete;
mod completion;
mod convert;
mod doctor;
mod history;
mod live;
mod logs;
mod preview;
mod rollout;
mod scale;
mod top;
mod tree;
mod why;

use std::{
    io::{Read, Write},
    path::Path,
};

use anyhow::Context;
use clap::{Parser, Subcommand};
use status_view::Style;

pub use self::complete::{COMPLETER, complete};
use crate::{
    observe::ConnectionArgs,
    output::{Outcome, OutputArgs},
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done, and what was asked about is well
  1  refused, or what was asked about is not well
  2  wrong usage, or the cluster cannot be read";

/// Graphs of the Dynamo operator: why one is not ready, what it consists of, and the operator's install.
#[derive(Debug, Parser)]
#[command(name = "kubectl-dynamo", bin_name = "kubectl dynamo", version, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show why an object is not ready, and what to do
    Why(why::Args),
    /// Show a graph and all that it consists of
    Tree(GraphOutputArgs),
    /// Show the state of graphs: components, pods, GPUs, rollout
    Status(live::Args),
    /// Show what the pods of a graph request, and use where metrics are served
    Top(GraphOutputArgs),
    /// Show the revisions of a graph's workers
    History(GraphOutputArgs),
    /// Print the logs of all pods of a graph or a component
    Logs(logs::Args),
    /// Set the replicas of components that have a scaling adapter
    Scale(scale::Args),
    /// Restart a graph; pause, step, undo and resume its rollout, or wait for it
    Rollout(rollout::Args),
    /// Check the operator's install
    Doctor(doctor::Args),
    /// Write a support archive of a graph: objects, events, logs, without Secrets
    Bundle(bundle::Args),
    /// Convert manifests between v1alpha1 and v1beta1; needs no cluster
    Convert(convert::Args),
    /// Show what an edit of a graph will do before it is applied: objects, pods, capacity, GPUs
    Plan(preview::Args),
    /// Print a script that completes the words of kubectl-dynamo; needs no cluster
    Completion(completion::Args),
}

/// Flags of commands that print data of one graph.
#[derive(Debug, clap::Args)]
pub struct GraphOutputArgs {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs a command; its output goes to `out`.
///
/// # Errors
/// The cluster or a file cannot be read, or the output cannot be written.
pub async fn run(cli: &Cli, style: Style, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let connect = async || cli.connection.connect().await;
    match &cli.command {
        Command::Why(args) => why::run(args, &connect().await?, style, out).await,
        Command::Tree(args) => tree::run(args, &connect().await?, out).await,
        Command::Status(args) => live::run(args, &connect().await?, style, out).await,
        Command::Top(args) => top::run(args, &connect().await?, out).await,
        Command::History(args) => history::run(args, &connect().await?, out).await,
        Command::Logs(args) => logs::run(args, &connect().await?, out).await,
        Command::Scale(args) => scale::run(args, &connect().await?, out).await,
        Command::Rollout(args) => rollout::run(args, &connect().await?, out).await,
        Command::Doctor(args) => doctor::run(args, &connect().await?, style, out).await,
        Command::Bundle(args) => bundle::run(args, &connect().await?, out).await,
        Command::Convert(args) => convert::run(args, out),
        Command::Completion(args) => completion::run(args, out),
        Command::Plan(args) => preview::run(args, &connect().await?, style, out).await,
    }
}

/// The text of a file, or of standard input for `-`.
fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
