//! Previews beside what the controllers then do, on a real API server.
mod compare;
mod edits;
mod grove;
mod harness;
mod leader_worker_sets;

use std::{env, panic::AssertUnwindSafe, time::Instant};

use futures::{FutureExt, StreamExt, stream};
use kubectl_dynamo::{CommandOutcome, preview::replaced};
use serde_json::{Value, json};
use test_cluster::{Access, shared, wait};

use self::{
    compare::mismatches,
    edits::{Manifest, Random, edit, first_spec, spec_on},
    harness::{GRAPH, Harness, LIMIT, State, WorkloadKind},
};
use crate::{definitions::own, plugin};

/// Edits of one test run, unless the environment says otherwise.
const EDITS: u64 = 6;
/// Graphs that are edited at a time.
const GRAPHS: usize = 4;
/// Edits of one graph.
const ROW: u64 = 25;
/// Nodes of the clusters for what spans nodes. Each has 8 GPUs.
const NODES: u16 = 32;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Predicts an edit, makes it, and waits until what was predicted is there. Returns whether the edit was accepted.
async fn check(harness: &Harness, manifest: &Manifest, what: &str) -> bool {
    let prediction = Box::pin(harness.predict(manifest)).await;
    let (mut before, pods_before) = (harness.objects().await, harness.pods().await);
    let stored = match harness.write(manifest).await {
        Ok(stored) => stored,
        Err(why) => {
            assert_eq!(prediction.refused, Some(why), "{what}");
            assert_eq!(prediction.changes, [], "{what}");
            return false;
        }
    };
    before.insert(("DynamoGraphDeployment".to_owned(), GRAPH.to_owned()), stored);
    let settled = async || match harness.state().await {
        (State::Moving, status) => Err(status),
        (State::Stalled, status) if prediction.refused.is_none() => Err(status),
        (_, _) => Ok(()),
    };
    wait::until(format!("{what}\nthe graph to settle"), LIMIT, settled).await.unwrap();
    let look = async || {
        let (after, pods_after) = (harness.objects().await, harness.pods().await);
        let mut found = mismatches(&prediction, (&before, &after), (&pods_before, &pods_after));
        let (state, status) = harness.state().await;
        if prediction.refused.is_some() != (state == State::Stalled) {
            found.push(format!("predicted rejection {:?}, and it is {state:?}: {status}", prediction.refused));
        }
        if found.is_empty() { Ok(()) } else { Err(format!("{what}\n{}", found.join("\n"))) }
    };
    wait::until("what was predicted", LIMIT / 4, look).await.unwrap();
    let again = Box::pin(harness.predict(manifest)).await;
    assert!(!again.changes_something(), "{what}: {:?} {:?}", again.edit, again.changes);
    assert_eq!((again.pods.len(), again.steps.len()), (0, 1), "{what}: {:?}", again.pods);
    true
}

/// Edits of one graph in a row.
async fn play(access: &Access, kind: WorkloadKind, seed: u64, count: u64) {
    let harness = Box::pin(Harness::on(access, "preview", kind)).await;
    let (mut random, mut manifest, mut history) = (Random::new(seed), only(&spec_on(kind)), Vec::new());
    Box::pin(check(&harness, &manifest, &format!("{kind:?}, seed {seed}: the first spec"))).await;
    for number in 1..=count {
        let begin = Instant::now();
        let (next, what) = edit(&mut random, kind, &manifest, &history);
        let what = format!("{kind:?}, seed {seed}, edit {number}: {what}");
        let accepted = Box::pin(check(&harness, &next, &what)).await;
        println!("{what} ({}, {:.1?})", if accepted { "accepted" } else { "refused" }, begin.elapsed());
        if accepted {
            history.push(std::mem::replace(&mut manifest, next));
        }
    }
}

/// A manifest without annotations.
fn only(spec: &Value) -> Manifest {
    Manifest { spec: spec.clone(), ..Manifest::default() }
}

