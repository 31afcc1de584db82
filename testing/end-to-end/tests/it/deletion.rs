//! Deleting a graph, in each of the three ways, while the controllers watch.

use std::time::Duration;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use end_to_end::{BoxError, Harness, Operators, harness};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use test_cluster::wait;

use crate::graphs::disaggregated;

const PATIENCE: Duration = Duration::from_secs(120);

async fn deployed(harness: &Harness) -> Result<(), BoxError> {
    harness.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    harness.ready("chat").await?;
    Ok(())
}

/// Waits until nothing of the graph is left.
async fn nothing_left(harness: &Harness) -> Result<(), BoxError> {
    let probe = async || {
        let inventory = harness.inventory().await.map_err(|e| e.to_string())?;
        let graphs =
            harness.api::<DynamoGraphDeployment>().list(&ListParams::default()).await.map_err(|e| e.to_string())?;
        if inventory.is_empty() && graphs.items.is_empty() { Ok(()) } else { Err(inventory.join(", ")) }
    };
    wait::until("an empty namespace", PATIENCE, probe).await?;
    Ok(())
}

#[tokio::test]
async fn background_and_foreground_leave_nothing_behind() -> Result<(), BoxError> {
    let harness = harness("delete").await?;
    let _operators = Operators::of(&harness).await?;
    for how in [DeleteParams::background(), DeleteParams::foreground()] {
        deployed(&harness).await?;
        harness.api::<DynamoGraphDeployment>().delete("chat", &how).await?;
        nothing_left(&harness).await?;
    }
    let accounts = harness.api::<ServiceAccount>();
    let gone = async || match accounts.get_opt("chat-k8s-service-discovery").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    };
    wait::until("the discovery account to go", PATIENCE, gone).await?;
    Ok(())
}

#[tokio::test]
async fn orphans_stay_and_are_adopted_by_the_next_graph_of_the_name() -> Result<(), BoxError> {
    let harness = harness("orphan").await?;
    let _operators = Operators::of(&harness).await?;
    deployed(&harness).await?;
    let before = harness.components().await?;
    harness.api::<DynamoGraphDeployment>().delete("chat", &DeleteParams::orphan()).await?;
    let components = harness.api::<DynamoComponentDeployment>();
    let orphaned = async || {
        let list = components.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
        let owned = list.iter().filter(|d| !d.owner_references().is_empty()).count();
        let graph = harness.api::<DynamoGraphDeployment>().get_opt("chat").await.map_err(|e| e.to_string())?;
        if owned == 0 && list.items.len() == 3 && graph.is_none() {
            Ok(())
        } else {
            Err(format!("{owned} of {} owned, graph there: {}", list.items.len(), graph.is_some()))
        }
    };
    wait::until("three orphans", PATIENCE, orphaned).await?;

    deployed(&harness).await?;
    let after = harness.components().await?;
    let identity =
        |list: &[DynamoComponentDeployment]| list.iter().map(|d| (d.name_any(), d.uid())).collect::<Vec<_>>();
    assert_eq!(identity(&after), identity(&before), "the same objects, no second set");
    assert!(after.iter().all(|d| d.owner_references().len() == 1));
    Ok(())
}

#[tokio::test]
async fn the_finalizer_of_another_operator_blocks_no_deletion() -> Result<(), BoxError> {
    let harness = harness("finalizer").await?;
    let _operators = Operators::of(&harness).await?;
    deployed(&harness).await?;
    let finalizers = json!({ "metadata": { "finalizers": ["nvidia.com/finalizer"] } });
    let merge = (PatchParams::default(), Patch::Merge(&finalizers));
    harness.api::<DynamoGraphDeployment>().patch("chat", &merge.0, &merge.1).await?;
    for d in harness.components().await? {
        harness.api::<DynamoComponentDeployment>().patch(&d.name_any(), &merge.0, &merge.1).await?;
    }
    harness.api::<DynamoGraphDeployment>().delete("chat", &DeleteParams::foreground()).await?;
    nothing_left(&harness).await
}
