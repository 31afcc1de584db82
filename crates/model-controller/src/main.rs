//! The process of the model controller.

use clap::{Parser, Subcommand};
use controller_kit::{
    access::{RoleScope, role_yaml},
    process::{self, CommonArgs},
};
use model_controller::{NAME, access::ACCESS, run};
use std::process::ExitCode;

/// Keeps LoRA adapters loaded on the engines of their base model, and tells where models are served.
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
    let Some(Command::Access) = cli.command else { return process::run_elected(NAME, &cli.common, run) };
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
