//! What the machine has to have, namespaces of one's own, and control groups.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// Control group of all pods. A kubelet of the machine has another.
pub(super) const CGROUP: &str = "dynamo-e2e";
const CGROUPS: &str = "/sys/fs/cgroup";

/// Programs, and the Debian packages that they come with.
const PROGRAMS: [(&str, &str); 7] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("mount", "mount"),
    ("unshare", "util-linux"),
];
/// Where the network plugins may be.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// What is missing for a real node.
pub(super) fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    let root = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !root.lines().any(|line| line.split_whitespace().take(3).eq(["Uid:", "0", "0"])) {
        missing.push("no root".to_owned());
    }
    for (program, package) in PROGRAMS {
        if find(program).is_none() {
            missing.push(format!("no {program} (package {package})"));
        }
    }
    if plugins().is_none() {
        missing.push("no ptp among the network plugins (package containernetworking-plugins)".to_owned());
    }
    missing
}

/// A program of the system.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places.map(|place| place.join(program)).find(|path| path.is_file())
}

/// Where the network plugins are.
pub(super) fn plugins() -> Option<&'static Path> {
    PLUGINS.map(Path::new).into_iter().find(|dir| dir.join("ptp").is_file())
}

/// Starts this very command again, in namespaces of its own; ends as it does. Everything in there ends with it.
pub(super) fn again_in_own_namespaces() -> Result<ExitCode> {
    make_cgroup()?;
    let own = std::env::current_exe().context("cannot tell the own program")?;
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let status = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--"])
        .arg(own)
        .args(args)
        .arg("--inside")
        .status();
    remove_cgroup();
    let ended = status.context("cannot run unshare")?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ended.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The group in every hierarchy: one each with version 1, one with version 2.
fn cgroups() -> Vec<PathBuf> {
    let root = Path::new(CGROUPS);
    if root.join("cgroup.controllers").exists() {
        return vec![root.join(CGROUP)];
    }
    let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    hierarchies.filter(|path| path.join("cgroup.procs").exists()).map(|path| path.join(CGROUP)).collect()
}

fn make_cgroup() -> Result<()> {
    for group in cgroups() {
        fs::create_dir_all(&group).with_context(|| format!("cannot make {}", group.display()))?;
    }
    Ok(())
}

/// Nothing runs in the groups any more: their processes ended with the namespace.
fn remove_cgroup() {
    fn remove(group: &Path) {
        for entry in fs::read_dir(group).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&entry.path());
            }
        }
        if let Err(error) = fs::remove_dir(group)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!("cannot remove {}: {error}", group.display());
        }
    }
    cgroups().iter().for_each(|group| remove(group));
}
