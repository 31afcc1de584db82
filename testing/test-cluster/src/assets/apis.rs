//! APIs of other projects. Their CustomResourceDefinitions are part of their Go modules, which the Go toolchain fetches
//! and checks; nothing of them is in this repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Assets, AssetsError, build, toolchain::Toolchain};

const GO_MOD: &str = include_str!("../../../../xtask/cluster/apis/go.mod");
const GO_SUM: &str = include_str!("../../../../xtask/cluster/apis/go.sum");

/// An API of another project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignApi {
    /// LeaderWorkerSets.
    LeaderWorkerSet,
    /// Further needs of the manager of LeaderWorkerSets: DisaggregatedSets, and its webhook configurations.
    LeaderWorkerSetManager,
    /// PodCliqueSets and what Grove makes of them.
    Grove,
}

impl ForeignApi {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LeaderWorkerSet, Self::LeaderWorkerSetManager, Self::Grove];

    fn module(self) -> &'static str {
        match self {
            Self::LeaderWorkerSet | Self::LeaderWorkerSetManager => "sigs.k8s.io/lws",
            Self::Grove => "github.com/ai-dynamo/grove/operator/api",
        }
    }

    /// The definitions within the module.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::LeaderWorkerSet => &["config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"],
            Self::LeaderWorkerSetManager => {
                &["config/crd/bases/disaggregatedset.x-k8s.io_disaggregatedsets.yaml", "config/webhook/manifests.yaml"]
            }
            Self::Grove => &[
                "core/v1alpha1/crds/grove.io_clustertopologybindings.yaml",
                "core/v1alpha1/crds/grove.io_podcliques.yaml",
                "core/v1alpha1/crds/grove.io_podcliquescalinggroups.yaml",
                "core/v1alpha1/crds/grove.io_podcliquesets.yaml",
            ],
        }
    }

    /// The module with the version that is pinned.
    fn pinned(self) -> String {
        let line =
            GO_MOD.lines().find_map(|line| line.trim_start_matches("require ").trim().strip_prefix(self.module()));
        format!("{}@{}", self.module(), line.map(str::trim).unwrap_or_default())
    }
}

impl Assets {
    /// The files with the definitions of an API, in YAML. The first time they are fetched, which needs Go and the Go
    /// module proxy; from then on they are in the cache.
    ///
    /// # Errors
    /// They are not in the cache and cannot be fetched.
    pub fn definitions(&self, api: ForeignApi) -> Result<Vec<PathBuf>, AssetsError> {
        let root = self.cache.join("apis").join(super::hash([GO_MOD, GO_SUM].into_iter()));
        let kept = |file: &&str| root.join(Path::new(file).file_name().unwrap_or_default());
        let paths: Vec<PathBuf> = api.files().iter().map(kept).collect();
        if paths.iter().all(|path| path.is_file()) {
            return Ok(paths);
        }
        fs::create_dir_all(&root).map_err(AssetsError::io("make", &root))?;
        let _lock = build::lock(&root.join("lock"))?;
        build::write(&root.join("go.mod"), GO_MOD)?;
        build::write(&root.join("go.sum"), GO_SUM)?;
        let module = fetch(&root, &api.pinned())?;
        for (file, path) in api.files().iter().zip(&paths) {
            let from = module.join(file);
            let text = fs::read_to_string(&from).map_err(AssetsError::io("read", &from))?;
            let half = path.with_extension("half");
            build::write(&half, &text)?;
            fs::rename(&half, path).map_err(AssetsError::io("move into place", path))?;
        }
        Ok(paths)
    }
}

/// Fetches one module, without the modules that it needs; gives its directory.
fn fetch(root: &Path, module: &str) -> Result<PathBuf, AssetsError> {
    let go = Toolchain::check(Path::new("go"), GO_MOD, root)?;
    let output = go.command(root).args(["mod", "download", "-json", module]).output();
    let output = output.map_err(AssetsError::io("run", "go"))?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer.get("Dir").and_then(Value::as_str) {
        Some(dir) if output.status.success() => Ok(PathBuf::from(dir)),
        _ => {
            let reported = answer.get("Error").and_then(Value::as_str).map(str::to_owned);
            let output = reported.unwrap_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned());
            Err(AssetsError::Go { command: format!("mod download {module}"), output })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_is_pinned_with_its_checksum() {
        for api in ForeignApi::ALL {
            let (module, version) = api.pinned().split_once('@').map(|(m, v)| (m.to_owned(), v.to_owned())).unwrap();
            assert!(version.starts_with('v'), "{module} {version}");
            assert!(GO_SUM.contains(&format!("{module} {version} h1:")), "{module} {version}");
        }
    }

    #[test]
    fn the_manager_of_leader_worker_sets_has_the_version_of_its_definitions() {
        let pinned = ForeignApi::LeaderWorkerSet.pinned().replace('@', " ");
        assert!(build::LWS.go_mod.lines().any(|line| line.trim().starts_with(&pinned)), "{pinned}");
    }
}
