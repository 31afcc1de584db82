//! Finds the programs of the control plane, and builds them when they are not there yet.
//!
//! `KUBEBUILDER_ASSETS` names a directory to look in first; it must hold at least `etcd` and `kube-apiserver`.
//! Everything else comes from a cache outside the repository: `$DYNAMO_CACHE_DIR`, else `$XDG_CACHE_HOME`, else
//! `~/.cache`, and in there `dynamo-operator/cluster/<hash>/bin`, where the hash is over all that determines what is
//! built. What is missing there is built from `xtask/cluster/go.mod` by the Go toolchain, which takes some minutes
//! once. The NATS server and the image registry that tests talk to have modules of their own in `xtask/cluster`, and
//! their places beside the others.

mod apis;
mod build;
mod toolchain;

use std::{
    env,
    path::{Path, PathBuf},
};

pub use apis::ForeignApi;
use build::Module;
use sha2::{Digest, Sha256};
pub use toolchain::GoVersion;

/// The directory to look in first.
const KUBEBUILDER_ASSETS: &str = "KUBEBUILDER_ASSETS";
const CACHE_DIR: &str = "DYNAMO_CACHE_DIR";
const HASH_DIGITS: usize = 16;
/// kwok's description of how its nodes and Pods live, kept beside the program.
const KWOK_STAGES: &str = "kwok.yaml";

/// Cause of an unavailable program.
#[derive(Debug, thiserror::Error)]
pub enum AssetsError {
    /// `KUBEBUILDER_ASSETS` does not hold what it must.
    #[error(
        "KUBEBUILDER_ASSETS is set to {dir}, where there is no {tool}; correct it, or unset it to have the tools built"
    )]
    Incomplete {
        /// Searched directory.
        dir: PathBuf,
        /// Missing program.
        tool: &'static str,
    },
    /// There is no place for the cache.
    #[error("no directory for the cache: set DYNAMO_CACHE_DIR, XDG_CACHE_HOME or HOME")]
    NoCache,
    /// Go is not installed.
    #[error(
        "the test cluster is built with Go {needed} or newer, but there is no `go` in PATH; install it from https://go.dev/dl"
    )]
    GoMissing {
        /// The oldest version that will do.
        needed: GoVersion,
    },
    /// Go is too old, and could not fetch a newer toolchain by itself.
    #[error(
        "the test cluster is built with Go {needed} or newer, but `go` is {found}; update it from https://go.dev/dl"
    )]
    GoTooOld {
        /// The version that is installed.
        found: String,
        /// The oldest version that will do.
        needed: GoVersion,
    },
    /// `go` ended with an error.
    #[error("go {command} failed:\n{output}")]
    Go {
        /// The first words of the command line.
        command: String,
        /// The end of what it printed.
        output: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}")]
    Io {
        /// Failed action, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}

impl AssetsError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// A program of the test cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The database of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// Kubernetes' own controllers.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// Fake nodes; has its stages in a file beside it.
    Kwok,
    /// The command line client.
    Kubectl,
    /// The chart installer.
    Helm,
    /// The agent of a real node.
    Kubelet,
    /// Services on a real node.
    KubeProxy,
    /// NATS.
    NatsServer,
    /// An image registry.
    Registry,
    /// A client of image registries.
    Crane,
    /// Prints what kstatus says of objects.
    Kstatus,
    /// The manager of LeaderWorkerSets.
    LwsManager,
    /// Checks alerts.
    Promtool,
}

impl Tool {
    /// The name of the executable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::Kubectl => "kubectl",
            Self::Helm => "helm",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::NatsServer => "nats-server",
            Self::Registry => "registry",
            Self::Crane => "crane",
            Self::Kstatus => "kstatus",
            Self::LwsManager => "lws-manager",
            Self::Promtool => "promtool",
        }
    }

    /// The Go package it is built from.
    fn package(self) -> String {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
            Self::Kwok => "sigs.k8s.io/kwok/cmd/kwok".to_owned(),
            Self::Helm => "helm.sh/helm/v3/cmd/helm".to_owned(),
            Self::NatsServer => "github.com/nats-io/nats-server/v2".to_owned(),
            Self::Registry => "github.com/google/go-containerregistry/cmd/registry".to_owned(),
            Self::Crane => "github.com/google/go-containerregistry/cmd/crane".to_owned(),
            Self::Kstatus => "kstatus".to_owned(),
            Self::LwsManager => "sigs.k8s.io/lws/cmd".to_owned(),
            Self::Promtool => "github.com/prometheus/prometheus/cmd/promtool".to_owned(),
            _ => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }

    fn set(self) -> ToolSet {
        match self {
            Self::Helm | Self::Kubectl => ToolSet::Clients,
            Self::Kubelet | Self::KubeProxy => ToolSet::Node,
            Self::NatsServer => ToolSet::Nats,
            Self::Registry | Self::Crane => ToolSet::Registry,
            Self::Kstatus => ToolSet::Kstatus,
            Self::LwsManager => ToolSet::Lws,
            Self::Promtool => ToolSet::Promtool,
            _ => ToolSet::Control,
        }
    }
}

/// Programs that are built together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolSet {
    /// The control plane with fake nodes.
    Control,
    /// The command line clients, which a control plane runs without.
    Clients,
    /// Programs of a real node.
    Node,
    /// The NATS server.
    Nats,
    /// The image registry, and a client of it.
    Registry,
    /// kstatus.
    Kstatus,
    /// The manager of LeaderWorkerSets.
    Lws,
    /// promtool.
    Promtool,
}

