//! Clusters start, run side by side, survive a loss of their API server, and go without a trace.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{fs, path::Path, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use test_cluster::{AUDIT_DIR_ENV, Cluster, Controllers, Error, Options, Program, Signal, wait};

mod common;
use common::{processes_in, wait_until_gone};

/// etcd and API server alone start fastest.
fn bare() -> Options {
    Options { controllers: Controllers::Off, ..Options::default() }
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() }, ..Default::default() }
}

#[tokio::test]
async fn clusters_side_by_side_share_nothing_and_leave_nothing() {
    let (one, two) = tokio::join!(Cluster::start(Options::with_nodes(2)), Cluster::start(bare()));
    let (one, two) = (one.unwrap(), two.unwrap());
    let dirs = [one.dir().to_owned(), two.dir().to_owned()];
    assert_ne!(one.server(), two.server());
    assert_eq!(fs::metadata(one.kubeconfig()).map(|file| mode(&file)).unwrap(), 0o600);

    let nodes: Api<Node> = Api::all(one.client().unwrap());
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let gpus =
        |node: &Node| node.status.as_ref()?.allocatable.as_ref()?.get("nvidia.com/gpu").map(|gpus| gpus.0.clone());
    assert_eq!(nodes.iter().map(gpus).collect::<Vec<_>>(), vec![Some("8".to_owned()); 2]);
    let nodes: Api<Node> = Api::all(two.client().unwrap());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 0);

    one.stop().await.unwrap();
    assert_eq!((dirs[0].exists(), processes_in(&dirs[0])), (false, vec![]));
    assert!(two.process("kube-apiserver").is_some(), "stopping one cluster must not touch the other");
    drop(two);
    assert_eq!((dirs[1].exists(), processes_in(&dirs[1])), (false, vec![]));
}

#[tokio::test]
async fn the_api_server_comes_back_with_its_data() {
    let cluster = Cluster::start(Options { audit: true, ..bare() }).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().unwrap(), "default");
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    let first = cluster.process("kube-apiserver").unwrap();
    let server = cluster.server();

    cluster.stop_apiserver().await.unwrap();
    assert!(!first.is_running());
    assert!(maps.get("kept").await.is_err());
    cluster.start_apiserver().await.unwrap();
    assert_eq!(cluster.server(), server);
    assert_eq!(maps.get("kept").await.unwrap().metadata.name.as_deref(), Some("kept"));

    let log = fs::read_to_string(cluster.audit_log().unwrap()).unwrap();
    let created = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let created = created.filter(|event| event["verb"] == "create" && event["objectRef"]["name"] == "kept");
    assert_eq!(created.map(|event| event["user"]["username"].clone()).collect::<Vec<_>>(), ["admin"]);
}

#[tokio::test]
async fn a_detached_cluster_is_found_again_and_taken_down() {
    let cluster = Cluster::start(bare()).await.unwrap();
    let kept = std::env::var_os(AUDIT_DIR_ENV).is_some_and(|dir| !dir.is_empty());
    assert!(kept || matches!(cluster.audit_log(), Err(Error::NoAuditLog)));
    let dir = cluster.detach().await.unwrap();

    let again = Cluster::attach(&dir).await.unwrap();
    let sleeper = Program { name: "sleeper".into(), executable: "sleep".into(), args: vec!["600".into()], env: vec![] };
    let process = again.run(&sleeper).await.unwrap();
    again.stop_program("sleeper", Signal::Terminate).await.unwrap();
    assert!(!process.is_running());
    again.run(&sleeper).await.unwrap();
    drop(again);

    let maps: Api<ConfigMap> = Api::namespaced(Cluster::attach(&dir).await.unwrap().client().unwrap(), "default");
    maps.create(&PostParams::default(), &config_map("alive")).await.unwrap();
    Cluster::down(&dir).await.unwrap();
    assert_eq!((dir.exists(), processes_in(&dir)), (false, vec![]));
    assert!(matches!(Cluster::attach(&dir).await, Err(Error::NotRunning(_))));
    Cluster::down(&dir).await.unwrap();
}

#[tokio::test]
async fn what_a_killed_supervisor_leaves_is_taken_down() {
    let dir = Cluster::start(bare()).await.unwrap().detach().await.unwrap();
    let record = fs::read_to_string(dir.join("supervisor")).unwrap();
    let supervisor = record.split(' ').next().unwrap();
    let killed = std::process::Command::new("sh").args(["-c", &format!("kill -KILL {supervisor}")]).status().unwrap();
    assert!(killed.success());
    let gone = || async { (!Path::new("/proc").join(supervisor).join("cwd").exists()).then_some(()) };
    wait::until("the supervisor to be gone", Duration::from_secs(60), gone).await.unwrap();
    // A record of a pid that now belongs to another process: it must survive.
    let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    fs::write(dir.join("pids/reused"), format!("{} 1\n", bystander.id())).unwrap();

    Cluster::down(&dir).await.unwrap();
    wait_until_gone(&dir).await;
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn a_program_that_ends_is_reported_with_its_log() {
    let options = Options { apiserver_args: vec!["--no-such-flag".into()], ..bare() };
    let error = Cluster::start(options).await.unwrap_err();
    assert!(matches!(&error, Error::Died { name, .. } if name == "kube-apiserver"), "{error}");
    assert!(error.to_string().contains("no-such-flag"), "{error}");
}

/// The garbage collector looks for new kinds only every 30 s; those of CRDs that were there before it are known to it.
#[tokio::test]
async fn children_of_custom_resources_are_collected_from_the_start() {
    let controllers = Controllers::Only(vec!["garbage-collector-controller".to_owned()]);
    let cluster = Cluster::start(Options { controllers, crds: vec![parents()], ..Options::default() }).await.unwrap();
    let parent = json!({"apiVersion": "test-cluster.example/v1", "kind": "Parent",
        "metadata": {"name": "parent", "namespace": "default"}});
    cluster.apply(&[parent]).await.unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("test-cluster.example", "v1", "Parent"));
    let client = cluster.client().unwrap();
    let parents: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let uid = parents.get("parent").await.unwrap().metadata.uid;
    let owner = json!({"apiVersion": "test-cluster.example/v1", "kind": "Parent", "name": "parent", "uid": uid});
    let child = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "child", "namespace": "default", "ownerReferences": [owner]}});
    cluster.apply(&[child]).await.unwrap();

    parents.delete("parent", &DeleteParams::background()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    wait::until("the child to be collected", Duration::from_secs(25), async || match maps.get_opt("child").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
}

fn parents() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "parents.test-cluster.example"},
        "spec": {
            "group": "test-cluster.example",
            "scope": "Namespaced",
            "names": {"kind": "Parent", "plural": "parents", "singular": "parent"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

fn mode(file: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777
}
