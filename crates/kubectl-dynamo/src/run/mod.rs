//! The command line of the plugin.

mod bundle;
mod completion;
mod convert;
mod live;
mod logs;
mod preview;
mod rollout;
mod show;

use std::{
    io::{Read, Write},
    path::Path,
};

use anyhow::Context;
use clap::{Parser, Subcommand};
use status_view::Style;

pub use self::completion::{COMPLETER, complete};
use crate::{
    observe::ConnectionArgs,
    output::{CommandOutcome, OutputArgs},
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done, and what was examined is well
  1  refused, or what was examined is not well
  2  wrong usage, or the cluster cannot be read";

/// Graphs of the Dynamo operator: why one is not ready, what it consists of, and the operator's install.
#[derive(Debug, Parser)]
#[command(name = "kubectl-dynamo", bin_name = "kubectl dynamo", version, after_help = EXIT_CODES)]
pub struct KubectlDynamoArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(subcommand)]
    command: KubectlDynamoCommand,
}

#[derive(Debug, Subcommand)]
enum KubectlDynamoCommand {
    /// Show why an object is not ready, and what to do
    Why(show::WhyArgs),
    /// Show a graph and all that it consists of
    Tree(GraphOutputArgs),
    /// Show the state of graphs: components, pods, GPUs, rollout
    Status(live::StatusArgs),
    /// Show what the pods of a graph request, and use where metrics are served
    Top(GraphOutputArgs),
    /// Show the revisions of a graph's workers
    History(GraphOutputArgs),
    /// Print the logs of all pods of a graph or a component
    Logs(logs::LogsArgs),
    /// Set the replicas of components that have a scaling adapter
    Scale(rollout::ScaleArgs),
    /// Restart a graph; pause, step, undo and resume its rollout, or wait for it
    Rollout(rollout::ControlArgs),
    /// Check the operator's install
    Doctor(show::DoctorArgs),
    /// Write a support archive of a graph: objects, events, logs, without Secrets
    Bundle(bundle::BundleArgs),
    /// Convert manifests between v1alpha1 and v1beta1; needs no cluster
    Convert(convert::ConvertArgs),
    /// Show what an edit of a graph will do before it is applied: objects, pods, capacity, GPUs
    Plan(preview::PreviewArgs),
    /// Print a script that completes the words of kubectl-dynamo; needs no cluster
    Completion(completion::CompletionArgs),
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
pub async fn run(cli: &KubectlDynamoArgs, style: Style, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let connect = async || cli.connection.connect().await;
    match &cli.command {
        KubectlDynamoCommand::Why(args) => show::show_causes(args, &connect().await?, style, out).await,
        KubectlDynamoCommand::Tree(args) => show::show_tree(args, &connect().await?, out).await,
        KubectlDynamoCommand::Status(args) => live::run(args, &connect().await?, style, out).await,
        KubectlDynamoCommand::Top(args) => show::show_usage(args, &connect().await?, out).await,
        KubectlDynamoCommand::History(args) => show::show_history(args, &connect().await?, out).await,
        KubectlDynamoCommand::Logs(args) => logs::run(args, &connect().await?, out).await,
        KubectlDynamoCommand::Scale(args) => rollout::scale(args, &connect().await?, out).await,
        KubectlDynamoCommand::Rollout(args) => rollout::run(args, &connect().await?, out).await,
        KubectlDynamoCommand::Doctor(args) => show::show_checks(args, &connect().await?, style, out).await,
        KubectlDynamoCommand::Bundle(args) => bundle::run(args, &connect().await?, out).await,
        KubectlDynamoCommand::Convert(args) => convert::run(args, out),
        KubectlDynamoCommand::Completion(args) => completion::run(args, out),
        KubectlDynamoCommand::Plan(args) => preview::run(args, &connect().await?, style, out).await,
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
