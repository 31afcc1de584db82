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

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use repository::{
    cargo,
    chart::{definitions, platform, programs},
    root, target,
};

/// What in deploy/helm is made from something else: the programs' roles and webhook configurations from the programs,
/// schemas and README from each `values.yaml` and its comments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Task,
    /// Only what is made from values, for which nothing has to be built
    #[arg(long, global = true)]
    values: bool,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write the files anew
    Generate,
    /// Fail if a file is not up to date
    Check,
}

/// A file of the chart, and the command that prints it.
struct Generated {
    program: &'static str,
    args: &'static [&'static str],
    file: &'static str,
}

const fn generated(program: &'static str, args: &'static [&'static str], file: &'static str) -> Generated {
    Generated { program, args, file }
}

/// The namespace in a printed object is the template's business; some name has to stand there.
const FILES: [Generated; 8] = [
    generated("graph-controller", &["access"], "role.yaml"),
    generated("component-controller", &["access"], "role.yaml"),
    generated("model-controller", &["access"], "role.yaml"),
    generated("lease-scope", &["access"], "role.yaml"),
    generated("webhook-server", &["--operator-namespace=dynamo-system", "access"], "role.yaml"),
    generated(
        "webhook-server",
        &["--operator-namespace=dynamo-system", "--namespace=served", "access"],
        "served-role.yaml",
    ),
    generated("webhook-server", &["--operator-namespace=dynamo-system", "access", "--of=own"], "own-role.yaml"),
    generated(
        "webhook-server",
        &["--operator-namespace=dynamo-system", "--service-name=dynamo-operator-webhook-service", "configurations"],
        "configurations.yaml",
    ),
];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut wanted = values::files(&platform())?;
    if !args.values {
        build()?;
        wanted.extend(of_programs()?);
    }
    match args.command {
        Task::Check if args.values => compare(wanted),
        Task::Check => compare(wanted).and_then(|()| pod_roles::check()),
        Task::Generate => generate(wanted),
    }
}

fn build() -> Result<()> {
    let mut build = cargo("build");
    build.arg("--quiet");
    for file in &FILES {
        build.args(["--package", file.program]);
    }
    ensure!(build.status().context("cannot run cargo")?.success(), "cargo build failed");
    Ok(())
}

/// Files that are made from programs, with what should be in them.
fn of_programs() -> Result<Vec<(PathBuf, String)>> {
    let mut wanted = FILES.iter().map(|file| Ok((file.path(), file.print()?))).collect::<Result<Vec<_>>>()?;
    wanted.push((programs().join("crds/files/role.yaml"), crds_role::role(&root().join("deploy/crds"))?));
    let installer = installer_role::role()?;
    wanted.push((programs().join("crds/files/namespace-installer.yaml"), installer.clone()));
    wanted.push((definitions().join("templates/namespace-installer.yaml"), installer));
    Ok(wanted)
}

fn generate(wanted: Vec<(PathBuf, String)>) -> Result<()> {
    for (path, wanted) in wanted {
        if fs::read_to_string(&path).is_ok_and(|found| found == wanted) {
            continue;
        }
        fs::write(&path, wanted).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {}", path.strip_prefix(root()).unwrap_or(&path).display());
    }
    Ok(())
}

/// Fails if a file is not what it is made from; the programs are built already.
pub(crate) fn check() -> Result<()> {
    let mut wanted = values::files(&platform())?;
    wanted.extend(of_programs()?);
    compare(wanted).and_then(|()| pod_roles::check())
}

fn compare(wanted: Vec<(PathBuf, String)>) -> Result<()> {
    let mut stale = Vec::new();
    for (path, wanted) in wanted {
        if fs::read_to_string(&path).unwrap_or_default() != wanted {
            stale.push(path.display().to_string());
        }
    }
    if !stale.is_empty() {
        bail!("not what they are made from; run `cargo xtask charts generate`:\n{}", stale.join("\n"));
    }
    Ok(())
}

impl Generated {
    fn path(&self) -> PathBuf {
        programs().join(self.program).join("files").join(self.file)
    }

    fn print(&self) -> Result<String> {
        let binary = target().join(self.program);
        let output = Command::new(&binary).args(self.args).output();
        let output = output.with_context(|| format!("cannot run {}", binary.display()))?;
        let what = format!("{} {}", self.program, self.args.join(" "));
        ensure!(output.status.success(), "{what} failed: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).with_context(|| format!("{what} printed no text"))?;
        // Templates read one document.
        Ok(if text.contains("\n---\n") { as_list(&text) } else { text })
    }
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
