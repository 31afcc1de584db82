//! Of a cluster's pods the controllers keep as little as they can.

use std::collections::BTreeSet;

use api_types::labels;
use end_to_end::{BoxError, COMPONENT_CONTROLLER, Cut, GRAPH_CONTROLLER, KillingProxy, harness};

use crate::graphs::disaggregated;

/// Pods that are kept whole, by the label that is true for them: few, and their status is read.
const WHOLE: [&str; 2] = [labels::FAILOVER_ENGINE, labels::RESTORE_TARGET];

/// Reference: all pods of the cluster, whole, are in the operator's memory.
#[tokio::test]
async fn pods_are_watched_by_label_and_as_metadata() -> Result<(), BoxError> {
    let harness = harness("pods").await?;
    let graphs = KillingProxy::start(&harness, GRAPH_CONTROLLER, Cut::Never).await?;
    let components = KillingProxy::start(&harness, COMPONENT_CONTROLLER, Cut::Never).await?;
    harness.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    // Nothing becomes ready before every cache is complete.
    harness.ready("chat").await?;
    for proxy in [graphs, components] {
        let watches = proxy.watches().await;
        let pods: BTreeSet<_> = watches.iter().filter(|watched| watched.resource == "pods").collect();
        assert!(!pods.is_empty(), "the proxy has heard nothing of pods: {watches:?}");
        for watched in pods {
            assert!(!watched.labels.is_empty(), "all pods are watched: {watched:?}");
            let selector = |label: &str| format!("{label}={}", labels::TRUE).replace('/', "%2F").replace('=', "%3D");
            let may_be_whole = WHOLE.iter().any(|label| watched.labels == selector(label));
            assert!(watched.metadata_only || may_be_whole, "whole pods are watched: {watched:?}");
        }
    }
    Ok(())
}
