//! Looking for what a cluster should not leave behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use test_cluster::wait;

/// The processes whose working directory is, or was, in `dir`: supervisor and programs of a cluster all have it there.
pub fn processes_in(dir: &Path) -> Vec<PathBuf> {
    let dir = dir.to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let inside =
        |process: &PathBuf| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.to_string_lossy().starts_with(&dir));
    entries.filter(inside).collect()
}

/// Waits until neither the directory nor a process of the cluster is there.
pub async fn wait_until_gone(dir: &Path) {
    let gone = || async {
        match (dir.exists(), processes_in(dir)) {
            (false, processes) if processes.is_empty() => Ok(()),
            seen => Err(format!("directory exists: {}, processes: {:?}", seen.0, seen.1)),
        }
    };
    wait::until(format!("nothing to be left of {}", dir.display()), Duration::from_secs(60), gone).await.unwrap();
}
