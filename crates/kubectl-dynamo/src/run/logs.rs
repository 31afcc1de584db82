//! `kubectl dynamo logs`: the logs of all pods of a graph or a component.

use std::io::Write;

use anyhow::bail;
use api_types::{labels, v1beta1::MAIN_CONTAINER};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::LogParams};
use status_view::pods::has_ended;

use crate::{
    observe::{Connection, family, follow, log},
    output::CommandOutcome,
};

/// Most pods whose logs are read at once.
const MOST: usize = 50;

/// Flags of `logs`.
#[derive(Debug, clap::Args)]
pub struct LogsArgs {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    /// A component of it [default: all]
    #[arg(value_name = "COMPONENT")]
    component: Option<String>,
    /// Container of the pods
    #[arg(short, long, default_value = MAIN_CONTAINER, value_name = "NAME")]
    container: String,
    /// Go on with what is written from now on, of the pods that there are
    #[arg(short, long, conflicts_with = "previous")]
    follow: bool,
    /// Number of lines from the end of each log [default: all]
    #[arg(long, value_name = "LINES")]
    tail: Option<i64>,
    /// Only lines of the last seconds
    #[arg(long, value_name = "SECONDS")]
    since: Option<i64>,
    /// The run before the last restart of the container
    #[arg(short, long)]
    previous: bool,
}

/// Prints each line after the name of its pod. It is not well if a log cannot be read.
///
/// # Errors
/// The graph or its pods cannot be read, or there are none.
pub async fn run(args: &LogsArgs, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let family = family(connection, &args.graph).await?;
    let known = |name: &str| family.graph.spec.components.iter().any(|one| one.name.eq_ignore_ascii_case(name));
    if let Some(component) = args.component.as_deref().filter(|name| !known(name)) {
        let names: Vec<_> = family.graph.spec.components.iter().map(|one| one.name.as_str()).collect();
        bail!("graph {} has no component {component}; it has {}", args.graph, names.join(", "));
    }
    let is_named = |pod: &&Pod| {
        let component = pod.labels().get(labels::COMPONENT);
        args.component.as_ref().is_none_or(|name| component.is_some_and(|label| label.eq_ignore_ascii_case(name)))
    };
    let pods = family.pods.iter().filter(is_named).filter(|pod| !args.follow || !has_ended(pod));
    let pods: Vec<_> = pods.map(ResourceExt::name_any).collect();
    if pods.is_empty() {
        bail!("there are no pods; `kubectl dynamo why {}` shows the cause", args.graph);
    }
    if pods.len() > MOST {
        bail!("there are {} pods, and {MOST} logs are read at once; name a component", pods.len());
    }
    let params = LogParams {
        container: Some(args.container.clone()),
        follow: args.follow,
        previous: args.previous,
        tail_lines: args.tail,
        since_seconds: args.since,
        ..LogParams::default()
    };
    match args.follow {
        true => followed(connection, &pods, &params, out).await,
        false => once(connection, &pods, &params, out).await,
    }
}

async fn once(
    connection: &Connection,
    pods: &[String],
    params: &LogParams,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let mut outcome = CommandOutcome::Fine;
    for pod in pods {
        match log(connection, pod, params).await {
            Ok(text) => {
                for line in text.lines() {
                    writeln!(out, "[{pod}] {line}")?;
                }
            }
            Err(why) => {
                eprintln!("[{pod}] no log: {why}");
                outcome = CommandOutcome::Unwell;
            }
        }
    }
    Ok(outcome)
}

async fn followed(
    connection: &Connection,
    pods: &[String],
    params: &LogParams,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let mut lines = follow(connection, pods, params).await;
    let mut outcome = CommandOutcome::Fine;
    while let Some((pod, line)) = lines.next().await {
        match line {
            Ok(line) => writeln!(out, "[{pod}] {line}")?,
            Err(why) => {
                eprintln!("[{pod}] no log: {why}");
                outcome = CommandOutcome::Unwell;
            }
        }
        out.flush()?;
    }
    Ok(outcome)
}
