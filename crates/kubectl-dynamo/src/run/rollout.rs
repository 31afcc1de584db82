//! `kubectl dynamo rollout`: restarts a graph, and waits until it is ready.

use std::io::Write;

use clap::Subcommand;
use k8s_openapi::jiff::Timestamp;

use super::live;
use crate::{apply, observe::Connection, output::Outcome};

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
    /// Wait until the graph is ready at its latest generation
    Status(live::RolloutArgs),
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
    }
}
