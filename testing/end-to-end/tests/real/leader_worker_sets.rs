//! Graphs on the real manager of LeaderWorkerSets.

use std::path::PathBuf;

use end_to_end::BoxError;
use serde_json::{Value, json};
use test_cluster::{Place, Program, assets::Tool, lws};

use crate::{
    bench::{Shared, Software},
    program, scenarios, scripts,
};

/// The manager.
struct Manager;

static BENCH: Shared = Shared::const_new();

impl Software for Manager {
    const NAME: &'static str = lws::NAME;
    const PODS: usize = 2;
    const MISSING: usize = 0;

    fn executable() -> Result<Option<PathBuf>, BoxError> {
        program(Tool::LwsManager)
    }

    fn definitions() -> Result<Vec<Value>, BoxError> {
        Ok(lws::definitions()?)
    }

    fn webhooks() -> Result<Vec<Value>, BoxError> {
        Ok(lws::webhooks()?)
    }

    fn start(executable: PathBuf, place: &Place) -> Result<Program, BoxError> {
        Ok(lws::program(executable, place)?)
    }

    fn probe() -> Value {
        json!({
            "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": { "name": "probe" },
            "spec": { "leaderWorkerTemplate": { "workerTemplate": { "spec": { "containers": [
                { "name": "main", "image": "registry.example/probe:1" },
            ] } } } },
        })
    }

    fn workers() -> Value {
        json!({ "multinode": { "nodeCount": 2 } })
    }
}

#[tokio::test]
async fn a_graph_starts_scales_and_rolls_on_leader_worker_sets() -> Result<(), BoxError> {
    scenarios::life::<Manager>(&BENCH).await
}

#[tokio::test]
async fn a_graph_survives_the_webhooks_of_leader_worker_sets() -> Result<(), BoxError> {
    scenarios::webhooks_away::<Manager>(&BENCH).await
}

#[tokio::test]
async fn hanging_webhooks_of_leader_worker_sets_are_reported() -> Result<(), BoxError> {
    scenarios::webhooks_hang::<Manager>(&BENCH).await
}

#[tokio::test]
async fn a_stuck_rollout_on_leader_worker_sets_names_the_reason_and_reverts() -> Result<(), BoxError> {
    scenarios::stuck_rollout::<Manager>(&BENCH).await
}

#[tokio::test]
async fn a_rollout_on_leader_worker_sets_survives_the_death_of_either_side() -> Result<(), BoxError> {
    scenarios::deaths::<Manager>(&BENCH).await
}

#[tokio::test]
async fn no_script_on_leader_worker_sets_takes_capacity_away() -> Result<(), BoxError> {
    scripts::play::<Manager>(&BENCH).await
}
