//! The charts, and what Helm renders from them without a cluster.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use test_cluster::assets::{Assets, Tool};

use crate::root;

/// The version of Kubernetes that a chart is rendered for without a cluster.
pub const KUBE_VERSION: &str = "--kube-version=1.36.3";

/// The chart of the platform.
#[must_use]
pub fn platform() -> PathBuf {
    root().join("deploy/helm/dynamo-platform")
}

/// The chart of the definitions alone.
#[must_use]
pub fn definitions() -> PathBuf {
    root().join("deploy/helm/dynamo-crds")
}

/// The directory with the charts of the programs.
#[must_use]
pub fn programs() -> PathBuf {
    platform().join("charts/dynamo-operator/charts")
}

/// Renders the chart of the platform with values, each as `key=value`.
///
/// # Errors
/// Helm is missing, refuses the values, or prints no YAML.
pub fn render(release: &str, namespace: &str, values: &[&str]) -> Result<Vec<Value>> {
    render_chart(&platform(), release, namespace, values)
}

/// Renders a chart with values, each as `key=value`.
///
/// # Errors
/// As [`render`].
pub fn render_chart(chart: &Path, release: &str, namespace: &str, values: &[&str]) -> Result<Vec<Value>> {
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
