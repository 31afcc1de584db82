//! Nothing to do means nothing is sent.

use std::{collections::BTreeMap, time::Duration};

use end_to_end::{BoxError, Operators, World, world};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::core::ApiResource;
use serde_json::Value;

use crate::graphs::disaggregated;

/// Long enough for every periodic thing that would be a mistake; short enough for each test run.
const IDLE: Duration = Duration::from_secs(20);

/// Requests of the controllers of one namespace by `verb resource`, from the audit log.
pub fn requests(world: &World) -> Result<BTreeMap<String, usize>, BoxError> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(world.cluster.audit_log()?)?.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let ours = text("/userAgent").starts_with("dynamo-") && text("/objectRef/namespace") == world.ns();
        if ours && text("/verb") != "watch" {
            let part = match text("/objectRef/subresource") {
                part if part.is_empty() => part,
                part => format!("/{part}"),
            };
            *counts.entry(format!("{} {}{part}", text("/verb"), text("/objectRef/resource"))).or_default() += 1;
        }
    }
    Ok(counts)
}

#[tokio::test]
async fn a_ready_graph_causes_no_request() -> Result<(), BoxError> {
    let world = world("idle").await?;
    let _operators = Operators::of(&world).await?;
    world.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    world.ready("chat").await?;
    let before = requests(&world)?;
    let once = [
        ("serviceaccounts", 1),
        ("roles", 1),
        ("rolebindings", 1),
        ("dynamocomponentdeployments", 3),
        ("deployments", 3),
        ("services", 3),
    ];
    for (resource, objects) in once {
        assert_eq!(before.get(&format!("patch {resource}")), Some(&objects), "each object is written once: {before:?}");
    }
    // Silence can only be observed by listening for a while.
    tokio::time::sleep(IDLE).await;
    assert_eq!(requests(&world)?, before);
    Ok(())
}

#[tokio::test]
async fn the_same_yaml_again_writes_to_no_child() -> Result<(), BoxError> {
    let world = world("again").await?;
    let operators = Operators::of(&world).await?;
    let graph = disaggregated("chat", "1.0.0", 1, 1);
    world.apply(&graph).await?;
    world.ready("chat").await?;
    let kinds = [
        ApiResource::erase::<api_types::v1beta1::DynamoComponentDeployment>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Service>(&()),
    ];
    let mut before = Vec::new();
    for kind in &kinds {
        before.push(world.versions(kind, "chat").await?);
    }
    world.apply(&graph).await?;
    // A restart makes both controllers look at everything again.
    operators.stop().await?;
    operators.start_again().await?;
    // A graph that comes later is reconciled later: when it is ready, the first one has been looked at.
    world.apply(&disaggregated("later", "1.0.0", 1, 1)).await?;
    world.ready("later").await?;
    for (kind, before) in kinds.iter().zip(before) {
        assert_eq!(world.versions(kind, "chat").await?, before, "{}", kind.kind);
    }
    Ok(())
}
