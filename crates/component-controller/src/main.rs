//! The process of the component controller.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use component_controller::{NAME, access::ACCESS, run};
use controller_kit::{
    access::print_role,
    process::{self, CommonArgs},
};

/// In place of musl's own, which takes a third of the CPU time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Turns each DynamoComponentDeployment into a Deployment and a Service.
#[derive(Parser)]
#[command(name = NAME, version)]
struct ComponentControllerArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Option<ComponentControllerCommand>,
}

#[derive(Subcommand)]
enum ComponentControllerCommand {
    /// Print the ClusterRole that the controller needs, or with --namespace the Role
    Access,
}

fn main() -> ExitCode {
    let cli = ComponentControllerArgs::parse();
    match cli.command {
        None => process::run_elected(NAME, &cli.common, run),
        Some(ComponentControllerCommand::Access) => print_role(NAME, cli.common.namespace.as_deref(), ACCESS),
    }
}
