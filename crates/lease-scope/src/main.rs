//! The lease-scope process.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use controller_kit::{
    access::print_role,
    process::{self, CommonArgs},
};
use lease_scope::access;

/// Marks the namespace of a namespace-restricted install, so that cluster-wide operators skip it.
#[derive(Parser)]
#[command(name = "lease-scope", version)]
struct LeaseScopeArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    config: lease_scope::Config,
    #[command(subcommand)]
    command: Option<LeaseScopeCommand>,
}

#[derive(Subcommand)]
enum LeaseScopeCommand {
    /// Prints the role that the process needs: with --namespace a Role, else a ClusterRole to be bound in a namespace
    Access,
}

fn main() -> ExitCode {
    let args = LeaseScopeArgs::parse();
    match args.command {
        None => process::run_within(lease_scope::GRACE, lease_scope::NAME, &args.common, |context| {
            lease_scope::run(context, args.config)
        }),
        Some(LeaseScopeCommand::Access) => {
            let namespace = args.common.namespace.as_deref();
            print_role(lease_scope::NAME, namespace, access::ACCESS)
        }
    }
}
