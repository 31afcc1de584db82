//! Controllers that restart beside an API server whose watch cache is held back: two API servers use one etcd, no event
//! reaches the second one, and the controllers move to it in the middle of a rollout. In each phase of a rollout,
//! serving workers never fall below what the strategy allows.
//!
//! `DYNAMO_HELD_RUNS` is the number of rollouts [default: 2], `DYNAMO_ROLLOUT_SEED` the first seed.

use std::{sync::Arc, time::Duration};

use end_to_end::{BoxError, Operators, private_harness};
use tokio::time::sleep;

use crate::scripts::{DesiredGraph, Dice, Guard, Kind, NAMES, TAGS, setting};

#[tokio::test]
async fn a_restart_beside_an_old_watch_cache_takes_no_capacity_away() -> Result<(), BoxError> {
    let (first, runs) = (setting("DYNAMO_ROLLOUT_SEED", 1)?, setting("DYNAMO_HELD_RUNS", 2)?);
    let harness = Arc::new(private_harness("held").await?);
    let server = harness.cluster.held_apiserver().await?;
    let operators = Operators::of(&harness).await?;
    let mut desired = DesiredGraph::new(Kind::Deployment, 0, 4);
    desired.prefill = 2;
    harness.apply(&desired.graph(NAMES[0])).await?;
    harness.ready(NAMES[0]).await?;
    let guard = Guard::start(&harness, Kind::Deployment);
    for seed in first..first + runs {
        let mut dice = Dice(seed);
        let reverts = dice.below(2) == 0;
        let [phase, blind, held] = [4000, 2000, 4000].map(|most| Duration::from_millis(dice.below(most)));
        guard.raise(desired).await;
        let before = desired.tag;
        desired.tag = (desired.tag + 1) % TAGS.len();
        harness.apply(&desired.graph(NAMES[0])).await?;
        sleep(phase).await;
        server.hold();
        if reverts {
            desired.tag = before;
            harness.apply(&desired.graph(NAMES[0])).await?;
        }
        sleep(blind).await;
        operators.stop().await?;
        let moved = Operators::start(&harness, server.kubeconfig(), server.kubeconfig()).await?;
        sleep(held).await;
        server.release();
        let run = format!(
            "seed {seed}: held after {phase:?}, restarted after {blind:?} more, released after {held:?} more, reverts: {reverts}"
        );
        harness.ready(NAMES[0]).await.map_err(|error| format!("{run}: {error}"))?;
        if guard.is_finished() {
            return guard.end().await.map_err(|error| format!("{run}: {error}").into());
        }
        println!("{run}");
        moved.stop().await?;
        operators.start_again().await?;
    }
    guard.end().await?;
    operators.stop().await
}
