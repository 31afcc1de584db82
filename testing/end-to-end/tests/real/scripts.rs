//! Random scripts of edits, reverts, images that no node takes, killed processes and webhooks that are away, on
//! software of others: workers serve throughout, and the end is as the last spec says. Not for Grove, which takes ready
//! pods when a rollout follows one that is stuck.
//!
//! `DYNAMO_ROLLOUT_SCRIPTS` says how many scripts run [default: 1], `DYNAMO_ROLLOUT_SEED` with which one they begin.

use std::time::Duration;

use end_to_end::BoxError;

use crate::{
    bench::{Shared, Software, TestSetup},
    is_full,
    scenarios::{FRONTEND, GRAPH, REPLICAS, graph, stuck},
    skipped,
};

const STEPS: u64 = 10;
/// Longest pause of a user between two steps, in milliseconds: shorter than a rollout, and longer.
const PAUSE: u64 = 6000;

/// A sequence that looks random and can be repeated.
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn number(variable: &str, otherwise: u64) -> Result<u64, BoxError> {
    Ok(std::env::var(variable).map_or(Ok(otherwise), |text| text.parse())?)
}

/// Plays the scripts that are chosen.
pub async fn play<S: Software>(shared: &'static Shared) -> Result<(), BoxError> {
    if !is_full() {
        skipped(&format!("random scripts with {}", S::NAME), "DYNAMO_REAL_SOFTWARE is not `full`");
        return Ok(());
    }
    let (first, count) = (number("DYNAMO_ROLLOUT_SEED", 0)?, number("DYNAMO_ROLLOUT_SCRIPTS", 1)?);
    for seed in first..first + count {
        let mut script = Vec::new();
        let outcome = one::<S>(shared, seed, &mut script).await;
        outcome.map_err(|error| format!("seed {seed}: {}: {error}", script.join(", ")))?;
    }
    Ok(())
}

async fn one<S: Software>(shared: &'static Shared, seed: u64, script: &mut Vec<String>) -> Result<(), BoxError> {
    let Some(setup) = TestSetup::new::<S>(shared, "script").await? else { return Ok(()) };
    let mut dice = Dice(seed);
    setup.run::<S>().await?;
    let frontend = setup.pods.of(FRONTEND);
    setup.pods.mark();
    let mut last = 1;
    for _ in 0..STEPS {
        let step = match dice.below(7) {
            0 | 1 => {
                last = 1 + dice.below(4);
                setup.harness.apply(&graph::<S>(GRAPH, &format!("{last}.0.0"), REPLICAS)).await?;
                format!("image {last}")
            }
            2 => {
                let tag = 1 + dice.below(4);
                setup.harness.apply(&stuck::<S>(GRAPH, &format!("{tag}.0.0"), REPLICAS)).await?;
                format!("image {tag} without a node")
            }
            3 => {
                setup.operators.stop().await?;
                setup.operators.start_again().await?;
                "our controllers die".to_owned()
            }
            4 => {
                setup.bench.kill_software().await?;
                "the other side dies".to_owned()
            }
            5 => {
                setup.bench.freeze_software()?;
                "the other side hangs".to_owned()
            }
            _ => {
                setup.bench.start_software().await?;
                "the other side is back".to_owned()
            }
        };
        script.push(step);
        let pause = dice.below(PAUSE);
        // The test is about changes in the middle of a rollout.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        setup.capacity_is_kept::<S>()?;
    }
    setup.bench.start_software().await?;
    setup.harness.apply(&graph::<S>(GRAPH, &format!("{last}.0.0"), REPLICAS)).await?;
    setup.settled(GRAPH).await?;
    setup.all_workers_run::<S>(&format!("{last}.0.0")).await?;
    let components = setup.harness.components().await?.len();
    if components > 2 || setup.pods.of(FRONTEND) != frontend {
        return Err(format!("{components} components are left, or the frontend is another").into());
    }
    setup.capacity_is_kept::<S>()?;
    setup.end()
}

impl TestSetup {
    fn capacity_is_kept<S: Software>(&self) -> Result<(), BoxError> {
        let (fewest, least) = (self.pods.fewest(), S::least(REPLICAS));
        if fewest >= least { Ok(()) } else { Err(format!("{fewest} of {least} pods served").into()) }
    }
}
