//! `cargo xtask e2e`: the chart and the images on a real node, from `helm install` to `helm uninstall`.
//!
//! The command builds the images and starts itself again in namespaces of its own (network, mounts, processes), so that
//! node, pods and services disturb no other process and nothing of them is left when it ends, however it ends. In there
//! it starts the control plane of the tests, containerd, kubelet and kube-proxy, and goes through the checks.

mod checks;
mod harness;
mod machine;
mod node;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use harness::Harness;
use repository::{cargo, root};

/// Prefix and tag of the images' names. They cannot be pulled, so a running pod has the imported image.
const REPOSITORY: &str = "localhost/e2e";
const TAG: &str = "e2e";

/// The chart with the real images on a real node: containerd, kubelet, kube-proxy.
///
/// Needs root, and of Debian's packages containerd, runc, containernetworking-plugins, iproute2 and iptables; without
/// them it says so and does nothing.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask e2e", bin_name = "cargo xtask e2e")]
struct Args {
    /// Cargo profile of the images
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Fails where it would skip
    #[arg(long)]
    strict: bool,
    /// Checks to run, by the beginning of their names [default: all]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Directory for images and, after a failure, logs
    #[arg(long, value_name = "DIR", default_value = "target/e2e")]
    out: PathBuf,
    /// Set by the command when it starts itself in its own namespaces
    #[arg(long, hide = true)]
    inside: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            // Not by returning it from main, which adds a back trace when the environment enables those of panics.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command.
async fn run(args: &Args) -> Result<ExitCode> {
    let out = root().join(&args.out);
    if args.inside {
        return inside(args, &out).await;
    }
    let missing = machine::missing();
    if !missing.is_empty() {
        println!("skipped: no real node can run here, for there is {}", missing.join(", "));
        return Ok(if args.strict { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    // Behind the door there is no network, so everything is built here.
    node::build_tools()?;
    build_images(&out.join("images"), &args.profile)?;
    machine::again_in_own_namespaces().await
}

fn build_images(dir: &Path, profile: &str) -> Result<()> {
    let mut images = cargo("xtask");
    images.args(["images", "--for-node", "--repository", REPOSITORY, "--tag", TAG, "--profile", profile, "--out"]);
    ensure!(images.arg(dir).status().context("cannot run cargo")?.success(), "cargo xtask images failed");
    Ok(())
}

async fn inside(args: &Args, out: &Path) -> Result<ExitCode> {
    let harness = Harness::start(&out.join("images")).await?;
    let outcome = checks::run(&harness, &args.only).await;
    if outcome.is_err() {
        harness.keep_logs(&out.join("logs")).await;
        eprintln!("logs are in {}", out.join("logs").display());
    }
    harness.stop().await?;
    outcome.map(|()| ExitCode::SUCCESS)
}