impl ToolSet {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Control,
        Self::Clients,
        Self::Node,
        Self::Nats,
        Self::Registry,
        Self::Kstatus,
        Self::Lws,
        Self::Promtool,
    ];

    /// The name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Clients => "clients",
            Self::Node => "node",
            Self::Nats => "nats",
            Self::Registry => "registry",
            Self::Kstatus => "kstatus",
            Self::Lws => "lws",
            Self::Promtool => "promtool",
        }
    }

    /// Its programs.
    #[must_use]
    pub fn tools(self) -> &'static [Tool] {
        match self {
            Self::Control => &[Tool::Etcd, Tool::ApiServer, Tool::ControllerManager, Tool::Scheduler, Tool::Kwok],
            Self::Clients => &[Tool::Helm, Tool::Kubectl],
            Self::Node => &[Tool::Kubelet, Tool::KubeProxy],
            Self::Nats => &[Tool::NatsServer],
            Self::Registry => &[Tool::Registry, Tool::Crane],
            Self::Kstatus => &[Tool::Kstatus],
            Self::Lws => &[Tool::LwsManager],
            Self::Promtool => &[Tool::Promtool],
        }
    }

    fn module(self) -> &'static Module {
        match self {
            Self::Control | Self::Clients | Self::Node => &build::CLUSTER,
            Self::Nats => &build::NATS,
            Self::Registry => &build::REGISTRY,
            Self::Kstatus => &build::KSTATUS,
            Self::Lws => &build::LWS,
            Self::Promtool => &build::PROMTOOL,
        }
    }
}

/// Whether tests with software of others all run, with the time limits that the documentation promises:
/// `DYNAMO_REAL_SOFTWARE=full`.
#[must_use]
pub fn is_full() -> bool {
    env::var("DYNAMO_REAL_SOFTWARE").is_ok_and(|value| value == "full")
}

/// Places to look for programs.
#[derive(Debug, Clone)]
pub struct Assets {
    given: Option<PathBuf>,
    cache: PathBuf,
}

impl Assets {
    /// Takes the places from the environment.
    ///
    /// # Errors
    /// There is no place for the cache, or `KUBEBUILDER_ASSETS` does not hold etcd and kube-apiserver.
    pub fn from_env() -> Result<Self, AssetsError> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home_cache = || set("HOME").map(|home| home.join(".cache"));
        let base = set(CACHE_DIR).or_else(|| set("XDG_CACHE_HOME")).or_else(home_cache).ok_or(AssetsError::NoCache)?;
        Self::new(set(KUBEBUILDER_ASSETS), &base)
    }

    fn new(given: Option<PathBuf>, cache_base: &Path) -> Result<Self, AssetsError> {
        if let Some(dir) = &given {
            for tool in [Tool::Etcd, Tool::ApiServer] {
                if !dir.join(tool.name()).is_file() {
                    return Err(AssetsError::Incomplete { dir: dir.clone(), tool: tool.name() });
                }
            }
        }
        Ok(Self { given, cache: cache_base.join("dynamo-operator") })
    }

    /// The path of a program. What is missing is built first, which blocks for minutes and shows its progress on
    /// standard error.
    ///
    /// # Errors
    /// It is missing and cannot be built.
    pub fn find(&self, tool: Tool) -> Result<PathBuf, AssetsError> {
        if let Some(dir) = &self.given {
            let path = dir.join(tool.name());
            if path.is_file() && (tool != Tool::Kwok || dir.join(KWOK_STAGES).is_file()) {
                return Ok(path);
            }
        }
        self.build(tool.set())?;
        Ok(self.root(tool.set()).join("bin").join(tool.name()))
    }

    /// Builds a set into the cache unless it is there. Blocks as [`Assets::find`] does.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn build(&self, set: ToolSet) -> Result<(), AssetsError> {
        build::ensure(&self.root(set), set)
    }

    /// The directory of the cache that holds, or will hold, the programs of the cluster.
    #[must_use]
    pub fn bin_dir(&self) -> PathBuf {
        self.root(ToolSet::Control).join("bin")
    }

    fn root(&self, set: ToolSet) -> PathBuf {
        let module = set.module();
        self.cache.join(module.name).join(hash(module.inputs()))
    }

    /// The stages that belong to the kwok at `executable`.
    pub(crate) fn kwok_stages(executable: &Path) -> PathBuf {
        executable.with_file_name(KWOK_STAGES)
    }
}

/// Names a result by all that goes into it.
fn hash(inputs: impl Iterator<Item = &'static str>) -> String {
    let mut sha = Sha256::new();
    for part in inputs {
        sha.update(part.as_bytes());
        sha.update([0]);
    }
    let hex: String = sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    hex.chars().take(HASH_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::home;

    #[test]
    fn every_tool_is_in_its_set() {
        for set in ToolSet::ALL {
            for tool in set.tools() {
                assert_eq!(tool.set(), set, "{tool:?}");
            }
        }
    }

    #[test]
    fn every_tool_is_pinned() {
        for tool in ToolSet::ALL.iter().flat_map(|set| set.tools()) {
            let mut lines = tool.set().module().go_mod.lines();
            let package = tool.package();
            let pins = |line: &str| ["tool ", "module "].iter().any(|word| line.strip_prefix(word) == Some(&package));
            assert!(lines.any(|line| pins(line) || line.trim() == package), "{tool:?}");
        }
    }

    #[test]
    fn given_assets_come_first_and_must_be_complete() {
        let dir = home::fresh();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("etcd"), "").unwrap();
        let error = Assets::new(Some(dir.clone()), &dir).unwrap_err();
        assert!(matches!(error, AssetsError::Incomplete { tool: "kube-apiserver", .. }), "{error}");
        fs::write(dir.join("kube-apiserver"), "").unwrap();
        let assets = Assets::new(Some(dir.clone()), &dir).unwrap();
        assert_eq!(assets.find(Tool::ApiServer).unwrap(), dir.join("kube-apiserver"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
