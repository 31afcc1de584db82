//! The lease-scope process.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use controller_kit::access::{RoleScope, role_yaml};
use controller_kit::process::{self, CommonArgs};

/// Marks the namespace of a namespace-restricted install as its own, so that cluster-wide operators leave it alone.
#[derive(Parser)]
#[command(name = "lease-scope", version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    config: lease_scope::Config,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the role that the process needs: with --namespace a Role, else a ClusterRole to be bound in a namespace
    Access,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        None => process::run(lease_scope::NAME, &args.common, |context| lease_scope::run(context, args.config)),
        Some(Command::Access) => print_access(args.common.namespace.as_deref()),
    }
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command")]
fn print_access(namespace: Option<&str>) -> ExitCode {
    let scope = namespace.map_or(RoleScope::Cluster, RoleScope::Namespace);
    match role_yaml(lease_scope::NAME, scope, lease_scope::access::ACCESS) {
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
