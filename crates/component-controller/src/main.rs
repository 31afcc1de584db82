//! The process of the component controller.

use clap::{Parser, Subcommand};
use component_controller::{NAME, access::ACCESS, run};
use controller_kit::{
    access::{RoleScope, role_yaml},
    process::{self, CommonArgs},
};
use std::process::ExitCode;

/// Turns each DynamoComponentDeployment into a Deployment and a Service.
#[derive(Parser)]
#[command(name = NAME, version)]
struct Cli {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the ClusterRole that the controller needs, or with --namespace the Role
    Access,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let Some(Command::Access) = cli.command else { return process::run(NAME, &cli.common, run) };
    let scope = cli.common.namespace.as_deref().map_or(RoleScope::Cluster, RoleScope::Namespace);
    match role_yaml(NAME, scope, ACCESS) {
        Ok(yaml) => print!("{yaml}"),
        Err(error) => {
            eprintln!("{NAME}: cannot write the role: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
