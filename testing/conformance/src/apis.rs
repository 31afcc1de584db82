//! APIs that the cluster serves beside Kubernetes. Definitions of other projects come from their own modules.

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;
use test_cluster::{
    assets::{Assets, ForeignApi},
    open_definition,
};

use super::Mode;

/// The definitions that make a cluster one of that mode.
///
/// # Errors
/// They cannot be had.
pub(super) fn definitions(mode: Mode) -> Result<Vec<Value>> {
    match mode {
        Mode::Base => Ok(Vec::new()),
        Mode::Grove => of(ForeignApi::Grove),
        Mode::Lws => {
            let mut all = of(ForeignApi::LeaderWorkerSet)?;
            // The reference looks for this group before it uses the other, and makes nothing of its kinds.
            all.push(open_definition("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"));
            Ok(all)
        }
        Mode::Ckpt => Ok(["PodSnapshot", "PodSnapshotContent"].map(pod_snapshots).to_vec()),
    }
}

/// A kind of the snapshot operator. No agent captures anything here, so only that it is served counts.
fn pod_snapshots(kind: &str) -> Value {
    let mut definition = open_definition("nvidia.com", "v1alpha1", kind, &format!("{}s", kind.to_lowercase()));
    if kind == "PodSnapshotContent" {
        definition["spec"]["scope"] = "Cluster".into();
    }
    definition
}

fn of(api: ForeignApi) -> Result<Vec<Value>> {
    let files = Assets::from_env()?.definitions(api)?;
    let read = |file: &std::path::PathBuf| {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("{} is no YAML", file.display()))
    };
    files.iter().map(read).collect()
}
