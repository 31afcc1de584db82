//! Previews beside what the controllers then do, on a real API server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod compare;
#[path = "../common/controllers.rs"]
mod controllers;
#[path = "../common/definitions.rs"]
mod definitions;
mod edits;
mod grove;
mod harness;
mod leader_worker_sets;
#[path = "../common/plugin.rs"]
mod plugin;

use std::env;

use futures::future::join_all;
use kubectl_dynamo::{Outcome, preview::replaced};
use serde_json::{Value, json};
use test_cluster::{Access, shared, wait};

use self::{
    compare::mismatches,
    edits::{Random, edit, first_spec, spec_on},
    harness::{Harness, LIMIT, Provider, definitions},
};

/// Edits of one test run, unless the environment says otherwise.
const EDITS: u64 = 6;
/// Graphs that are edited at a time.
const GRAPHS: u64 = 3;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Predicts an edit, makes it, and waits until what was predicted is there.
async fn check(harness: &Harness, spec: &Value, what: &str) {
    let prediction = Box::pin(harness.predict("chat", spec)).await;
    assert_eq!(prediction.refused, None, "{what}");
    let (before, pods_before) = (harness.objects().await, harness.pods().await);
    let stored = harness.write("chat", spec).await;
    harness.ready("chat").await;
    let mut before = before;
    before.insert(("DynamoGraphDeployment".to_owned(), "chat".to_owned()), stored);
    let look = async || {
        let (after, pods_after) = (harness.objects().await, harness.pods().await);
        let found = mismatches(&prediction, (&before, &after), (&pods_before, &pods_after));
        if found.is_empty() { Ok(()) } else { Err(format!("{what}\n{}", found.join("\n"))) }
    };
    wait::until("what was predicted", LIMIT / 8, look).await.unwrap();
    let again = Box::pin(harness.predict("chat", spec)).await;
    assert!(!again.changes_something(), "{what}: {:?} {:?}", again.edit, again.changes);
    assert_eq!((again.pods.len(), again.steps.len()), (0, 1), "{what}: {:?}", again.pods);
}

/// Edits of one graph in a row; returns how many.
async fn play(access: &Access, provider: Provider, seed: u64, count: u64) -> u64 {
    let harness = Box::pin(Harness::on(access, "preview", provider)).await;
    let (mut random, mut spec, mut history) = (Random::new(seed), spec_on(provider), Vec::new());
    Box::pin(check(&harness, &spec, &format!("{provider:?}, seed {seed}: the first spec"))).await;
    for number in 1..=count {
        let (next, what) = edit(&mut random, provider, &spec, &history);
        Box::pin(check(&harness, &next, &format!("{provider:?}, seed {seed}, edit {number}: {what}"))).await;
        println!("{provider:?}, seed {seed}, edit {number}: {what}");
        history.push(std::mem::replace(&mut spec, next));
    }
    count
}

/// Edits of several graphs at a time.
async fn play_all(access: &Access, provider: Provider) {
    let (edits, seed) = (number("DYNAMO_PLAN_EDITS", EDITS), number("DYNAMO_PLAN_SEED", 1));
    // Workers that span nodes need GPUs, and the nodes have 16.
    let graphs = if provider == Provider::Deployments { GRAPHS } else { GRAPHS - 1 }.min(edits);
    let done = join_all((0..graphs).map(|index| Box::pin(play(access, provider, seed + index, edits / graphs)))).await;
    println!("{} edits on {provider:?} were as predicted", done.iter().sum::<u64>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controllers_do_what_was_predicted() {
    play_all(shared(&definitions()).await.unwrap(), Provider::Deployments).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controllers_do_what_was_predicted_on_grove() {
    play_all(shared(&definitions()).await.unwrap(), Provider::Grove).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controllers_do_what_was_predicted_on_leader_worker_sets() {
    let Some(cluster) = leader_worker_sets::cluster().await else { return };
    play_all(&cluster, Provider::LeaderWorkerSets).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_has_its_capacity_and_its_revisions() {
    let harness = Harness::new("preview").await;
    let mut spec = first_spec();
    spec["components"][1]["replicas"] = json!(2);
    let main = "/components/1/podTemplate/spec/containers/0";
    spec.pointer_mut(main).unwrap()["resources"] = json!({ "limits": { "nvidia.com/gpu": 2 } });
    harness.write("chat", &spec).await;
    harness.ready("chat").await;
    let mut next = spec.clone();
    next.pointer_mut(main).unwrap()["image"] = json!("registry.example.com/engine:2");
    let prediction = harness.predict("chat", &next).await;
    assert_eq!(prediction.gpus(), (4, 6, 4), "{prediction:?}");
    assert_eq!(prediction.reduced().0, 0, "a surge of one keeps today's capacity: {:?}", prediction.steps);
    assert_eq!((prediction.revision.before.len(), prediction.revision.after.len()), (1, 1));
    assert_ne!(prediction.revision.before, prediction.revision.after);
    assert_eq!(replaced(&prediction.pods)["Decode"], (2, 2), "{:?}", prediction.pods);
    assert_eq!(prediction.pods[0].verb, "create", "new workers come first: {:?}", prediction.pods);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mistake_is_refused() {
    let harness = Harness::new("preview").await;
    harness.write("chat", &first_spec()).await;
    harness.ready("chat").await;
    let mut wrong = first_spec();
    wrong["components"][1]["podTemplate"]["metadata"]["annotations"] =
        json!({ "nvidia.com/deployment-rolling-update-max-surge": "many" });
    let refused = harness.predict("chat", &wrong).await.refused.unwrap();
    assert!(refused.contains("max-surge"), "{refused}");
    let mut unknown = first_spec();
    unknown["components"][1]["typo"] = json!(1);
    let refused = harness.predict("chat", &unknown).await.refused.unwrap();
    assert!(refused.contains("typo"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_few_rights_sees_what_those_show() {
    let harness = Harness::new("preview").await;
    harness.write("chat", &first_spec()).await;
    harness.ready("chat").await;
    let client = harness
        .reader(&json!([
            { "apiGroups": ["nvidia.com"], "resources": ["*"], "verbs": ["get", "list"] },
            { "apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"] },
        ]))
        .await;
    let unchanged = harness.predict_as(&client, "chat", &first_spec()).await;
    assert!(!unchanged.changes_something(), "{:?} {:?}", unchanged.edit, unchanged.changes);
    let mut next = first_spec();
    next["components"][0]["podTemplate"]["spec"]["containers"][0]["image"] = json!("registry.example.com/engine:2");
    let prediction = harness.predict_as(&client, "chat", &next).await;
    let kinds: Vec<_> = prediction.changes.iter().map(|change| (change.verb, change.kind.as_str())).collect();
    assert_eq!(kinds, [("change", "Deployment"), ("change", "DynamoComponentDeployment")]);
    assert_eq!(replaced(&prediction.pods)["Frontend"], (1, 1), "{:?}", prediction.pods);
    let notes = prediction.notes.join("\n");
    for note in ["admission was not asked", "changes of services are not shown", "pods cannot be read"] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_changes_nothing_replaces_no_pod() {
    let harness = Harness::new("preview").await;
    harness.write("chat", &first_spec()).await;
    harness.ready("chat").await;
    let access = shared(&definitions()).await.unwrap();
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
    assert_eq!(outcome, Outcome::Fine, "{text}");
    assert!(text.contains("chat") && text.ends_with("0 of 1 graphs replace pods; 0 pods are deleted.\n"), "{text}");
}
