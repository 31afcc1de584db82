//! `cargo xtask tilt-up` and `tilt-down`: the operator in a cluster, rebuilt with each edit, and the steps that
//! tilt/Tiltfile calls.

mod bootstrap;
mod images;
mod machine;

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};
use repository::root;

/// First text of `tilt-up --help`.
pub(crate) const LONG_ABOUT: &str = "\
The operator in a cluster, rebuilt with each edit, by Tilt.

From nothing: install Docker, k3d, Tilt, helm and kubectl, then

    rustup target add x86_64-unknown-linux-musl
    k3d cluster create dynamo
    cargo xtask tilt-up

and open http://localhost:10350. Ctrl-C ends the loop. To remove what it applied:

    cargo xtask tilt-down

Three ways to get images into the cluster:

import      as above, into a k3d or kind cluster. No registry is needed.
registry    copy tilt/tilt-settings.example.yaml to tilt/tilt-settings.yaml and set `registry`; or set REGISTRY. Then

    cargo xtask tilt-up

arguments   all of them can be in tilt_config.json:

    cargo xtask tilt-up -- --registry=registry.example.com/me --namespace=dev

docs/tilt.md has all settings, the webhook sink, and what is broken on purpose.";

/// Arguments of `tilt-up`.
#[derive(Debug, clap::Args)]
pub(crate) struct TiltUpArgs {
    #[command(flatten)]
    tiltfile: TiltfileArgs,
    /// Run once, as a check: end with success when everything is healthy
    #[arg(long)]
    ci: bool,
}

/// Arguments for tilt/Tiltfile.
#[derive(Debug, clap::Args)]
pub(crate) struct TiltfileArgs {
    /// Import images into the k3d cluster of the current context, even where a registry is set
    #[arg(long)]
    k3d: bool,
    /// Build and roll out images in place of replacing binaries in running containers
    #[arg(long)]
    no_live_update: bool,
    /// Also apply graphs and pods that are broken on purpose
    #[arg(long)]
    triggers: bool,
    /// More arguments of tilt/Tiltfile
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl TiltfileArgs {
    fn words(&self) -> Vec<String> {
        let flags = [(self.k3d, "--k3d"), (self.no_live_update, "--live_update=false"), (self.triggers, "--triggers")];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.to_owned());
        flags.chain(self.arguments.iter().cloned()).collect()
    }
}

/// The steps that tilt/Tiltfile calls.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TiltStep {
    /// Compile all programs, and replace those that changed in target/tilt
    Build,
    /// Make the image of a program, and bring it to the cluster
    Image(images::ImageArgs),
    /// Make the Secret by which the cluster pulls, or replace it, from REGISTRY_USERNAME and REGISTRY_PASSWORD
    Secret(bootstrap::SecretArgs),
    /// Make what the development manifests refer to, where it is missing
    Bootstrap(bootstrap::Place),
}

/// Runs `tilt-up`.
pub(crate) fn up(args: &TiltUpArgs) -> Result<ExitCode> {
    let k3d = args.tiltfile.k3d.then_some(machine::K3D);
    machine::check(&[Some(machine::RUNTIME), k3d].into_iter().flatten().collect::<Vec<_>>())?;
    tilt(if args.ci { "ci" } else { "up" }, &args.tiltfile.words())
}

/// Runs `tilt-down`, with the arguments of `tilt-up`. Custom resource definitions and the operator's namespace stay.
pub(crate) fn down(args: &TiltfileArgs) -> Result<ExitCode> {
    machine::check(&[])?;
    tilt("down", &args.words())
}

/// Runs a step of the Tiltfile.
pub(crate) async fn step(step: &TiltStep) -> Result<()> {
    match step {
        TiltStep::Build => images::build(),
        TiltStep::Image(args) => images::image(args),
        TiltStep::Secret(args) => bootstrap::secret(args).await,
        TiltStep::Bootstrap(place) => bootstrap::bootstrap(place).await,
    }
}

fn folder() -> PathBuf {
    root().join("tilt")
}

fn tilt(command: &str, arguments: &[String]) -> Result<ExitCode> {
    let mut tilt = Command::new("tilt");
    tilt.arg(command).arg("--file").arg(folder().join("Tiltfile")).current_dir(folder());
    // No output.
    tilt.env("TILT_DISABLE_ANALYTICS", "1");
    if !arguments.is_empty() {
        tilt.arg("--").args(arguments);
    }
    let status = tilt.status().context("cannot run tilt")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{TiltUpArgs, TiltfileArgs};

    #[derive(clap::Parser)]
    enum Cli {
        Up(TiltUpArgs),
        Down(TiltfileArgs),
    }

    #[test]
    fn what_was_started_is_ended_in_the_same_words() {
        let said = |command: &str| {
            let flags = ["--k3d", "--no-live-update", "--triggers", "--", "--namespace=dev"];
            match Cli::try_parse_from(["", command].into_iter().chain(flags)).unwrap() {
                Cli::Up(TiltUpArgs { tiltfile, .. }) | Cli::Down(tiltfile) => tiltfile.words(),
            }
        };
        assert_eq!(said("up"), ["--k3d", "--live_update=false", "--triggers", "--namespace=dev"]);
        assert_eq!(said("down"), said("up"));
    }

    #[test]
    fn the_help_takes_a_newcomer_through_k3d() {
        let mut cli = crate::Cli::command();
        let up = cli.find_subcommand_mut("tilt-up").unwrap();
        let help = up.render_long_help().to_string();
        let commands: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("    ")).collect();
        assert!(
            commands.starts_with(&["rustup target add x86_64-unknown-linux-musl", "k3d cluster create dynamo"]),
            "{help}"
        );
        let ours: Vec<&str> = commands.iter().filter_map(|line| line.strip_prefix("cargo xtask ")).collect();
        assert_eq!(ours.len(), 4, "{help}");
        for words in ours {
            let words = words.split_whitespace();
            assert!(
                crate::Cli::command().try_get_matches_from(["cargo xtask"].into_iter().chain(words)).is_ok(),
                "{help}"
            );
        }
    }
}
