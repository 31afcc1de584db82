//! A cluster whose owner is killed leaves neither processes nor files behind, whenever that happens.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use test_cluster::{Cluster, Options, wait};

mod common;
use common::{processes_in, wait_until_gone};

const LIMIT: Duration = Duration::from_secs(120);

/// The owner that is killed; a process of its own, which runs only this test.
#[tokio::test]
#[ignore = "started, and killed, by the other tests of this file"]
async fn owner() {
    let cluster = Cluster::start(Options::with_nodes(1)).await.unwrap();
    fs::write(cluster.dir().join("ready"), "").unwrap();
    std::future::pending::<()>().await;
}

async fn kill_owner_when(exists: &str) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner", "--ignored", "--nocapture"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let dir = wait::until(format!("{exists} in the owner's cluster"), LIMIT, async || {
        assert!(owner.try_wait().unwrap().is_none(), "the owner ended by itself");
        dir_of(&owner).filter(|dir| dir.join(exists).exists())
    });
    let dir = dir.await.unwrap();
    assert_ne!(processes_in(&dir), Vec::<PathBuf>::new());
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until_gone(&dir).await;
}

/// The directory of a cluster has the pid of its owner in its name.
fn dir_of(owner: &Child) -> Option<PathBuf> {
    let prefix = format!("dynamo-cluster-{}-", owner.id());
    let parents = [Path::new("/dev/shm").to_owned(), std::env::temp_dir()];
    let mut entries = parents.iter().flat_map(fs::read_dir).flatten().flatten();
    entries.find(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).map(|entry| entry.path())
}

#[tokio::test]
async fn killed_when_all_runs() {
    kill_owner_when("ready").await;
}

#[tokio::test]
async fn killed_while_it_starts() {
    kill_owner_when("pids/etcd").await;
    kill_owner_when("supervisor").await;
}
