//! Requirements for the machine, namespaces of the test's own, and resources of nodes outside of them: control groups,
//! directories.

use std::{
    ffi::OsString,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Control group of all pods. A kubelet of the machine has another.
pub(super) const CGROUP: &str = "dynamo-e2e";
const CGROUPS: &str = "/sys/fs/cgroup";
/// Time limit for killed processes to be gone.
const GONE_LIMIT: Duration = Duration::from_secs(20);

/// Directories that kubelet and network plugins write to wherever they are configured to keep their files.
pub(super) const PLACES: [&str; 2] = ["/var/lib/kubelet", "/var/lib/cni"];

/// Programs, and the Debian packages that they come with.
const PROGRAMS: [(&str, &str); 8] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("mount", "mount"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
];
/// Possible directories of the network plugins.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// Lists missing requirements of a real node.
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

/// Returns the network plugins' directory.
pub(super) fn plugins() -> Option<&'static Path> {
    PLUGINS.map(Path::new).into_iter().find(|dir| dir.join("ptp").is_file())
}

/// Starts this very command again, in namespaces of its own; ends as it does. Everything in there ends with it, and
/// with this process, however that ends.
pub(super) async fn again_in_own_namespaces() -> Result<ExitCode> {
    make_cgroup()?;
    let made = make_places()?;
    let status = inside().await;
    remove_cgroup();
    // One that has been filled meanwhile stays.
    made.iter().for_each(|place| drop(fs::remove_dir(place)));
    let ended = status?.code().and_then(|code| u8::try_from(code).ok());
    Ok(ended.map_or(ExitCode::FAILURE, ExitCode::from))
}

async fn inside() -> Result<ExitStatus> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare"]);
    command.args(["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    run_until_interrupted(command.arg(own).args(args).arg("--inside")).await
}

/// Runs a command that hears no signal but the last one: neither `unshare` nor the first process of a namespace ends by
/// Ctrl-C.
async fn run_until_interrupted(command: &mut Command) -> Result<ExitStatus> {
    let mut ended = signal(SignalKind::child()).context("cannot wait for the end of a process")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut child: Child =
        command.spawn().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the node")? {
            return Ok(status);
        }
        tokio::select! {
            _ = ended.recv() => {}
            _ = interrupt.recv() => child.kill().context("cannot end the node")?,
            _ = terminate.recv() => child.kill().context("cannot end the node")?,
        }
    }
}

/// Makes the directories that are not there, and returns these.
fn make_places() -> Result<Vec<&'static str>> {
    let missing: Vec<&str> = PLACES.into_iter().filter(|place| !Path::new(place).exists()).collect();
    for place in &missing {
        fs::create_dir_all(place).with_context(|| format!("cannot make {place}"))?;
    }
    Ok(missing)
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

/// Removes the groups when nothing runs in them any more: their processes end with the namespace.
fn remove_cgroup() {
    let begin = Instant::now();
    for group in cgroups() {
        while let Err(error) = remove(&group) {
            if begin.elapsed() > GONE_LIMIT {
                eprintln!("cannot remove {}: {error}", group.display());
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Removes a group with those in it, if it is there.
fn remove(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(group).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// Left to itself, the node would go on behind the shell's back.
    #[tokio::test]
    async fn a_signal_ends_what_hears_none() {
        for signal in ["INT", "TERM"] {
            let mut command = Command::new("sh");
            let script = format!("trap '' INT TERM; kill -{signal} $PPID; exec sleep 600");
            let status = run_until_interrupted(command.args(["-c", &script])).await.unwrap();
            assert_eq!(status.signal(), Some(9), "{signal}");
        }
        let status = run_until_interrupted(Command::new("sh").args(["-c", "exit 3"])).await.unwrap();
        assert_eq!(status.code(), Some(3));
    }
}
