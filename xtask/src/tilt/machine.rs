//! Whether this machine has what the loop needs. Every missing program is named at once, with where to get it.

use std::{env, path::Path};

use anyhow::{Result, bail};

/// Programs, and what they are for.
const NEEDED: [(&str, &str); 3] = [
    ("tilt", "runs the loop; https://docs.tilt.dev/install.html"),
    ("helm", "renders the chart; https://helm.sh/docs/intro/install/"),
    ("kubectl", "knows the cluster; https://kubernetes.io/docs/tasks/tools/"),
];

pub(super) fn check(k3d: bool) -> Result<()> {
    let k3d = k3d.then_some(("k3d", "imports images; https://k3d.io"));
    let missing: Vec<String> = NEEDED
        .into_iter()
        .chain(k3d)
        .filter(|(program, _)| !on_path(program))
        .map(|(program, why)| format!("  {program}: {why}"))
        .collect();
    if !missing.is_empty() {
        bail!(
            "this loop needs programs that are not on the PATH:\n{}\nWithout a cluster, `cargo xtask up` needs none of them.",
            missing.join("\n")
        );
    }
    Ok(())
}

fn on_path(program: &str) -> bool {
    let found = |folder: &Path| folder.join(program).is_file();
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| found(&folder)))
}
