//! Builds the controllers and the program that holds the CRDs, as separate processes of cargo: the repository's own
//! commands are not linked with what they start.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

use anyhow::{Context, Result, ensure};
use repository::cargo;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    Controller,
    webhook::{self, CRDS},
};

/// Error of a build.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
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
        /// Cause.
        source: std::io::Error,
    },
}

/// Destination of cargo's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Messages {
    /// To standard error.
    Show,
    /// Into the error.
    Keep,
}

/// Binaries by name.
#[derive(Debug, Clone)]
pub struct Binaries {
    binaries: BTreeMap<&'static str, Binary>,
    /// Address of the webhook server. The CRDs contain it for the API server.
    pub(super) webhook: SocketAddr,
}

/// A binary with a digest of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Binary {
    path: PathBuf,
    written: SystemTime,
    digest: [u8; 32],
}

impl Binary {
    /// Reads a binary, unless it was not written since an earlier reading: together they have hundreds of megabytes.
    fn read(path: PathBuf, earlier: Option<&Self>) -> Result<Self, BuildError> {
        let read = || {
            let written = fs::metadata(&path)?.modified()?;
            let known = earlier.filter(|earlier| (&earlier.path, earlier.written) == (&path, written));
            let digest = known.map_or_else(
                || fs::read(&path).map(|content| Sha256::digest(content).into()),
                |known| Ok(known.digest),
            );
            Ok((written, digest?))
        };
        match read() {
            Ok((written, digest)) => Ok(Self { path, written, digest }),
            Err(source) => Err(BuildError::Unreadable { path, source }),
        }
    }
}

impl Binaries {
    /// Builds the controllers with a profile, and the CRDs.
    pub(super) fn build(
        controllers: &[Controller],
        profile: &str,
        messages: Messages,
        webhook: SocketAddr,
        earlier: Option<&Self>,
    ) -> Result<Self, BuildError> {
        // One call with the features of a whole test run, so that nothing is compiled once more after one.
        let mut args = vec!["--bins", "--profile", profile, "--package", "api-types", "--features", "api-types/cli"];
        args.extend(controllers.iter().flat_map(|controller| ["--package", controller.name]));
        let mut found = build(&args, messages)?;
        let mut binaries = BTreeMap::new();
        for name in controllers.iter().map(|controller| controller.name).chain([CRDS]) {
            let path = found.remove(name).ok_or(BuildError::Missing(name))?;
            let earlier = earlier.and_then(|earlier| earlier.binaries.get(name));
            binaries.insert(name, Binary::read(path, earlier)?);
        }
        Ok(Self { binaries, webhook })
    }

    /// The binary of a controller.
    pub(super) fn controller(&self, name: &str) -> Result<&Path> {
        let found = self.binaries.get(name).with_context(|| format!("{name} was not built"))?;
        Ok(&found.path)
    }

    /// Whether a binary has another content than in an earlier build.
    pub(super) fn differs(&self, earlier: &Self, name: &str) -> bool {
        let digest = |binaries: &Self| binaries.binaries.get(name).map(|binary| binary.digest);
        digest(self) != digest(earlier)
    }

    /// Counts a binary that could not be put to use as the earlier one, so that the next build tries again. Returns the
    /// error as text.
    pub(super) fn failed(&mut self, name: &str, earlier: &Self, error: &anyhow::Error) -> String {
        if let Some((name, binary)) = earlier.binaries.get_key_value(name) {
            self.binaries.insert(name, binary.clone());
        }
        format!("{error:#}")
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
    use std::time::Duration;

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
    fn a_binary_is_read_again_only_if_it_was_written() {
        let path = std::env::temp_dir().join(format!("local-operator-binary-{}", std::process::id()));
        fs::write(&path, "a").unwrap();
        let first = Binary::read(path.clone(), None).unwrap();
        let unread = Binary { digest: [0; 32], ..first.clone() };
        assert_eq!(Binary::read(path.clone(), Some(&unread)).unwrap(), unread);
        let later = first.written + Duration::from_secs(1);
        fs::File::open(&path).unwrap().set_modified(later).unwrap();
        let second = Binary::read(path.clone(), Some(&unread)).unwrap();
        assert_eq!(second, Binary { written: later, ..first.clone() });
        let webhook = SocketAddr::from(([127, 0, 0, 1], 1));
        let binaries = |binary: &Binary| Binaries { binaries: [("a", binary.clone())].into(), webhook };
        assert!(!binaries(&second).differs(&binaries(&first), "a"), "the content is the same");
        assert!(binaries(&second).differs(&binaries(&unread), "a"));
        fs::remove_file(&path).unwrap();
    }
}
