//! `cargo xtask charts`: what in deploy/helm is made from the programs themselves, and from the values of the charts.

mod crds_role;
mod pod_roles;
#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use serde_json::Value;
use test_cluster::assets::{Assets, Tool};

use crate::operators::{cargo, workspace_root};

/// What in deploy/helm is made from something else: the programs' roles and webhook configurations from the programs, schemas and
/// README from each `values.yaml` and its comments.
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

/// The version of Kubernetes that a chart is rendered for when no cluster is asked.
pub(crate) const KUBE_VERSION: &str = "--kube-version=1.36.3";

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
    let mut wanted = values::files(&chart())?;
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
    wanted.push((programs().join("crds/files/role.yaml"), crds_role::role(&workspace_root().join("deploy/crds"))?));
    Ok(wanted)
}

fn generate(wanted: Vec<(PathBuf, String)>) -> Result<()> {
    for (path, wanted) in wanted {
        if fs::read_to_string(&path).is_ok_and(|found| found == wanted) {
            continue;
        }
        fs::write(&path, wanted).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {}", path.strip_prefix(workspace_root()).unwrap_or(&path).display());
    }
    Ok(())
}

/// Fails if a file is not what it is made from; the programs are built already.
pub(crate) fn check() -> Result<()> {
    let mut wanted = values::files(&chart())?;
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

/// What the chart makes of values, each as `key=value`, without a cluster.
pub(crate) fn render(release: &str, namespace: &str, values: &[&str]) -> Result<Vec<Value>> {
    render_chart(&chart(), release, namespace, values)
}

fn render_chart(chart: &Path, release: &str, namespace: &str, values: &[&str]) -> Result<Vec<Value>> {
    let mut command = Command::new(Assets::from_env()?.find(Tool::Helm)?);
    command.args(["template", release]).arg(chart).arg(format!("--namespace={namespace}")).arg(KUBE_VERSION);
    command.args(values.iter().flat_map(|value| ["--set", value]));
    let output = command.output().context("cannot run helm")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("helm printed no text")?;
    let documents = text.split("\n---\n").map(serde_saphyr::from_str::<Value>);
    let documents = documents.collect::<Result<Vec<_>, _>>().context("helm printed no YAML")?;
    Ok(documents.into_iter().filter(Value::is_object).collect())
}

/// The chart of the platform.
pub(crate) fn chart() -> PathBuf {
    workspace_root().join("deploy/helm/dynamo-platform")
}

/// The chart of the definitions alone.
#[cfg(test)]
fn definitions() -> PathBuf {
    workspace_root().join("deploy/helm/dynamo-crds")
}

/// The role of the program `crds`.
pub(crate) fn crds_role() -> Result<Value> {
    let text = crds_role::role(&workspace_root().join("deploy/crds"))?;
    serde_saphyr::from_str(&text).context("the role of crds is no YAML")
}

/// The charts of the programs.
fn programs() -> PathBuf {
    chart().join("charts/dynamo-operator/charts")
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

/// Where cargo puts the programs of a daily build.
pub(crate) fn target() -> PathBuf {
    let dir = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from);
    workspace_root().join(Path::new(&dir)).join("debug")
}
