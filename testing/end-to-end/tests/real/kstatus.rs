//! kstatus of our kinds, from their first event on.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use end_to_end::{BoxError, Harness, Operators, harness};
use futures::StreamExt;
use kube::{
    api::{Api, DynamicObject, PostParams, WatchEvent, WatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use test_cluster::assets::Tool;
use tokio::time::timeout;

use crate::program;

const PATIENCE: Duration = Duration::from_secs(120);

/// The status of each object, by kstatus.
pub fn statuses(executable: &Path, objects: &[Value]) -> Result<Vec<String>, BoxError> {
    let mut child = Command::new(executable).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input: String = objects.iter().map(|object| format!("{object}\n")).collect();
    child.stdin.take().ok_or("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    assert!(output.status.success());
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

fn api(harness: &Harness, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("nvidia.com", version, kind));
    Api::namespaced_with(harness.client.clone(), harness.ns(), &resource)
}

fn graph() -> Value {
    let container = |image: &str| json!({ "name": "main", "image": image });
    json!({ "backendFramework": "vllm", "components": [
        { "name": "Frontend", "type": "frontend", "podTemplate": { "spec": { "containers": [container("f")] } } },
        { "name": "Decode", "type": "decode", "podTemplate": { "spec": { "containers": [container("d")] } } },
    ] })
}

/// A spec of every kind with conditions.
fn kinds() -> [(&'static str, &'static str, Value); 6] {
    let pod = json!({ "spec": { "containers": [{ "name": "main", "image": "i" }] } });
    [
        ("v1beta1", "DynamoGraphDeployment", graph()),
        (
            "v1beta1",
            "DynamoComponentDeployment",
            json!({ "name": "w", "type": "worker", "backendFramework": "vllm", "podTemplate": pod }),
        ),
        ("v1beta1", "DynamoGraphDeploymentRequest", json!({ "model": "m", "backend": "vllm", "image": "i" })),
        ("v1alpha1", "DynamoModel", json!({ "modelName": "m", "baseModelName": "m", "modelType": "base" })),
        (
            "v1alpha1",
            "DynamoCheckpoint",
            json!({ "identity": { "model": "m", "backendFramework": "vllm" }, "job": { "podTemplateSpec": pod } }),
        ),
        ("v1alpha1", "DynamoComponent", json!({ "dynamoComponent": "a:1" })),
    ]
}

#[tokio::test]
async fn a_new_object_of_every_kind_is_in_progress_before_any_controller_runs() -> Result<(), BoxError> {
    let Some(executable) = program(Tool::Kstatus)? else { return Ok(()) };
    let harness = harness("kstatus-new").await?;
    let mut created = Vec::new();
    for (version, kind, spec) in kinds() {
        let object = json!({ "apiVersion": format!("nvidia.com/{version}"), "kind": kind,
            "metadata": { "name": "new" }, "spec": spec });
        let object =
            api(&harness, version, kind).create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        created.push(serde_json::to_value(object)?);
    }
    for (object, status) in created.iter().zip(statuses(&executable, &created)?) {
        assert!(status.starts_with("InProgress "), "{}: {status}", object["kind"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_graph_is_in_progress_from_its_first_event_until_it_is_ready() -> Result<(), BoxError> {
    let Some(executable) = program(Tool::Kstatus)? else { return Ok(()) };
    let harness = harness("kstatus-graph").await?;
    let _operators = Operators::of(&harness).await?;
    let graphs = api(&harness, "v1beta1", "DynamoGraphDeployment");
    let mut events = graphs.watch(&WatchParams::default(), "0").await?.boxed();
    harness
        .apply(&json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "chat" }, "spec": graph() }))
        .await?;

    let mut seen = Vec::new();
    let ready = async {
        while let Some(event) = events.next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event? {
                let object = serde_json::to_value(object)?;
                let ready = object.pointer("/status/state") == Some(&json!("successful"));
                seen.push(object);
                if ready {
                    return Ok::<(), BoxError>(());
                }
            }
        }
        Err("the watch ended".into())
    };
    timeout(PATIENCE, ready).await??;
    let said = statuses(&executable, &seen)?;
    let (last, before) = said.split_last().unwrap();
    assert!(last.starts_with("Current "), "{said:?}");
    assert!(before.iter().all(|status| status.starts_with("InProgress ")), "{said:?}");
    Ok(())
}
