//! `kubectl dynamo rollout`: restarts a graph, holds its rollout and takes it back, and waits until it is ready.

use std::{collections::BTreeSet, io::Write};

use api_types::{
    labels,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use clap::Subcommand;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::live;
use crate::{
    apply,
    observe::{Connection, of_graph},
    output::Outcome,
    rollout_control::{RolloutRequest, change},
};

/// Flags of `rollout`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the pods of all components anew, by spec.restart of the graph
    Restart(RestartArgs),
    /// Keep workers of the revisions that they are of
    Pause(GraphArgs),
    /// End a pause or an undo: workers become of the revision that the spec says
    Resume(GraphArgs),
    /// Return the workers to the older revision, in the middle of a rollout
    Undo(GraphArgs),
    /// Hold the new revision at a part of the workers of each component
    Step(StepArgs),
    /// Wait until the graph is ready at its latest generation
    Status(live::RolloutArgs),
}

#[derive(Debug, clap::Args)]
struct GraphArgs {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
}

#[derive(Debug, clap::Args)]
struct StepArgs {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    /// A percentage such as 25%, a count such as 1, or none to let the rollout go on
    #[arg(value_name = "STEP")]
    step: String,
}

#[derive(Debug, clap::Args)]
struct RestartArgs {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    /// Identifier of the restart; another one than the last [default: the time]
    #[arg(long)]
    id: Option<String>,
}

/// Carries out the command.
///
/// # Errors
/// The graph cannot be read, or the API server rejects the change.
pub async fn run(args: &Args, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Status(args) => live::rollout(args, connection, out).await,
        Command::Restart(args) => {
            let id = args.id.clone().unwrap_or_else(|| format!("{:.0}", Timestamp::now()));
            apply::restart(connection, &args.graph, &id).await?;
            writeln!(out, "restart {id} of graph {} requested", args.graph)?;
            Ok(Outcome::Fine)
        }
        Command::Pause(args) => control(&args.graph, RolloutRequest::Pause, connection, out).await,
        Command::Resume(args) => control(&args.graph, RolloutRequest::Resume, connection, out).await,
        Command::Undo(args) => {
            let revisions = revisions(connection, &args.graph).await?;
            control(&args.graph, RolloutRequest::Undo(revisions), connection, out).await
        }
        Command::Step(args) => {
            let step = Some(args.step.as_str()).filter(|step| *step != "none");
            control(&args.graph, RolloutRequest::Step(step), connection, out).await
        }
    }
}

/// Sets or removes one annotation of a graph.
async fn control(
    name: &str,
    request: RolloutRequest<'_>,
    connection: &Connection,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let graph = connection.require::<DynamoGraphDeployment>(name).await?;
    let change = match change(&graph, request) {
        Ok(change) => change,
        Err(why) => {
            writeln!(out, "error: {why}")?;
            return Ok(Outcome::Unwell);
        }
    };
    apply::annotate(connection, name, change.key, change.value.as_deref()).await?;
    writeln!(out, "dynamographdeployment.nvidia.com/{name} {}", change.done)?;
    if let Some(note) = change.note {
        writeln!(out, "note: {note}")?;
    }
    Ok(Outcome::Fine)
}

/// Live revisions of the workers of a graph.
async fn revisions(connection: &Connection, graph: &str) -> anyhow::Result<usize> {
    let components = connection.list::<DynamoComponentDeployment>(&of_graph(graph)).await;
    let components = components.or_error("DynamoComponentDeployments")?;
    let revisions: BTreeSet<_> = components.iter().filter_map(|one| one.labels().get(labels::WORKER_HASH)).collect();
    Ok(revisions.len())
}
