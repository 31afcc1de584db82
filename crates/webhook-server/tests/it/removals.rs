//! Removal of the fields that a user removes from a manifest, with all controllers running, for each way in which
//! kubectl writes and in both versions.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use test_cluster::{
    Program, TestNamespace,
    assets::{Assets, Tool},
    wait,
};

use crate::{
    common::objects,
    harness,
    managers::{IMAGE, graph},
    namespace,
    versions::VERSIONS,
};

const LIMIT: Duration = Duration::from_secs(90);
const CONTROLLERS: [&str; 3] = ["graph-controller", "component-controller", "model-controller"];
const APPLY: &[&str] = &["apply"];
const SERVER_SIDE: &[&str] = &["apply", "--server-side"];
const REPLACE: &[&str] = &["replace"];

/// Starts the controllers for a namespace. They end with the control plane.
async fn start_controllers(namespace: &TestNamespace) {
    let cluster = harness().await.install.cluster;
    for name in CONTROLLERS {
        let executable = Path::new(env!("CARGO_BIN_EXE_webhook-server")).with_file_name(name);
        assert!(executable.exists(), "{} is missing; run: cargo build -p {name}", executable.display());
        let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
        let addresses = ["--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--log-format=text"];
        let args = [kubeconfig, format!("--namespace={}", namespace.name())].into_iter();
        let args = args.chain(addresses.map(str::to_owned)).collect();
        let name = format!("{name}-{}", namespace.name());
        cluster.run(&Program { name, executable, args, env: vec![] }).await.unwrap();
    }
}

/// Writes a manifest. `kubectl replace` fails when a controller writes between its read and its write, and is repeated,
/// as a user does.
async fn kubectl(namespace: &TestNamespace, kubeconfig: &Path, command: &[&str], manifest: &Value) {
    wait::until(format!("kubectl {command:?}"), LIMIT, async || {
        let written = write_once(namespace, kubeconfig, command, manifest);
        if let Err(error) = &written {
            assert!(error.contains("(Conflict)"), "{command:?}: {error}");
        }
        written
    })
    .await
    .unwrap();
}

