//! `kubectl dynamo rollout` and `kubectl dynamo scale`.
//!
//! `rollout` restarts a graph, holds its rollout and takes it back, and waits until it is ready. `scale` sets the
//! replicas of a component that has a scaling adapter.

use std::{collections::BTreeSet, io::Write, str::FromStr};

use anyhow::bail;
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
    observe::{Connection, adapters, of_graph},
    output::CommandOutcome,
    rollout_control::{RolloutRequest, change},
};

/// Flags of `rollout`.
#[derive(Debug, clap::Args)]
pub struct ControlArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCommand {
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
pub async fn run(args: &ControlArgs, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        RolloutCommand::Status(args) => live::rollout(args, connection, out).await,
        RolloutCommand::Restart(args) => {
            let id = args.id.clone().unwrap_or_else(|| format!("{:.0}", Timestamp::now()));
            apply::restart(connection, &args.graph, &id).await?;
            writeln!(out, "restart {id} of graph {} requested", args.graph)?;
            Ok(CommandOutcome::Fine)
        }
        RolloutCommand::Pause(args) => control(&args.graph, RolloutRequest::Pause, connection, out).await,
        RolloutCommand::Resume(args) => control(&args.graph, RolloutRequest::Resume, connection, out).await,
        RolloutCommand::Undo(args) => {
            let revisions = revisions(connection, &args.graph).await?;
            control(&args.graph, RolloutRequest::Undo(revisions), connection, out).await
        }
        RolloutCommand::Step(args) => {
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
) -> anyhow::Result<CommandOutcome> {
    let graph = connection.require::<DynamoGraphDeployment>(name).await?;
    let change = match change(&graph, request) {
        Ok(change) => change,
        Err(why) => {
            writeln!(out, "error: {why}")?;
            return Ok(CommandOutcome::Unwell);
        }
    };
    apply::annotate(connection, name, change.key, change.value.as_deref()).await?;
    writeln!(out, "dynamographdeployment.nvidia.com/{name} {}", change.done)?;
    if let Some(note) = change.note {
        writeln!(out, "note: {note}")?;
    }
    Ok(CommandOutcome::Fine)
}

/// Live revisions of the workers of a graph.
async fn revisions(connection: &Connection, graph: &str) -> anyhow::Result<usize> {
    let components = connection.list::<DynamoComponentDeployment>(&of_graph(graph)).await;
    let components = components.or_error("DynamoComponentDeployments")?;
    let revisions: BTreeSet<_> = components.iter().filter_map(|one| one.labels().get(labels::WORKER_HASH)).collect();
    Ok(revisions.len())
}

/// Flags of `scale`.
#[derive(Debug, clap::Args)]
pub struct ScaleArgs {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    /// Components and their replicas
    #[arg(value_name = "COMPONENT=N", required = true)]
    counts: Vec<ReplicaCount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ReplicaCount {
    component: String,
    replicas: i32,
}

impl FromStr for ReplicaCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (component, replicas) = text.split_once('=').ok_or("write COMPONENT=N, such as decode=4")?;
        let replicas = replicas.parse().ok().filter(|replicas| *replicas >= 0);
        let replicas = replicas.ok_or_else(|| format!("{text}: replicas are a number from 0"))?;
        Ok(Self { component: component.to_owned(), replicas })
    }
}

/// Scales components. Without an adapter of each of them nothing is changed, and the output says what to edit.
///
/// # Errors
/// The graph cannot be read, has no such component, or the API server rejects the change.
pub async fn scale(args: &ScaleArgs, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let (graph, adapters) =
        tokio::join!(connection.require::<DynamoGraphDeployment>(&args.graph), adapters(connection, &args.graph));
    let (graph, adapters) = (graph?, adapters.or_error("DynamoGraphDeploymentScalingAdapters")?);
    let mut changes = Vec::new();
    let mut outcome = CommandOutcome::Fine;
    for ReplicaCount { component, replicas } in &args.counts {
        let Some(index) = graph.spec.components.iter().position(|one| one.name.eq_ignore_ascii_case(component)) else {
            let names: Vec<_> = graph.spec.components.iter().map(|one| one.name.as_str()).collect();
            bail!("graph {} has no component {component}; it has {}", args.graph, names.join(", "));
        };
        let name = graph.spec.components.get(index).map_or("", |one| one.name.as_str());
        match adapters.iter().find(|adapter| adapter.spec.dgd_ref.component_name == name) {
            Some(adapter) => changes.push((name, adapter.name_any(), adapter.spec.replicas, *replicas)),
            None => {
                outcome = CommandOutcome::Unwell;
                writeln!(
                    out,
                    "component {name} has no scaling adapter: set spec.components[{index}].replicas: {replicas} in the \
                     manifest of the graph, or give the component scalingAdapter: {{}}"
                )?;
            }
        }
    }
    if outcome == CommandOutcome::Unwell {
        return Ok(outcome);
    }
    for (component, adapter, before, replicas) in changes {
        if before == replicas {
            writeln!(out, "component {component} has {replicas} replicas already")?;
            continue;
        }
        apply::scale(connection, &adapter, replicas).await?;
        writeln!(out, "component {component} scaled from {before} to {replicas} replicas")?;
    }
    Ok(CommandOutcome::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_numbers_from_zero() {
        assert_eq!("decode=4".parse(), Ok(ReplicaCount { component: "decode".to_owned(), replicas: 4 }));
        for text in ["decode", "decode=", "decode=-1", "decode=x", "decode=99999999999"] {
            assert!(text.parse::<ReplicaCount>().is_err(), "{text}");
        }
    }
}
