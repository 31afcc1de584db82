//! Builds the controllers and the program that holds the CRDs, as separate processes of cargo: the repository's own
//! commands are not linked with what they start.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use repository::cargo;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    Controller,
    webhook::{self, CRDS},
};

/// What goes wrong when building.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Cargo could not be run.
    #[error("cannot run cargo")]
    Cargo(#[source] std::io::Error),
    /// The code does not compile. The text is what cargo printed, unless it was shown already.
    #[error("cargo build failed\n{0}")]
    Failed(String),
    /// Cargo did not say where it put a binary.
    #[error("cargo built no binary {0}")]
    Missing(&'static str),
    /// A binary cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The binary.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Where cargo's messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Messages {
    /// To standard error.
    Show,
    /// Into the error.
    Keep,
}

/// Binaries by name, each with a digest of its content.
#[derive(Debug, Clone)]
pub struct Binaries {
    binaries: BTreeMap<&'static str, (PathBuf, Hash)>,
    /// Where the webhook server is to listen. The CRDs tell the API server.
    pub(super) webhook: SocketAddr,
}

type Hash = [u8; 32];

impl Binaries {
    /// Builds the controllers with a profile, and the CRDs.
    pub(super) fn build(
        controllers: &[Controller],
        profile: &str,
        messages: Messages,
        webhook: SocketAddr,
    ) -> Result<Self, BuildError> {
        // One call with the features of a whole test run, so that nothing is compiled once more after one.
        let mut args = vec!["--bins", "--profile", profile, "--package", "api-types", "--features", "api-types/cli"];
        args.extend(controllers.iter().flat_map(|controller| ["--package", controller.name]));
        let mut found = build(&args, messages)?;
        let mut binaries = BTreeMap::new();
        for name in controllers.iter().map(|controller| controller.name).chain([CRDS]) {
            let path = found.remove(name).ok_or(BuildError::Missing(name))?;
            let content = fs::read(&path).map_err(|source| BuildError::Unreadable { path: path.clone(), source })?;
            binaries.insert(name, (path, Sha256::digest(content).into()));
        }
        Ok(Self { binaries, webhook })
    }

    /// The binary of a controller.
    pub(super) fn controller(&self, name: &str) -> Result<&Path> {
        let found = self.binaries.get(name).with_context(|| format!("{name} was not built"))?;
        Ok(&found.0)
    }

    /// Whether a binary has another content than in an earlier build.
    pub fn differs(&self, earlier: &Self, name: &str) -> bool {
        let hash = |binaries: &Self| binaries.binaries.get(name).map(|(_, hash)| *hash);
        hash(self) != hash(earlier)
    }

    /// Whether the CRDs may have changed since an earlier build.
    pub fn crds_differ(&self, earlier: &Self) -> bool {
        self.differs(earlier, CRDS)
    }

    /// The CRDs.
    pub fn crds(&self) -> Result<Vec<Value>> {
        let program = self.controller(CRDS)?;
        let service = webhook::service_for_crds(self.webhook);
        let args = ["print", "--format", "json", "--webhook-service", &service];
        let output = Command::new(program).args(args).output().context("cannot run crds")?;
        ensure!(output.status.success(), "crds print failed: {}", String::from_utf8_lossy(&output.stderr));
        let list: Value = serde_json::from_slice(&output.stdout).context("crds print printed no JSON")?;
        let items = list.get("items").and_then(Value::as_array).context("crds print printed no list")?;
        Ok(items.clone())
    }
}

/// Runs `cargo build` and gives the executables that it names.
fn build(args: &[&str], messages: Messages) -> Result<BTreeMap<String, PathBuf>, BuildError> {
    let show = messages == Messages::Show;
    let output = cargo("build")
        .arg("--message-format=json-render-diagnostics")
        .args(if show { &[][..] } else { &["--quiet"] })
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(if show { Stdio::inherit() } else { Stdio::piped() })
        .output()
        .map_err(BuildError::Cargo)?;
    if !output.status.success() {
        return Err(BuildError::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// The executables by the names of their targets.
fn executables(messages: &str) -> BTreeMap<String, PathBuf> {
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let artifacts = artifacts.filter_map(|artifact| {
        let path = artifact.get("executable")?.as_str()?;
        let name = artifact.pointer("/target/name")?.as_str()?;
        Some((name.to_owned(), path.into()))
    });
    artifacts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_found_among_cargos_messages() {
        let messages = r#"
            {"reason":"compiler-artifact","target":{"name":"serde"},"executable":null}
            {"reason":"compiler-artifact","target":{"name":"crds"},"executable":"/t/debug/crds"}
            {"reason":"build-finished","success":true}
            not JSON"#;
        assert_eq!(executables(messages), [("crds".to_owned(), PathBuf::from("/t/debug/crds"))].into());
    }

    #[test]
    fn a_changed_binary_is_told_by_its_content() {
        let webhook = SocketAddr::from(([127, 0, 0, 1], 1));
        let binaries = |hash: u8| Binaries { binaries: [("a", (PathBuf::from("/a"), [hash; 32]))].into(), webhook };
        assert!(binaries(1).differs(&binaries(2), "a"));
        assert!(!binaries(1).differs(&binaries(1), "a"));
    }
}
