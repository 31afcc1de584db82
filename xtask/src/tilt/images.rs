//! Binaries and images of the loop.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use crate::images::{self, Arch};
use crate::operators::workspace_root;

/// Puts the image of a program into a k3d cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// Context of the cluster: k3d-<name>
    #[arg(long)]
    context: String,
    /// What the name of the image begins with
    #[arg(long)]
    repository: String,
    program: String,
}

/// Builds the image of a program with podman or nerdctl.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// podman or nerdctl
    #[arg(long)]
    runtime: String,
    program: String,
}

/// Where the Tiltfile looks for binaries.
fn binaries() -> PathBuf {
    workspace_root().join("target/tilt")
}

/// Compiles all programs in one go, and replaces those whose content changed: the others' images are not built again.
pub(super) fn build() -> Result<()> {
    fs::create_dir_all(binaries()).context("cannot make target/tilt")?;
    for (name, built) in images::build_all(Arch::of_this_machine(), "dev")? {
        let (target, new) = (binaries().join(name), fs::read(&built)?);
        if fs::read(&target).is_ok_and(|old| old == new) {
            continue;
        }
        // A reader sees the old file or the new one, never half of one.
        let part = target.with_extension("new");
        fs::copy(&built, &part).with_context(|| format!("cannot write {}", part.display()))?;
        fs::rename(&part, &target).with_context(|| format!("cannot write {}", target.display()))?;
        println!("{name} changed");
    }
    Ok(())
}

pub(super) fn import(args: &ImportArgs) -> Result<()> {
    let Some(cluster) = args.context.strip_prefix("k3d-") else {
        bail!("{} is no context of a k3d cluster", args.context)
    };
    // A tag of its own for each content: the cluster never asks a registry for it.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let reference = format!("{}/{}:tilt-{}", args.repository, args.program, since.as_millis());
    let archive = binaries().join(format!("{}.tar", args.program));
    images::pack(&args.program, &binaries().join(&args.program), &reference, Arch::of_this_machine(), &archive)?;
    run(Command::new("k3d").args(["image", "import", "--cluster", cluster]).arg(&archive))?;
    fs::write(binaries().join(format!("{}.ref", args.program)), &reference)?;
    Ok(())
}

pub(super) fn image(args: &ImageArgs) -> Result<()> {
    let expected = env::var("EXPECTED_REF").context("EXPECTED_REF is not set; this step is for tilt/Tiltfile")?;
    ensure!(matches!(args.runtime.as_str(), "podman" | "nerdctl"), "unknown runtime {}", args.runtime);
    let archive = binaries().join(format!("{}.tar", args.program));
    images::pack(&args.program, &binaries().join(&args.program), &expected, Arch::of_this_machine(), &archive)?;
    load(&args.runtime, &archive)?;
    run(Command::new(&args.runtime).args(["push", &expected]))
}

fn load(runtime: &str, archive: &Path) -> Result<()> {
    run(Command::new(runtime).args(["load", "--input"]).arg(archive))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(status.success(), "{} failed", command.get_program().display());
    Ok(())
}
