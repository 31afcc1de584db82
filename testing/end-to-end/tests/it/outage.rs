//! An API server that goes away. This test has a control plane of its own to break.

use std::time::Duration;

use end_to_end::{BoxError, Operators, private_world};

use crate::graphs::disaggregated;

/// As long as the requirement says.
const OUTAGE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn half_a_minute_without_api_server_loses_nothing() -> Result<(), BoxError> {
    let world = private_world("outage").await?;
    let operators = Operators::of(&world).await?;
    world.apply(&disaggregated("chat", "1.0.0", 1, 2)).await?;
    let before = world.ready("chat").await?;
    let pods = world.inventory().await?;

    world.cluster.stop_apiserver().await?;
    // The length of the outage is what is tested; there is no condition to wait for while no API server answers.
    tokio::time::sleep(OUTAGE).await;
    world.cluster.start_apiserver().await?;

    let after = world.ready("chat").await?;
    assert_eq!(world.inventory().await?, pods);
    assert_eq!(after.status.map(|s| s.conditions), before.status.map(|s| s.conditions), "an outage is no news");
    world.apply(&disaggregated("chat", "2.0.0", 1, 2)).await?;
    world.ready("chat").await?;
    assert!(operators.running(), "the controllers lived through it");
    Ok(())
}
