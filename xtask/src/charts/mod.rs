//! `cargo xtask charts`: what in deploy/helm is made from the programs themselves, and from the values of the charts.

mod crds_role;
mod installer_role;
mod pod_roles;
#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use repository::{
    cargo,
    chart::{definitions, platform, programs},
    root, target,
};
use serde_json::Value;

/// Generated parts of deploy/helm: the programs' roles and webhook configurations from the programs, schemas and README
/// from each `values.yaml` and its comments
#[derive(Debug, clap::Args)]
pub(crate) struct ChartsArgs {
    #[command(subcommand)]
    command: ChartsTask,
    /// Only what is made from values, for which nothing has to be built
    #[arg(long, global = true)]
    values: bool,
}

#[derive(Debug, Subcommand)]
enum ChartsTask {
    /// Write the files anew
    Generate,
    /// Fail if a file is not up to date
    Check,
}

/// A file of the chart: the program that prints it, the arguments, and its name.
type GeneratedPart = (&'static str, &'static [&'static str], &'static str);

/// Templates replace the namespace in printed objects; the program needs one.
const OWN: &str = "--operator-namespace=dynamo-system";
const SERVICE: &str = "--service-name=dynamo-operator-webhook-service";
const FILES: [GeneratedPart; 8] = [
    ("graph-controller", &["access"], "role.yaml"),
    ("component-controller", &["access"], "role.yaml"),
    ("model-controller", &["access"], "role.yaml"),
    ("lease-scope", &["access"], "role.yaml"),
    ("webhook-server", &[OWN, "access"], "role.yaml"),
    ("webhook-server", &[OWN, "--namespace=served", "access"], "served-role.yaml"),
    ("webhook-server", &[OWN, "access", "--of=own"], "own-role.yaml"),
    ("webhook-server", &[OWN, SERVICE, "configurations"], "configurations.yaml"),
];

/// Runs the command.
pub(crate) fn run(args: &ChartsArgs) -> Result<()> {
    let mut desired = values::files(&platform())?;
    if !args.values {
        build()?;
        desired.extend(of_programs()?);
    }
    match args.command {
        ChartsTask::Check if args.values => compare(desired),
        ChartsTask::Check => check(),
        ChartsTask::Generate => generate(desired),
    }
}

fn build() -> Result<()> {
    let mut build = cargo("build");
    build.arg("--quiet");
    build.args(FILES.iter().flat_map(|(program, ..)| ["--package", *program]));
    ensure!(build.status().context("cannot run cargo")?.success(), "cargo build failed");
    Ok(())
}

/// Files that are made from programs, with what should be in them.
fn of_programs() -> Result<Vec<(PathBuf, String)>> {
    let mut desired = Vec::new();
    for (program, args, name) in FILES {
        let text = printed(program, args)?;
        // Templates read one document.
        let text = if text.contains("\n---\n") { as_list(&text) } else { text };
        desired.push((programs().join(program).join("files").join(name), text));
    }
    desired.push((programs().join("crds/files/role.yaml"), crds_role::role(&root().join("deploy/crds"))?));
    let installer = installer_role::role()?;
    desired.push((programs().join("crds/files/namespace-installer.yaml"), installer.clone()));
    desired.push((definitions().join("templates/namespace-installer.yaml"), installer));
    Ok(desired)
}

fn generate(desired: Vec<(PathBuf, String)>) -> Result<()> {
    for (path, desired) in desired {
        if fs::read_to_string(&path).is_ok_and(|found| found == desired) {
            continue;
        }
        fs::write(&path, desired).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {}", path.strip_prefix(root()).unwrap_or(&path).display());
    }
    Ok(())
}

/// Fails if a file is not what it is made from; the programs are built already.
pub(crate) fn check() -> Result<()> {
    let mut desired = values::files(&platform())?;
    desired.extend(of_programs()?);
    compare(desired).and_then(|()| pod_roles::check())
}

fn compare(desired: Vec<(PathBuf, String)>) -> Result<()> {
    let is_stale = |(path, desired): &(PathBuf, String)| fs::read_to_string(path).unwrap_or_default() != *desired;
    let stale = desired.into_iter().filter(is_stale).map(|(path, _)| path.display().to_string()).collect::<Vec<_>>();
    ensure!(stale.is_empty(), "not what they are made from; run `cargo xtask charts generate`:\n{}", stale.join("\n"));
    Ok(())
}

/// Returns the output of a program that is built already.
fn printed(program: &str, args: &[&str]) -> Result<String> {
    let what = || format!("{program} {}", args.join(" "));
    let output = Command::new(target().join(program)).args(args).output();
    let output = output.with_context(|| format!("cannot run {}", what()))?;
    ensure!(output.status.success(), "{} failed: {}", what(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).with_context(|| format!("{} printed no text", what()))
}

/// The role that a program prints.
fn role(program: &str, args: &[&str]) -> Result<Value> {
    serde_saphyr::from_str(&printed(program, args)?).with_context(|| format!("{program} printed no YAML"))
}

/// The texts in a list.
fn list(value: &Value) -> impl Iterator<Item = &str> + Clone {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str)
}

/// Several documents as one list.
fn as_list(text: &str) -> String {
    let item = |document: &str| {
        let mut lines = document.trim_end().lines();
        let first = lines.next().map(|line| format!("- {line}\n")).unwrap_or_default();
        first + &lines.map(|line| format!("  {line}\n")).collect::<String>()
    };
    "items:\n".to_owned() + &text.split("\n---\n").map(item).collect::<String>()
}
