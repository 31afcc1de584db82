//! The Go toolchain: is it there, and new enough.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    process::Command,
};

use super::AssetsError;

/// A version of Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoVersion(u32, u32, u32);

impl fmt::Display for GoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl GoVersion {
    /// Reads `go1.26.3`, `1.26`, `go1.27rc1 X:some-experiment`.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut parts = text.strip_prefix("go").unwrap_or(text).splitn(3, '.');
        let number = |part: &str| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse().ok()
        };
        Some(Self(number(parts.next()?)?, number(parts.next()?)?, parts.next().map_or(Some(0), number)?))
    }

    /// The version that a `go.mod` requires; 0.0.0 if it requires none.
    fn of_module(go_mod: &str) -> Self {
        go_mod.lines().find_map(|line| Self::parse(line.strip_prefix("go ")?)).unwrap_or(Self(0, 0, 0))
    }
}

/// A `go` command that is new enough.
pub(super) struct Toolchain {
    executable: PathBuf,
}

impl Toolchain {
    /// Looks at the `go` at `executable`. A `go` that fetches the toolchain which the module in `module_dir` requires
    /// is run there, so that it may do so.
    pub(super) fn check(executable: &Path, go_mod: &str, module_dir: &Path) -> Result<Self, AssetsError> {
        let needed = GoVersion::of_module(go_mod);
        let this = Self { executable: executable.to_owned() };
        let in_module = this.version(this.command(module_dir), needed)?;
        if GoVersion::parse(&in_module).is_some_and(|found| found >= needed) {
            return Ok(this);
        }
        let mut outside = this.command(Path::new("/"));
        outside.env("GOTOOLCHAIN", "local");
        let found = this.version(outside, needed)?;
        Err(AssetsError::GoTooOld { found: found.trim().to_owned(), needed })
    }

    fn version(&self, mut command: Command, needed: GoVersion) -> Result<String, AssetsError> {
        match command.args(["env", "GOVERSION"]).output() {
            Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(AssetsError::GoMissing { needed }),
            Err(error) => Err(AssetsError::io("run", &self.executable)(error)),
        }
    }

    /// A `go` command in `dir`, deaf to settings of the environment that would change what is built.
    pub(super) fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(dir).env("GOFLAGS", "").env("GOWORK", "off").env("CGO_ENABLED", "0");
        command
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::home;

    #[test]
    fn versions_are_read_and_compared() {
        for (text, version) in [
            ("go1.26.3\n", Some(GoVersion(1, 26, 3))),
            ("1.26", Some(GoVersion(1, 26, 0))),
            ("go1.27rc1 X:loopvar", Some(GoVersion(1, 27, 0))),
            ("devel", None),
            ("", None),
        ] {
            assert_eq!(GoVersion::parse(text), version, "{text}");
        }
        assert!(GoVersion(1, 9, 7) < GoVersion(1, 26, 0));
        assert_eq!(GoVersion::of_module("module x\n\ngo 1.26.0\n"), GoVersion(1, 26, 0));
    }

    #[test]
    fn a_missing_go_is_named_with_the_version_needed() {
        let error = Toolchain::check(Path::new("/nowhere/go"), "go 1.26.0", Path::new("/")).err().unwrap();
        assert!(error.to_string().contains("Go 1.26.0 or newer, but there is no `go`"), "{error}");
    }

    #[test]
    fn an_old_go_is_named_with_both_versions() {
        let dir = home::fresh();
        fs::create_dir(&dir).unwrap();
        let go = dir.join("go");
        fs::write(&go, "#!/bin/sh\necho go1.20.4\n").unwrap();
        fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
        let error = Toolchain::check(&go, "go 1.26.0", &dir).err().unwrap();
        assert!(error.to_string().contains("Go 1.26.0 or newer, but `go` is go1.20.4"), "{error}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
