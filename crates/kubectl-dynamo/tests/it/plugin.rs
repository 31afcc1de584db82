//! The plugin, run as its users run it.

use std::path::Path;

use clap::Parser;
use kubectl_dynamo::{CommandOutcome, KubectlDynamoArgs, Style, run};

/// Runs a command with a kubeconfig in a namespace. Returns what it printed.
pub async fn command(kubeconfig: &Path, namespace: &str, args: &[&str]) -> anyhow::Result<(CommandOutcome, String)> {
    let kubeconfig = kubeconfig.to_string_lossy();
    let cluster = ["kubectl-dynamo", "--kubeconfig", &kubeconfig, "--namespace", namespace];
    let cli = KubectlDynamoArgs::try_parse_from(cluster.iter().chain(args))?;
    let mut out = Vec::new();
    let outcome = Box::pin(run(&cli, Style::default(), &mut out)).await?;
    Ok((outcome, String::from_utf8(out)?))
}
