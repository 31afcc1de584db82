//! Members on a simulated API server: processes are killed, stopped, paused and started, messages are late and lost,
//! watches hang, clocks differ in offset and rate, and the API server is away.
//!
//! `DYNAMO_SHARD_SCHEDULES` is the number of schedules (default 40), `DYNAMO_SHARD_SEED` the first seed.

mod cluster;
mod model;

use self::cluster::SimulatedCluster;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Never do two processes act in one namespace, and none is without an owner for longer than the bound.
#[test]
fn a_namespace_has_one_owner_whatever_happens() {
    let (first, schedules) = (variable("DYNAMO_SHARD_SEED", 1), variable("DYNAMO_SHARD_SCHEDULES", 40));
    let mut moves = 0;
    let mut longest = 0;
    for seed in first..first + schedules {
        let outcome = SimulatedCluster::new(seed).run();
        if let Err(fault) = &outcome.fault {
            panic!("seed {seed}: {fault}\n{}", outcome.log.join("\n"));
        }
        moves += outcome.gains;
        longest = longest.max(outcome.longest_without_owner);
    }
    assert!(moves >= schedules, "places move in every schedule: {moves} in {schedules}");
    println!("{schedules} schedules: {moves} gains, at most {longest} ms without an owner after the last disturbance");
}
