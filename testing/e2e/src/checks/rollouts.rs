//! Rollouts that their user or the operator holds and takes back.

use std::collections::BTreeMap;

use anyhow::Result;
use api_types::{annotations, rollout_control};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use test_cluster::wait;

use super::TEAM;
use crate::harness::{Harness, PATIENCE, containers, graph};

const GRAPH: &str = "controlled";
const WORKERS: u32 = 3;

/// A rollout is held at its first worker, paused, undone, and undone by its deadline; as many workers serve as the
/// default strategy promises.
pub(super) async fn rollout_control(harness: &Harness) -> Result<()> {
    apply(harness, "1", None, json!({})).await?;
    harness.ready(TEAM, GRAPH).await?;

    apply(harness, "2", None, json!({ annotations::ROLLOUT_STEP: "1" })).await?;
    reached(harness, &[("1", WORKERS - 1), ("2", 1)], "RolloutHeld").await?;
    apply(harness, "2", None, json!({ annotations::ROLLOUT: rollout_control::PAUSED })).await?;
    reached(harness, &[("1", WORKERS - 1), ("2", 1)], "RolloutPaused").await?;
    apply(harness, "2", None, json!({ annotations::ROLLOUT: rollout_control::UNDONE })).await?;
    reached(harness, &[("1", WORKERS)], "RolloutUndone").await?;
    apply(harness, "1", None, json!({})).await?;
    harness.ready(TEAM, GRAPH).await?;

    let missing = Some("localhost/e2e/there-is-none:e2e");
    apply(harness, "3", missing, json!({ annotations::PROGRESS_DEADLINE: "15s" })).await?;
    reached(harness, &[("1", WORKERS)], "RolloutUndone").await?;
    harness.delete(TEAM, GRAPH).await
}

async fn apply(harness: &Harness, revision: &str, image: Option<&str>, annotations: Value) -> Result<()> {
    let mut graph = graph(GRAPH, revision);
    graph["metadata"]["annotations"] = annotations;
    let worker = &mut graph["spec"]["components"][1];
    worker["replicas"] = json!(WORKERS);
    if let Some(image) = image {
        worker["podTemplate"]["spec"]["containers"][0]["image"] = json!(image);
    }
    harness.apply(TEAM, &graph).await?;
    Ok(())
}

/// Waits for numbers of ready workers by revision, and for a condition with a reason.
async fn reached(harness: &Harness, expected: &[(&str, u32)], reason: &str) -> Result<()> {
    let expected: BTreeMap<String, u32> = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    wait::until(format!("workers {expected:?} and {reason}"), PATIENCE, async || {
        let graph = harness.graphs(TEAM).get(GRAPH).await.map_err(|error| error.to_string())?;
        let conditions = graph.status.unwrap_or_default().conditions;
        let mut ready = BTreeMap::new();
        for pod in harness.serving(TEAM, GRAPH).await? {
            if let Some(revision) = worker_revision(&pod).filter(|_| containers(&pod).iter().any(|one| one.ready)) {
                *ready.entry(revision).or_default() += 1;
            }
        }
        match ready == expected && conditions.iter().any(|one| one.reason == reason) {
            true => Ok(()),
            false => Err(format!("ready are {ready:?}, {conditions:?}")),
        }
    })
    .await?;
    Ok(())
}

fn worker_revision(pod: &Pod) -> Option<String> {
    let name = pod.metadata.name.as_deref()?;
    let mut variables = pod.spec.as_ref()?.containers.iter().flat_map(|container| container.env.iter().flatten());
    let revision = variables.find(|variable| variable.name == "REVISION")?.value.clone();
    revision.filter(|_| name.contains("worker"))
}
