//! The process of the model controller.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use controller_kit::{
    access::print_role,
    process::{self, CommonArgs},
};
use model_controller::{NAME, access::ACCESS, run};

/// Keeps LoRA adapters loaded on the engines of their base model, and reports where models are served.
#[derive(Parser)]
#[command(name = NAME, version)]
struct ModelControllerArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Option<ModelControllerCommand>,
}

#[derive(Subcommand)]
enum ModelControllerCommand {
    /// Print the ClusterRole that the controller needs, or with --namespace the Role
    Access,
}

fn main() -> ExitCode {
    let cli = ModelControllerArgs::parse();
    match cli.command {
        None => process::run_elected(NAME, &cli.common, run),
        Some(ModelControllerCommand::Access) => print_role(NAME, cli.common.namespace.as_deref(), ACCESS),
    }
}
