//! `kubectl dynamo status` and `rollout status`: the state of graphs, once or until it ends.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use k8s_openapi::jiff::Timestamp;
use status_view::{State, Style, line, screen};

use crate::{
    observe::{Connection, family, graphs},
    output::{CommandOutcome, OutputArgs, OutputFormat, write_data},
    view::{list_table, summary},
};

/// Time between two reads of a live screen.
const PACE: Duration = Duration::from_secs(2);
/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Flags of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// A graph; all of the namespace if none is named
    #[arg(value_name = "NAME")]
    graph: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "graph")]
    all_namespaces: bool,
    /// Show it again whenever it changes, until interrupted
    #[arg(short, long, requires = "graph", conflicts_with = "output")]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints the state of one graph or a list. One graph is well if it is ready.
///
/// # Errors
/// A graph or its children cannot be read.
pub async fn run(
    args: &StatusArgs,
    connection: &Connection,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let format = args.output.output;
    let Some(name) = &args.graph else { return list(args, connection, out).await };
    if args.watch {
        return watch(connection, name, style, out, |_| None).await;
    }
    let state = family(connection, name).await?.state();
    let text = screen(&state, format == OutputFormat::Wide, style);
    write_data(format, &state, [kubectl_name(&state.name)], &text, out)?;
    Ok(if state.ready { CommandOutcome::Fine } else { CommandOutcome::Unwell })
}

async fn list(args: &StatusArgs, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let format = args.output.output;
    let all: Vec<_> = graphs(connection, args.all_namespaces).await?.iter().map(summary).collect();
    let text = list_table(&all, args.all_namespaces, format == OutputFormat::Wide, Timestamp::now());
    write_data(format, &all, all.iter().map(|one| kubectl_name(&one.name)), &text, out)?;
    Ok(CommandOutcome::Fine)
}

/// A graph as kubectl names it.
fn kubectl_name(name: &str) -> String {
    format!("dynamographdeployment.nvidia.com/{name}")
}

/// Flags of `rollout status`.
#[derive(Debug, clap::Args)]
pub struct RolloutArgs {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    /// Longest time to wait, in seconds; 0 prints the state and does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

/// Waits until a graph is ready at its latest generation. It is not well if the graph stalls or the time is over.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn rollout(
    args: &RolloutArgs,
    connection: &Connection,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let end = Instant::now() + Duration::from_secs(args.timeout);
    let ended = |state: &State| match state {
        State { ready: true, rollout: false, .. } => Some(CommandOutcome::Fine),
        State { stalled: true, .. } => Some(CommandOutcome::Unwell),
        _ => (Instant::now() >= end).then_some(CommandOutcome::Unwell),
    };
    watch(connection, &args.graph, Style::default(), out, ended).await
}

/// Prints the state whenever it changes, until it has ended.
async fn watch(
    connection: &Connection,
    name: &str,
    style: Style,
    out: &mut dyn Write,
    ended: impl Fn(&State) -> Option<CommandOutcome>,
) -> anyhow::Result<CommandOutcome> {
    let mut shown = None;
    let mut pace = tokio::time::interval(PACE);
    loop {
        pace.tick().await;
        let state = family(connection, name).await?.state();
        let text = match style.terminal {
            true => format!("{CLEAR}{}", screen(&state, true, style)),
            false => line(&state) + "\n",
        };
        if shown.as_ref() != Some(&text) {
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
        if let Some(outcome) = ended(&state) {
            return Ok(outcome);
        }
        shown = Some(text);
    }
}