fn write_once(namespace: &TestNamespace, kubeconfig: &Path, command: &[&str], manifest: &Value) -> Result<(), String> {
    let program = Assets::from_env().unwrap().find(Tool::Kubectl).unwrap();
    let mut child = Command::new(program)
        .args(command)
        .args(["--filename=-", "--validate=false", "--namespace", namespace.name(), "--kubeconfig"])
        .arg(kubeconfig)
        .env("KUBECACHEDIR", kubeconfig.with_file_name("kubectl-cache"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), manifest.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A graph with a variable, an ingress (which v1alpha1 has), a scaling adapter and annotations that may be
/// removed. Components stay: admission refuses to remove one.
fn manifest(version: &str, name: &str, whole: bool) -> Value {
    let env = |names: &[&str]| -> Value { names.iter().map(|name| json!({ "name": name, "value": "1" })).collect() };
    let variables = env(if whole { &["KEPT", "GONE"] } else { &["KEPT"] });
    let mut spec = if version == "v1alpha1" {
        let service = |kind: &str| json!({ "componentType": kind, "replicas": 1, "extraPodSpec": { "mainContainer": { "image": IMAGE } } });
        let (mut frontend, mut worker) = (service("frontend"), service("worker"));
        worker["extraPodSpec"]["mainContainer"]["env"] = variables;
        if whole {
            frontend["ingress"] = json!({ "enabled": true, "host": "chat.example.com" });
            worker["scalingAdapter"] = json!({ "enabled": true });
            worker["extraPodMetadata"] = json!({ "annotations": { "example.com/gone": "1" } });
        }
        json!({ "services": { "Frontend": frontend, "Worker": worker } })
    } else {
        let component = |name: &str, kind: &str| {
            let containers = json!([{ "name": "main", "image": IMAGE }]);
            json!({ "name": name, "type": kind, "replicas": 1, "podTemplate": { "spec": { "containers": containers } } })
        };
        let mut worker = component("Worker", "worker");
        worker["podTemplate"]["spec"]["containers"][0]["env"] = variables;
        if whole {
            worker["scalingAdapter"] = json!({});
            worker["podTemplate"]["metadata"] = json!({ "annotations": { "example.com/gone": "1" } });
        }
        json!({ "components": [component("Frontend", "frontend"), worker] })
    };
    spec["backendFramework"] = json!("vllm");
    let mut graph = graph(version, name, &spec);
    graph["metadata"]["labels"] = json!({ "example.com/team": "a" });
    graph
}

/// Returns the parts of a graph, and of the objects that the controllers created from it, that the reduced manifest
/// does not request.
async fn left(namespace: &TestNamespace, version: &str, name: &str) -> Result<Vec<String>, String> {
    let list = async |kind: &str| -> Result<Vec<DynamicObject>, String> {
        let all = objects(namespace, kind, "v1beta1").list(&ListParams::default()).await;
        let mine = |object: &DynamicObject| object.metadata.name.as_ref().is_some_and(|its| its.starts_with(name));
        Ok(all.map_err(|error| error.to_string())?.items.into_iter().filter(mine).collect())
    };
    let mut left = Vec::new();
    let components = list("DynamoComponentDeployment").await?;
    let worker = components.iter().filter(|component| component.data["spec"]["name"] == "Worker");
    // Until the rollout ends, the revision of the first manifest is there, too; it says more.
    let text = worker.map(|component| component.data["spec"].to_string()).min_by_key(String::len).ok_or("no worker")?;
    if !text.contains("KEPT") {
        return Err(format!("no variable is left: {text}"));
    }
    left.extend(["GONE", "example.com/gone"].into_iter().filter(|word| text.contains(word)).map(str::to_owned));
    if !list("DynamoGraphDeploymentScalingAdapter").await?.is_empty() {
        left.push("adapter".to_owned());
    }
    let spec = objects(namespace, "DynamoGraphDeployment", version).get(name).await.map_err(|e| e.to_string())?.data;
    let words = ["GONE", "example.com/gone", "chat.example.com"].into_iter();
    left.extend(
        words.filter(|word| spec["spec"].to_string().contains(word)).map(|word| format!("{word} in the graph")),
    );
    Ok(left)
}

#[tokio::test]
async fn what_is_removed_from_a_manifest_goes_with_all_controllers_running() {
    let namespace = namespace("removals").await;
    start_controllers(&namespace).await;
    let kubeconfig = harness().await.install.cluster.kubeconfig();
    for version in VERSIONS {
        let everything = if version == "v1alpha1" { 6 } else { 5 };
        for (number, [first, then]) in [
            [APPLY, APPLY],
            [SERVER_SIDE, SERVER_SIDE],
            [APPLY, REPLACE],
            [APPLY, SERVER_SIDE],
            [SERVER_SIDE, APPLY],
            [SERVER_SIDE, REPLACE],
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("{version}-{number}");
            kubectl(&namespace, kubeconfig, first, &manifest(version, &name, true)).await;
            let all = async || match left(&namespace, version, &name).await {
                Ok(left) if left.len() == everything => Ok(()),
                other => Err(format!("{other:?}")),
            };
            wait::until(format!("{name} to be there as a whole"), LIMIT, all).await.unwrap();
            if first == SERVER_SIDE && then == APPLY {
                // kubectl has no record of the last manifest; it warns, and records this one.
                kubectl(&namespace, kubeconfig, then, &manifest(version, &name, true)).await;
            }
            kubectl(&namespace, kubeconfig, then, &manifest(version, &name, false)).await;
            let none = async || match left(&namespace, version, &name).await {
                Ok(left) if left.is_empty() => Ok(()),
                other => Err(format!("{other:?}")),
            };
            let what = format!("what {then:?} after {first:?} removed to be gone in {version}");
            wait::until(what, LIMIT, none).await.unwrap();
        }
    }
}
