//! `cargo xtask crds`: makes the files anew that are made from the API types.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use repository::cargo;

#[derive(clap::Args)]
pub struct DefinitionsArgs {
    #[command(subcommand)]
    command: DefinitionsTask,
}

#[derive(Subcommand)]
enum DefinitionsTask {
    /// Write deploy/crds from the types in crates/api-types.
    Generate,
    /// Write crates/api-types/schemas/kubernetes.json from what the local control plane publishes, then deploy/crds.
    ///
    /// Needed when the version of Kubernetes in xtask/cluster/go.mod changes, or when a type of ours embeds another
    /// type of Kubernetes.
    Schemas,
}

/// Runs the command.
pub fn run(args: &DefinitionsArgs) -> Result<()> {
    match args.command {
        DefinitionsTask::Generate => generate(),
        DefinitionsTask::Schemas => {
            // The test that compares the two reads the document; with the variable for updates, it writes
            // instead.
            let test = ["--package", "api-types", "--test", "api_server", "kubernetes_definitions"];
            succeed(cargo("test").args(test).env("UPDATE_EXPECT", "1"))?;
            generate()
        }
    }
}

fn generate() -> Result<()> {
    let print = ["--quiet", "--package", "api-types", "--features", "cli", "--bin", "crds", "--", "print"];
    succeed(cargo("run").args(print).args(["--dir", "deploy/crds"]))
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot run cargo")?;
    if !status.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}
