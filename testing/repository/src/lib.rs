//! The repository as its commands and test suites see it: its root and files, cargo, and the charts as Helm renders
//! them.

pub mod chart;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

/// Prefixes of the variables in which cargo describes a package.
const OF_PACKAGE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// The root of the repository.
#[must_use]
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own)
}

/// The text of a file.
///
/// # Errors
/// It cannot be read; the error names it.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A file of YAML.
///
/// # Errors
/// It cannot be read, or is not of this type; the error names it.
pub fn read_yaml<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_saphyr::from_str(&read(path)?).with_context(|| path.display().to_string())
}

/// The files of a folder whose names end so, in order.
///
/// # Errors
/// The folder cannot be read; the error names it.
pub fn files(dir: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let is_meant = |path: &PathBuf| path.extension().is_some_and(|own| endings.iter().any(|ending| own == *ending));
    paths.retain(|path| path.is_file() && is_meant(path));
    paths.sort();
    Ok(paths)
}

/// Cargo, at the root of the repository.
///
/// `cargo run` describes the package of a program in the environment. Build scripts of dependencies that read these
/// variables would run again, and their dependents be built again, each time cargo is called from here.
#[must_use]
pub fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(command).current_dir(root());
    let names = env::vars_os().map(|(name, _)| name);
    let ours = names.filter(|name| name.to_str().is_some_and(|name| OF_PACKAGE.iter().any(|of| name.starts_with(of))));
    ours.for_each(|name| {
        cargo.env_remove(name);
    });
    cargo
}

/// Directory of the programs of a debug build.
#[must_use]
pub fn target() -> PathBuf {
    let dir = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    root().join(dir).join("debug")
}
