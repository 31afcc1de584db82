//! The webhook server's process.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use controller_kit::{
    access::{RoleScope, role_with},
    process::{self, CommonArgs, StartError},
    settings::{Dns, Webhook},
};
use webhook_server::{
    NAME, RunError, ServerArgs, access,
    configurations::{FailurePolicy, Install, configurations},
};

/// Answers the API server about objects of the Dynamo operator: admission, defaults, conversion between versions.
#[derive(Parser)]
#[command(name = "webhook-server", version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the role that the server needs: a ClusterRole, or with --namespace a Role
    Access {
        /// Prints a role that it needs beside that instead
        #[arg(long, value_enum)]
        of: Option<RightsPlace>,
    },
    /// Prints the webhook configurations; with --namespace for that namespace only
    Configurations(ConfigurationArgs),
}

/// Place in which further rights are needed.
#[derive(Clone, Copy, clap::ValueEnum)]
enum RightsPlace {
    /// In the operator's own namespace
    Own,
}

#[derive(clap::Args)]
struct ConfigurationArgs {
    /// Prefix of the names of the configurations
    #[arg(long, value_name = "NAME", default_value = "dynamo-operator")]
    name: String,
    /// Port of the Service
    #[arg(long, default_value_t = 443)]
    port: u16,
    /// Reaction of the API server to a missing answer
    #[arg(long, value_enum, default_value = "fail")]
    failure_policy: FailurePolicy,
    /// The same for pods that start from a checkpoint
    #[arg(long, value_enum, default_value = "ignore")]
    pod_failure_policy: FailurePolicy,
    /// Time limit of the API server for an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=30))]
    timeout_seconds: u8,
}

/// Reason for the end of the server.
#[derive(Debug, thiserror::Error)]
enum ServerFailure {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Run(#[from] RunError),
}

fn main() -> ExitCode {
    let args = Args::parse();
    match &args.command {
        None => process::run_within(args.server.drain().grace(), NAME, &args.common, |context| {
            let (common, server) = (args.common.clone(), args.server.clone());
            async move {
                let install = process::install_client(NAME, &common).await?;
                Ok::<(), ServerFailure>(webhook_server::run(context, server, install).await?)
            }
        }),
        Some(Command::Access { of }) => print(role(&args, *of)),
        Some(Command::Configurations(own)) => print(webhooks(&args, own)),
    }
}

fn role(args: &Args, of: Option<RightsPlace>) -> Result<String, Box<dyn std::error::Error>> {
    let served = args.common.namespace.as_deref();
    let role = match (of, served) {
        (None, None) => {
            let access = [access::CLUSTER, access::SERVED].concat();
            let named = [access::CLUSTER_NAMED, access::SERVED_NAMED].concat();
            serde_saphyr::to_string(&role_with(NAME, RoleScope::Cluster, &access, &named))
        }
        (None, Some(namespace)) => {
            let role = role_with(NAME, RoleScope::Namespace(namespace), access::SERVED, access::SERVED_NAMED);
            serde_saphyr::to_string(&role)
        }
        (Some(RightsPlace::Own), _) => {
            let own = args.server.operator_namespace.as_deref().ok_or("set --operator-namespace")?;
            let of_definitions = if served.is_none() { access::OWN_CONVERTING } else { &[] };
            let named = [access::OWN_NAMED, of_definitions].concat();
            let role = role_with(&format!("{NAME}-own"), RoleScope::Namespace(own), &[], &named);
            serde_saphyr::to_string(&role)
        }
    };
    Ok(role?)
}

fn webhooks(args: &Args, own: &ConfigurationArgs) -> Result<String, Box<dyn std::error::Error>> {
    let install = Install {
        name: own.name.clone(),
        host: args.server.host(&Webhook::default(), &Dns::default())?,
        port: own.port,
        namespace: args.common.namespace.clone(),
        failure_policy: own.failure_policy,
        pod_failure_policy: own.pod_failure_policy,
        timeout_seconds: own.timeout_seconds,
    };
    let documents = configurations(&install).iter().map(serde_saphyr::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(documents.join("---\n"))
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command")]
fn print(text: Result<String, Box<dyn std::error::Error>>) -> ExitCode {
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("webhook-server: {error}");
            ExitCode::from(2)
        }
    }
}
