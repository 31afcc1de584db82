//! Nothing to do means nothing is sent.

use std::{collections::BTreeMap, time::Duration};

use end_to_end::{BoxError, Harness, Operators, harness, private_harness};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::core::ApiResource;
use serde_json::Value;

use crate::graphs::disaggregated;

/// Long enough for every periodic request that would be a defect; short enough for each test run.
const IDLE: Duration = Duration::from_secs(20);

/// Requests of the controllers of one namespace by `verb resource`, from the audit log.
pub fn requests(harness: &Harness) -> Result<BTreeMap<String, usize>, BoxError> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(harness.cluster.audit_log()?)?.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let ours = text("/userAgent").starts_with("dynamo-") && text("/objectRef/namespace") == harness.ns();
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
    let harness = harness("idle").await?;
    let _operators = Operators::configured(&harness).await?;
    harness.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    harness.ready("chat").await?;
    let before = requests(&harness)?;
    let once = [
        ("serviceaccounts", 1),
        ("rolebindings", 1),
        ("dynamocomponentdeployments", 3),
        ("deployments", 3),
        ("services", 3),
    ];
    for (resource, objects) in once {
        assert_eq!(before.get(&format!("patch {resource}")), Some(&objects), "each object is written once: {before:?}");
    }
    assert!(!before.keys().any(|request| request.ends_with(" roles")), "graphs share one role: {before:?}");
    // Silence can only be observed by listening for a while.
    tokio::time::sleep(IDLE).await;
    assert_eq!(requests(&harness)?, before);
    Ok(())
}

/// Longer than the first pauses between two looks for what the cluster does not serve: 10, 20 and 40 s.
const LOOKS: Duration = Duration::from_secs(45);

/// All requests of the controllers of a control plane, but watches, by program, verb and path.
fn all_requests(harness: &Harness) -> Result<BTreeMap<String, usize>, BoxError> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(harness.cluster.audit_log()?)?.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (agent, verb) = (text("/userAgent").split('/').next().unwrap_or_default(), text("/verb"));
        if agent.starts_with("dynamo-") && verb != "watch" {
            let path = text("/requestURI").split('?').next().unwrap_or_default();
            *counts.entry(format!("{agent} {verb} {path}")).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Long enough for the log of a write whose effect is visible already.
const REST: Duration = Duration::from_secs(2);

/// Time within which a ready graph must cause no more writes.
const REST_LIMIT: Duration = Duration::from_secs(20);

/// All requests, once no controller has written anything for [`REST`].
async fn requests_at_rest(harness: &Harness) -> Result<BTreeMap<String, usize>, BoxError> {
    let writes = |all: &BTreeMap<String, usize>| -> usize {
        all.iter().filter(|(request, _)| request.contains(" patch ")).map(|(_, count)| count).sum()
    };
    let mut before = all_requests(harness)?;
    loop {
        tokio::time::sleep(REST).await;
        let after = all_requests(harness)?;
        if writes(&after) == writes(&before) {
            return Ok(after);
        }
        before = after;
    }
}

/// The remaining requests are lookups of APIs that the cluster does not serve, which become rare.
#[tokio::test]
async fn a_steady_state_has_no_requests_but_for_missing_apis() -> Result<(), BoxError> {
    let harness = private_harness("looks").await?;
    let _operators = Operators::configured(&harness).await?;
    harness.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    harness.ready("chat").await?;
    let before = tokio::time::timeout(REST_LIMIT, requests_at_rest(&harness)).await??;
    tokio::time::sleep(LOOKS).await;
    let after = all_requests(&harness)?;
    let more = after.iter().filter_map(|(request, count)| {
        let more = count - before.get(request).copied().unwrap_or_default();
        (more > 0).then_some((request.as_str(), more))
    });
    let looks: Vec<_> = more.collect();
    println!("in {LOOKS:?}: {looks:?}");
    assert!(!looks.is_empty(), "the cluster has no gateways: {after:?}");
    for (request, count) in &looks {
        let path = request.rsplit(' ').next().unwrap_or_default();
        assert!(path == "/apis" || (path.starts_with("/apis/") && path.split('/').count() == 4), "{looks:?}");
        assert!(*count <= 2, "pauses grow: {looks:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_same_yaml_again_writes_to_no_child() -> Result<(), BoxError> {
    let harness = harness("again").await?;
    let operators = Operators::of(&harness).await?;
    let graph = disaggregated("chat", "1.0.0", 1, 1);
    harness.apply(&graph).await?;
    harness.ready("chat").await?;
    let kinds = [
        ApiResource::erase::<api_types::v1beta1::DynamoComponentDeployment>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Service>(&()),
    ];
    let mut before = Vec::new();
    for kind in &kinds {
        before.push(harness.versions(kind, "chat").await?);
    }
    harness.apply(&graph).await?;
    // A restart makes both controllers look at everything again.
    operators.stop().await?;
    operators.start_again().await?;
    // A graph that comes later is reconciled later: when it is ready, the first one has been looked at.
    harness.apply(&disaggregated("later", "1.0.0", 1, 1)).await?;
    harness.ready("later").await?;
    for (kind, before) in kinds.iter().zip(before) {
        assert_eq!(harness.versions(kind, "chat").await?, before, "{}", kind.kind);
    }
    Ok(())
}
