//! The graph controller's process.

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use controller_kit::access::print_role;
use controller_kit::process::{self, CommonArgs};
use graph_controller::access;

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
    Access {
        /// Prints the role of pods that the controller binds to their account instead
        #[arg(long, value_enum)]
        of: Option<Pods>,
    },
}

/// Pods with an account of their own.
#[derive(Clone, Copy, ValueEnum)]
enum Pods {
    /// Planners
    Planner,
    /// Endpoint pickers
    Epp,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        None => process::run_elected(graph_controller::NAME, &args.common, graph_controller::run),
        Some(Command::Access { of }) => print_access(of, args.common.namespace.as_deref()),
    }
}

fn print_access(of: Option<Pods>, namespace: Option<&str>) -> ExitCode {
    let (name, access) = match of {
        None => (graph_controller::NAME, access::ACCESS),
        Some(Pods::Planner) => ("dynamo-operator-planner", access::PLANNER),
        Some(Pods::Epp) => ("dynamo-operator-epp", access::PICKER),
    };
    print_role(name, namespace, access)
}