/// Edits of several graphs at a time. A graph whose edit was not as predicted ends, and the others go on.
async fn play_all(access: &Access, kind: WorkloadKind) {
    let (edits, first) = (number("DYNAMO_PLAN_EDITS", EDITS), number("DYNAMO_PLAN_SEED", 1));
    let row = edits.min(ROW);
    let seeds = first..first + edits.div_ceil(row);
    let played = stream::iter(seeds.clone()).map(|seed| async move {
        let played = AssertUnwindSafe(Box::pin(play(access, kind, seed, row))).catch_unwind().await;
        played.is_err().then_some(seed)
    });
    let failed: Vec<u64> = played.buffer_unordered(GRAPHS).filter_map(std::future::ready).collect().await;
    println!("{row} edits on {kind:?} from each of the seeds {seeds:?}; not as predicted: {failed:?}");
    assert!(failed.is_empty(), "{kind:?}: not as predicted, see above: seeds {failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controllers_do_what_was_predicted() {
    play_all(shared(&own()).await.unwrap(), WorkloadKind::Deployments).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controllers_do_what_was_predicted_on_grove() {
    let Some(cluster) = grove::cluster().await else { return };
    play_all(&cluster, WorkloadKind::Grove).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controllers_do_what_was_predicted_on_leader_worker_sets() {
    let Some(cluster) = leader_worker_sets::cluster().await else { return };
    play_all(&cluster, WorkloadKind::LeaderWorkerSets).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_has_its_capacity_and_its_revisions() {
    let harness = Harness::new("preview").await;
    let mut spec = first_spec();
    spec["components"][1]["replicas"] = json!(2);
    let main = "/components/1/podTemplate/spec/containers/0";
    spec.pointer_mut(main).unwrap()["resources"] = json!({ "limits": { "nvidia.com/gpu": 2 } });
    harness.write(&only(&spec)).await.unwrap();
    harness.ready().await;
    let mut next = spec.clone();
    next.pointer_mut(main).unwrap()["image"] = json!("registry.example.com/engine:2");
    let prediction = harness.predict(&only(&next)).await;
    assert_eq!(prediction.gpus(), (4, 6, 4), "{prediction:?}");
    assert_eq!(prediction.reduced().0, 0, "a surge of one keeps today's capacity: {:?}", prediction.steps);
    assert_eq!((prediction.revision.before.len(), prediction.revision.after.len()), (1, 1));
    assert_ne!(prediction.revision.before, prediction.revision.after);
    assert_eq!(replaced(&prediction.pods)["Decode"], (2, 2), "{:?}", prediction.pods);
    assert_eq!(prediction.pods[0].verb, "create", "new workers come first: {:?}", prediction.pods);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_violation_is_refused() {
    let harness = Harness::new("preview").await;
    harness.write(&only(&first_spec())).await.unwrap();
    harness.ready().await;
    let mut wrong = first_spec();
    wrong["components"][1]["podTemplate"]["metadata"]["annotations"] =
        json!({ "nvidia.com/deployment-rolling-update-max-surge": "many" });
    let refused = harness.predict(&only(&wrong)).await.refused.unwrap();
    assert!(refused.contains("max-surge"), "{refused}");
    let mut unknown = first_spec();
    unknown["components"][1]["typo"] = json!(1);
    let refused = harness.predict(&only(&unknown)).await.refused.unwrap();
    assert!(refused.contains("typo"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_few_rights_sees_what_those_show() {
    let harness = Harness::new("preview").await;
    harness.write(&only(&first_spec())).await.unwrap();
    harness.ready().await;
    let client = harness
        .reader(&json!([
            { "apiGroups": ["nvidia.com"], "resources": ["*"], "verbs": ["get", "list"] },
            { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"] },
        ]))
        .await;
    let unchanged = harness.predict_as(&client, &only(&first_spec())).await;
    assert!(!unchanged.changes_something(), "{:?} {:?}", unchanged.edit, unchanged.changes);
    let mut next = first_spec();
    next["components"][0]["podTemplate"]["spec"]["containers"][0]["image"] = json!("registry.example.com/engine:2");
    let prediction = harness.predict_as(&client, &only(&next)).await;
    let kinds: Vec<_> = prediction.changes.iter().map(|change| (change.verb, change.kind.as_str())).collect();
    assert_eq!(kinds, [("change", "Deployment"), ("change", "DynamoComponentDeployment")]);
    assert_eq!(replaced(&prediction.pods)["Frontend"], (1, 1), "{:?}", prediction.pods);
    let notes = prediction.notes.join("\n");
    for note in ["admission was not called", "changes of services are not shown", "pods cannot be read"] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_changes_nothing_replaces_no_pod() {
    let harness = Harness::new("preview").await;
    harness.write(&only(&first_spec())).await.unwrap();
    harness.ready().await;
    let access = shared(&own()).await.unwrap();
    let file = std::env::temp_dir().join(format!("{}.yaml", harness.namespace));
    let text = format!(
        "apiVersion: operator.config.dynamo.nvidia.com/v1alpha1\nkind: OperatorConfiguration\norchestrators: {{grove: \
         {{enabled: false}}}}\nnamespace: {{restricted: {}}}\n",
        harness.namespace
    );
    std::fs::write(&file, text).unwrap();
    let configuration = file.to_string_lossy();
    let args = ["plan", "--all", "--configuration", &configuration];
    let printed = plugin::command(access.kubeconfig(), &harness.namespace, &args).await;
    std::fs::remove_file(&file).unwrap();
    let (outcome, text) = printed.unwrap();
    assert_eq!(outcome, CommandOutcome::Fine, "{text}");
    assert!(text.contains("chat") && text.ends_with("0 of 1 graphs replace pods; 0 pods are deleted.\n"), "{text}");
}
