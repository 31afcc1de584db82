//! An API server that goes away. This test has a control plane of its own to break.

use std::time::Duration;

use end_to_end::{BoxError, Operators, private_harness};

use crate::graphs::disaggregated;

/// As long as the requirement says.
const OUTAGE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn half_a_minute_without_api_server_loses_nothing() -> Result<(), BoxError> {
    let harness = private_harness("outage").await?;
    let operators = Operators::of(&harness).await?;
    harness.apply(&disaggregated("chat", "1.0.0", 1, 2)).await?;
    let before = harness.ready("chat").await?;
    let pods = harness.inventory().await?;

    harness.cluster.stop_apiserver().await?;
    // The length of the outage is what is tested; there is no condition to wait for while no API server answers.
    tokio::time::sleep(OUTAGE).await;
    harness.cluster.start_apiserver().await?;

    let after = harness.ready("chat").await?;
    assert_eq!(harness.inventory().await?, pods);
    assert_eq!(after.status.map(|s| s.conditions), before.status.map(|s| s.conditions), "an outage is no news");
    harness.apply(&disaggregated("chat", "2.0.0", 1, 2)).await?;
    harness.ready("chat").await?;
    assert!(operators.running(), "the controllers lived through it");
    Ok(())
}
