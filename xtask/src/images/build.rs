//! Static binaries.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::Program;
use crate::operators::{cargo, workspace_root};

/// An architecture that images are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arch {
    /// x86-64.
    Amd64,
    /// AArch64.
    Arm64,
}

impl Arch {
    /// That of this machine.
    pub(super) const HOST: &'static str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

    /// As image configurations name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// That of this machine.
    pub(crate) fn of_this_machine() -> Self {
        if Self::HOST == "arm64" { Self::Arm64 } else { Self::Amd64 }
    }

    fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }
}

/// The linker that comes with Rust. One copy of functions that came out equal is enough, and addresses to be moved at the start are
/// kept as a bitmap: together a twentieth of a binary.
const LINKER: [&str; 3] = ["-Clinker=rust-lld", "-Clink-arg=--icf=all", "-Clink-arg=--pack-dyn-relocs=relr"];

/// Builds the programs, and gives the paths of their binaries in the same order.
pub(super) fn binaries(programs: &[Program], arch: Arch, profile: &str) -> Result<Vec<PathBuf>> {
    let target = arch.target();
    check_target(target)?;
    let root = workspace_root();
    // A directory of its own: flags differ from those of the daily build, and would make each build the other's anew.
    let dir = root.join("target/static");
    let mut cargo = cargo("build");
    cargo.args(["--locked", "--target", target, "--profile", profile]);
    cargo.arg("--target-dir").arg(&dir);
    for program in programs {
        cargo.args(["--package", program.package, "--bin", program.name]);
        if let Some(feature) = program.feature {
            cargo.args(["--features", feature]);
        }
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust_flags());
    if arch.as_str() == Arch::HOST {
        // The C parts of ring need no C library, so the compiler of this machine will do.
        cargo.env(format!("CC_{}", target.replace('-', "_")), env::var_os("CC").unwrap_or_else(|| "cc".into()));
    }
    let status = cargo.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo build failed for {target}");
    let profile = if profile == "dev" { "debug" } else { profile };
    Ok(programs.iter().map(|program| dir.join(target).join(profile).join(program.name)).collect())
}

/// Paths of this machine in a binary would make every machine's build another one, and so would its linker.
fn rust_flags() -> String {
    let mut flags = vec![format!("--remap-path-prefix={}=/src", workspace_root().display())];
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    if let Some(home) = home {
        flags.push(format!("--remap-path-prefix={}=/cargo", home.display()));
    }
    flags.extend(LINKER.map(str::to_owned));
    flags.join("\u{1f}")
}

fn check_target(target: &str) -> Result<()> {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).current_dir(workspace_root()).output();
    let sysroot = String::from_utf8(sysroot.context("cannot run rustc")?.stdout)?;
    if !PathBuf::from(sysroot.trim()).join("lib/rustlib").join(target).join("lib").is_dir() {
        bail!("Rust's standard library for {target} is not installed; run `rustup target add {target}`");
    }
    Ok(())
}
