//! The graph controller's process.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use controller_kit::access::{RoleScope, role_yaml};
use controller_kit::process::{self, CommonArgs};

/// Turns DynamoGraphDeployments into DynamoComponentDeployments, and rolls out their changes.
#[derive(Parser)]
#[command(name = "graph-controller", version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the role that the controller needs: a ClusterRole, or with --namespace a Role
    Access,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        None => process::run_elected(graph_controller::NAME, &args.common, graph_controller::run),
        Some(Command::Access) => print_access(args.common.namespace.as_deref()),
    }
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command")]
fn print_access(namespace: Option<&str>) -> ExitCode {
    let scope = namespace.map_or(RoleScope::Cluster, RoleScope::Namespace);
    match role_yaml(graph_controller::NAME, scope, graph_controller::access::ACCESS) {
        Ok(yaml) => {
            print!("{yaml}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
