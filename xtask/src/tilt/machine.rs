//! Whether this machine has what the loop needs. Every missing program is named at once, with where to get it.

use std::{env, path::Path};

use anyhow::{Result, ensure};

/// A program, or several of which one is enough, and what it is for.
pub(super) type RequiredProgram = (&'static [&'static str], &'static str);

const NEEDED: [RequiredProgram; 3] = [
    (&["tilt"], "runs the loop; https://docs.tilt.dev/install.html"),
    (&["helm"], "renders the chart; https://helm.sh/docs/intro/install/"),
    (&["kubectl"], "reaches the cluster; https://kubernetes.io/docs/tasks/tools/"),
];
/// `container_runtime` says which; it may be in a file that only Tilt reads.
pub(super) const RUNTIME: RequiredProgram =
    (&["docker", "podman", "nerdctl"], "builds images; https://docs.docker.com/engine/install/");
pub(super) const K3D: RequiredProgram = (&["k3d"], "imports images; https://k3d.io");

/// Fails where the machine lacks what every command of the loop needs, or `more`.
pub(super) fn check(more: &[RequiredProgram]) -> Result<()> {
    let missing = missing(&[&NEEDED, more].concat(), on_path).join("\n");
    ensure!(
        missing.is_empty(),
        "this loop needs programs that are not on the PATH:\n{missing}\nWithout a cluster, `cargo xtask up` needs none."
    );
    Ok(())
}

fn missing(needed: &[RequiredProgram], is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let missing = needed.iter().filter(|(programs, _)| !programs.iter().any(|program| is_there(program)));
    missing.map(|(programs, why)| format!("  {}: {why}", programs.join(" or "))).collect()
}

fn on_path(program: &str) -> bool {
    let found = |folder: &Path| folder.join(program).is_file();
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| found(&folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_container_runtime_is_enough() {
        let without = |has: &[&str]| missing(&[NEEDED[0], RUNTIME, K3D], |program| has.contains(&program));
        assert!(without(&["tilt", "podman", "k3d"]).is_empty());
        let missing = without(&["tilt"]);
        assert_eq!(missing.len(), 2, "{missing:?}");
        assert!(missing[0].starts_with("  docker or podman or nerdctl: builds images"), "{missing:?}");
    }
}
