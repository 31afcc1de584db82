//! Workers whose replicas span nodes: their revisions change as those of any worker do. No controller here runs
//! LeaderWorkerSets, so a player brings their groups up, one after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::Duration,
};

use api_types::v1beta1::DynamoGraphDeployment;
use end_to_end::{BoxError, Harness, Operators, harness};
use kube::{
    ResourceExt,
    api::{Api, ListParams, Patch, PatchParams},
};
use rendering::LeaderWorkerSet;
use serde_json::{Value, json};
use test_cluster::wait;
use tokio::task::JoinHandle;

use crate::graphs::disaggregated;

const PATIENCE: Duration = Duration::from_secs(120);
/// Time in which a group becomes ready.
const PACE: Duration = Duration::from_millis(100);

/// Plays the controller of LeaderWorkerSets, and counts.
pub struct Player {
    task: JoinHandle<()>,
    counts: Arc<Counts>,
}

/// Totals of all sets, from the moment of arming.
struct Counts {
    armed: AtomicBool,
    /// Fewest groups that served.
    lowest: AtomicI32,
    /// Most groups that there were.
    highest: AtomicI32,
}

impl Player {
    pub fn start(harness: &Harness) -> Self {
        let counts = Arc::new(Counts {
            armed: AtomicBool::new(false),
            lowest: AtomicI32::new(i32::MAX),
            highest: AtomicI32::new(0),
        });
        let (sets, shared) = (harness.api::<LeaderWorkerSet>(), Arc::clone(&counts));
        let task = tokio::spawn(async move {
            loop {
                play(&sets, &shared).await;
                tokio::time::sleep(PACE).await;
            }
        });
        Self { task, counts }
    }

    fn count_from_now_on(&self) {
        self.counts.armed.store(true, Ordering::Relaxed);
    }

    /// Fewest groups that served, and most that there were.
    fn bounds(&self) -> (i32, i32) {
        (self.counts.lowest.load(Ordering::Relaxed), self.counts.highest.load(Ordering::Relaxed))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One group of each set comes up; those that are too many go at once.
async fn play(sets: &Api<LeaderWorkerSet>, counts: &Counts) {
    let Ok(all) = sets.list(&ListParams::default()).await else { return };
    let (mut serving, mut existing) = (0, 0);
    for set in &all {
        let expected = set.spec.replicas.unwrap_or(1);
        let before = set.status.clone().unwrap_or_default();
        let ready = expected.min(before.ready_replicas + 1);
        serving += ready.min(before.ready_replicas);
        existing += expected;
        let status = json!({
            "observedGeneration": set.metadata.generation,
            "replicas": expected, "readyReplicas": ready, "updatedReplicas": expected,
            "conditions": [{
                "type": "Available", "status": if ready == expected { "True" } else { "False" }, "reason": "Played",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        // A set that goes meanwhile has no status to write.
        let _ = sets
            .patch_status(&set.name_any(), &PatchParams::default(), &Patch::Merge(json!({ "status": status })))
            .await;
    }
    if counts.armed.load(Ordering::Relaxed) {
        counts.lowest.fetch_min(serving, Ordering::Relaxed);
        counts.highest.fetch_max(existing, Ordering::Relaxed);
    }
}

/// A graph whose decode workers span two nodes each.
pub fn spanning(tag: &str, replicas: i32) -> Value {
    let mut graph = disaggregated("chat", tag, 1, replicas);
    let decode = &mut graph["spec"]["components"][2];
    decode["multinode"] = json!({ "nodeCount": 2 });
    decode["podTemplate"]["spec"]["containers"][0]["args"] = json!(["exec python3 -m dynamo.vllm"]);
    graph
}

/// The sets that exist, with the image of their leaders.
async fn sets(harness: &Harness) -> Result<Vec<(String, String)>, BoxError> {
    let all = harness.api::<LeaderWorkerSet>().list(&ListParams::default()).await?;
    let image = |set: &LeaderWorkerSet| -> Option<String> {
        set.spec.leader_worker_template.leader_template.as_ref()?.spec.as_ref()?.containers[0].image.clone()
    };
    Ok(all.iter().map(|set| (set.name_any(), image(set).unwrap_or_default())).collect())
}

/// The namespace, unless LeaderWorkerSets cannot be had here.
pub async fn harness_with_sets(name: &str) -> Result<Option<Harness>, BoxError> {
    let harness = harness(name).await?;
    if harness.api::<LeaderWorkerSet>().list(&ListParams::default()).await.is_err() {
        println!("skipped: no definition of LeaderWorkerSets");
        return Ok(None);
    }
    Ok(Some(harness))
}

/// The reference leaves the old set running for ever, at full size.
#[tokio::test]
async fn an_edit_in_the_middle_of_an_edit_leaves_one_set_and_no_gap() -> Result<(), BoxError> {
    let Some(harness) = harness_with_sets("nodes-edit").await? else { return Ok(()) };
    let _operators = Operators::of(&harness).await?;
    let player = Player::start(&harness);
    harness.apply(&spanning("1.0.0", 4)).await?;
    harness.ready("chat").await?;
    player.count_from_now_on();
    harness.apply(&spanning("2.0.0", 4)).await?;
    let two = async || (sets(&harness).await.is_ok_and(|sets| sets.len() == 2)).then_some(()).ok_or("not two sets");
    wait::until("the second set", PATIENCE, two).await?;
    harness.apply(&spanning("3.0.0", 4)).await?;
    harness.ready("chat").await?;
    let left = sets(&harness).await?;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].1, "registry.example/decode:3.0.0");
    let (lowest, highest) = player.bounds();
    assert!(
        lowest >= 3 && highest <= 5,
        "of four expected groups {lowest} to {highest}: one may lack, one may be extra"
    );
    Ok(())
}

#[tokio::test]
async fn groups_scale_to_zero_and_back() -> Result<(), BoxError> {
    let Some(harness) = harness_with_sets("nodes-zero").await? else { return Ok(()) };
    let _operators = Operators::of(&harness).await?;
    let _player = Player::start(&harness);
    harness.apply(&spanning("1.0.0", 2)).await?;
    harness.ready("chat").await?;
    let before = sets(&harness).await?;
    for replicas in [0, 2] {
        harness.apply(&spanning("1.0.0", replicas)).await?;
        let graph = harness.ready("chat").await?;
        assert_eq!(counted(&graph), Some(replicas));
        assert_eq!(sets(&harness).await?, before, "the same set");
    }
    Ok(())
}

fn counted(graph: &DynamoGraphDeployment) -> Option<i32> {
    Some(graph.status.as_ref()?.components.get("Decode")?.replicas)
}
