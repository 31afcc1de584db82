//! The webhook server's process.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use controller_kit::{
    access::print_role,
    process::{self, CommonArgs},
    settings::{Dns, Webhook},
};
use webhook_server::{
    NAME, ServerArgs, access,
    configurations::{ConfigurationArgs, InstallSettings, configurations},
};

/// Answers the API server about objects of the Dynamo operator: admission, defaults, conversion between versions.
#[derive(Parser)]
#[command(name = "webhook-server", version)]
struct WebhookServerArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    server: ServerArgs,
    #[command(subcommand)]
    command: Option<WebhookServerCommand>,
}

#[derive(Subcommand)]
enum WebhookServerCommand {
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

fn main() -> ExitCode {
    let args = WebhookServerArgs::parse();
    match &args.command {
        None => process::run_within(args.server.grace(), NAME, &args.common, |context| {
            let (common, server) = (args.common.clone(), args.server.clone());
            async move {
                let install = process::install_client(NAME, &common).await?;
                Ok::<(), Box<dyn std::error::Error>>(webhook_server::run(context, server, install).await?)
            }
        }),
        Some(WebhookServerCommand::Access { of }) => print_access(&args, *of),
        Some(WebhookServerCommand::Configurations(own)) => print(webhooks(&args, own)),
    }
}

fn print_access(args: &WebhookServerArgs, of: Option<RightsPlace>) -> ExitCode {
    let served = args.common.namespace.as_deref();
    match (of, served) {
        (None, None) => print_role(NAME, None, &[access::CLUSTER, access::SERVED].concat()),
        (None, Some(_)) => print_role(NAME, served, access::SERVED),
        (Some(RightsPlace::Own), _) => {
            let own = args.server.operator_namespace.as_deref();
            let Some(own) = own else { return print(Err("set --operator-namespace".into())) };
            let of_definitions = if served.is_none() { access::OWN_CONVERTING } else { &[] };
            print_role(&format!("{NAME}-own"), Some(own), &[access::OWN, of_definitions].concat())
        }
    }
}

fn webhooks(args: &WebhookServerArgs, own: &ConfigurationArgs) -> Result<String, Box<dyn std::error::Error>> {
    let host = args.server.host(&Webhook::default(), &Dns::default())?;
    let install = InstallSettings { args: own.clone(), host, namespace: args.common.namespace.clone() };
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
