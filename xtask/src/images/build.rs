//! Static binaries.

use std::{env, ffi::OsString, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};
use repository::{cargo, root};

use super::ImageProgram;

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

    fn cpu(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// C compilers for its instructions, the best first.
    fn compilers(self) -> [String; 3] {
        let cpu = self.cpu();
        [format!("{cpu}-linux-gnu-gcc"), format!("{cpu}-linux-musl-gcc"), "clang".to_owned()]
    }

    /// Packages of Debian and its like with the first of them, and with the headers that it looks for.
    fn compiler_packages(self) -> String {
        format!("gcc-{}-linux-gnu libc6-dev-{}-cross", self.cpu().replace('_', "-"), self.as_str())
    }

    /// As Rust names it: binaries that need no C library of the system.
    pub(super) fn target(self) -> String {
        format!("{}-unknown-linux-musl", self.cpu())
    }
}

/// The linker that comes with Rust. One copy of functions that came out equal is enough, and addresses to be moved at
/// the start are kept as a bitmap: together a twentieth of a binary.
const LINKER: [&str; 3] = ["-Clinker=rust-lld", "-Clink-arg=--icf=all", "-Clink-arg=--pack-dyn-relocs=relr"];

/// Packages and features of programs that are built in one go, as arguments of cargo.
pub(super) fn selection(programs: &[ImageProgram]) -> Vec<&'static str> {
    let packages = programs.iter().flat_map(|program| ["--package", program.package]);
    packages.chain(programs.iter().filter_map(|program| program.feature).flat_map(|it| ["--features", it])).collect()
}

/// Builds the programs, and gives the paths of their binaries in the same order.
pub(super) fn binaries(programs: &[ImageProgram], arch: Arch, profile: &str) -> Result<Vec<PathBuf>> {
    let target = arch.target();
    let compiler = Toolchain::of_this_machine(arch)?.compiler(arch)?;
    let root = root();
    // A directory of its own: flags differ from those of the daily build, and would make each build the other's anew.
    let dir = root.join("target/static");
    let mut cargo = cargo("build");
    cargo.args(["--locked", "--target", &target, "--profile", profile]);
    cargo.arg("--target-dir").arg(&dir);
    cargo.args(selection(programs));
    cargo.args(programs.iter().flat_map(|program| ["--bin", program.name]));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust_flags());
    cargo.env(compiler_variable(arch), compiler);
    let status = cargo.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo build failed for {target}");
    let profile = if profile == "dev" { "debug" } else { profile };
    Ok(programs.iter().map(|program| dir.join(&target).join(profile).join(program.name)).collect())
}

/// Paths of this machine in a binary would make every machine's build another one, and so would its linker.
fn rust_flags() -> String {
    let mut flags = vec![format!("--remap-path-prefix={}=/src", root().display())];
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    if let Some(home) = home {
        flags.push(format!("--remap-path-prefix={}=/cargo", home.display()));
    }
    flags.extend(LINKER.map(str::to_owned));
    flags.join("\u{1f}")
}

/// Tools of a machine for building for an architecture.
#[derive(Debug)]
struct Toolchain {
    /// Directory of Rust's standard libraries, with one directory for each target.
    libraries: PathBuf,
    /// The C compiler that the environment names.
    named: Option<OsString>,
    /// Directories of programs.
    path: Vec<PathBuf>,
}

impl Toolchain {
    fn of_this_machine(arch: Arch) -> Result<Self> {
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output();
        let sysroot = String::from_utf8(sysroot.context("cannot run rustc")?.stdout)?;
        let own = (arch.as_str() == Arch::HOST).then(|| env::var_os("CC").unwrap_or_else(|| "cc".into()));
        Ok(Self {
            libraries: PathBuf::from(sysroot.trim()).join("lib/rustlib"),
            named: env::var_os(compiler_variable(arch)).or(own),
            path: env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect(),
        })
    }

    /// The C compiler for an architecture, if all else is there, too. The C parts of ring use the headers of a C
    /// library at most, so any library's will do.
    ///
    /// # Errors
    /// Something is missing; the error names the command that installs it.
    fn compiler(&self, arch: Arch) -> Result<OsString> {
        let target = arch.target();
        if !self.libraries.join(&target).join("lib").is_dir() {
            bail!(
                "cannot build for {}: Rust's standard library for {target} is not installed; run `rustup target add {target}`",
                arch.as_str()
            );
        }
        let known = arch.compilers();
        let found = known.iter().find(|name| self.path.iter().any(|dir| dir.join(name).is_file()));
        let Some(compiler) = self.named.clone().or_else(|| found.map(OsString::from)) else {
            bail!(
                "cannot build for {}: there is no C compiler for it; install one of {} (on Debian by `apt-get install {}`), or name \
                 one in {}",
                arch.as_str(),
                known.join(", "),
                arch.compiler_packages(),
                compiler_variable(arch)
            );
        };
        Ok(compiler)
    }
}

/// The variable by which ring's build finds its C compiler.
fn compiler_variable(arch: Arch) -> String {
    format!("CC_{}", arch.target().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_missing_for_an_architecture_is_named_with_the_remedy() {
        let root = env::temp_dir().join(format!("toolchain-{}", std::process::id()));
        let (libraries, programs) = (root.join("rustlib"), root.join("bin"));
        fs::create_dir_all(&programs).unwrap();
        let toolchain = |named: Option<&str>| Toolchain {
            libraries: libraries.clone(),
            named: named.map(OsString::from),
            path: vec![programs.clone()],
        };
        let error = || toolchain(None).compiler(Arch::Arm64).unwrap_err().to_string();
        assert!(error().contains("`rustup target add aarch64-unknown-linux-musl`"), "{}", error());
        fs::create_dir_all(libraries.join("aarch64-unknown-linux-musl/lib")).unwrap();
        assert!(error().contains("install one of aarch64-linux-gnu-gcc, "), "{}", error());
        assert!(error().contains("`apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross`"), "{}", error());
        assert!(error().ends_with("or name one in CC_aarch64_unknown_linux_musl"), "{}", error());
        assert_eq!(toolchain(Some("mine")).compiler(Arch::Arm64).unwrap(), "mine");
        fs::write(programs.join("clang"), "").unwrap();
        assert_eq!(toolchain(None).compiler(Arch::Arm64).unwrap(), "clang");
        fs::remove_dir_all(root).unwrap();
    }
}
