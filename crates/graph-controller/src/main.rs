//! The graph controller's process.

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use controller_kit::{
    access::{print_pod_role, print_role},
    process::{self, CommonArgs},
    settings::{DISCOVERY_ROLE, PICKER_ROLE, PLANNER_ROLE, PROFILING_ROLE},
};
use graph_controller::{access, apply_overrides, relay::run::RelayArgs, request::settings::RequestArgs};

/// In place of musl's own, which takes a third of the CPU time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Turns DynamoGraphDeployments into DynamoComponentDeployments, and rolls out their changes.
#[derive(Parser)]
#[command(name = "graph-controller", version)]
struct GraphControllerArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    requests: RequestArgs,
    #[command(subcommand)]
    command: Option<GraphControllerCommand>,
}

#[derive(Subcommand)]
enum GraphControllerCommand {
    /// Runs beside a profiler and copies its output into a ConfigMap, until the profiler has ended
    RelayOutput {
        #[command(flatten)]
        relay: RelayArgs,
    },
    /// Prints the role that the controller needs: a ClusterRole, or with --namespace a Role
    Access {
        /// Prints the role that the controller binds to the account of pods instead
        #[arg(long, value_enum)]
        of: Option<AccountPods>,
    },
}

/// Pods with an account of their own.
#[derive(Clone, Copy, ValueEnum)]
enum AccountPods {
    /// Pods of a graph that discover each other through the Kubernetes API
    Discovery,
    /// Planners
    Planner,
    /// Endpoint pickers
    Epp,
    /// Jobs that profile
    Profiling,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    if apply_overrides::is_called(words.next().as_ref()) {
        return apply_overrides::main(words);
    }
    let args = GraphControllerArgs::parse();
    match args.command {
        None => {
            let start = |context| graph_controller::run(context, args.requests);
            process::run_elected(graph_controller::NAME, &args.common, start)
        }
        Some(GraphControllerCommand::RelayOutput { relay }) => {
            process::run_tool("dynamo-output-relay", &args.common, |client| {
                graph_controller::relay::run::run(client, relay)
            })
        }
        Some(GraphControllerCommand::Access { of }) => print_access(of, args.common.namespace.as_deref()),
    }
}

fn print_access(of: Option<AccountPods>, namespace: Option<&str>) -> ExitCode {
    match of {
        None => {
            let binds = if namespace.is_none() { access::BINDS } else { access::BINDS_IN_NAMESPACE };
            print_role(graph_controller::NAME, namespace, &[access::rights().as_slice(), binds].concat())
        }
        Some(AccountPods::Discovery) => print_pod_role(DISCOVERY_ROLE, namespace, access::DISCOVERY),
        Some(AccountPods::Planner) => print_pod_role(PLANNER_ROLE, namespace, access::PLANNER),
        Some(AccountPods::Epp) => print_pod_role(PICKER_ROLE, namespace, access::PICKER),
        Some(AccountPods::Profiling) => print_pod_role(PROFILING_ROLE, namespace, access::PROFILER),
    }
}
