//! Tests of the checkpoints that a graph creates, and of the waits for them.

use std::sync::LazyLock;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures::{NOW, graph_with, live, observed, owner, set_image, settings, valid_with},
    model::GraphPlan,
    plan::plan,
    settings::GraphSettings,
};

fn switched_on() -> &'static GraphSettings {
    static SETTINGS: LazyLock<GraphSettings> =
        LazyLock::new(|| GraphSettings { checkpoints: Some(Default::default()), ..settings().clone() });
    &SETTINGS
}

/// The graph of the fixtures, whose worker has a checkpoint.
fn graph(checkpoint: Value) -> DynamoGraphDeployment {
    edited(checkpoint, |_| {})
}

fn edited(checkpoint: Value, edit: impl FnOnce(&mut Value)) -> DynamoGraphDeployment {
    graph_with(|g| {
        let mut block = json!({ "enabled": true });
        block.as_object_mut().unwrap().extend(checkpoint.as_object().unwrap().clone());
        g["spec"]["components"][1]["experimental"] = json!({ "checkpoint": block });
        edit(g);
    })
}

fn planned(graph: &DynamoGraphDeployment, components: Vec<DynamoComponentDeployment>) -> GraphPlan {
    planned_with(graph, components, vec![])
}

fn planned_with(
    graph: &DynamoGraphDeployment,
    components: Vec<DynamoComponentDeployment>,
    checkpoints: Vec<DynamoCheckpoint>,
) -> GraphPlan {
    let mut observed = observed(graph, components);
    observed.checkpoints.all = checkpoints;
    plan(&valid_with(graph, switched_on()), &observed, NOW)
}

fn worker(plan: &GraphPlan) -> &DynamoComponentDeployment {
    plan.components.iter().find(|d| d.spec.component.is_worker()).unwrap()
}

fn reference(d: &DynamoComponentDeployment) -> Option<&str> {
    d.spec.component.experimental.as_ref()?.checkpoint.as_ref()?.checkpoint_ref.as_deref()
}

/// A checkpoint as it comes back from the API server.
fn as_live(plan: &GraphPlan, phase: CheckpointPhase) -> DynamoCheckpoint {
    let desired = plan.checkpoints[0].desired.as_ref().unwrap();
    let mut live = desired.object.clone();
    live.metadata.uid = Some("checkpoint-uid".to_owned());
    live.metadata.owner_references = desired.goes_with_graph.then(|| vec![owner()]);
    live.status = serde_json::from_value(json!({ "phase": phase })).unwrap();
    live
}

const WAIT: &str = "WaitForCheckpoint";

#[test]
fn a_worker_gets_one_checkpoint_and_its_object_names_it() {
    let graph = graph(json!({ "job": { "podTemplate": { "metadata": { "labels": { "team": "a" } },
        "spec": { "priorityClassName": "low" } } } }));
    let plan = planned(&graph, vec![]);
    let [checkpoint] = &plan.checkpoints[..] else { panic!("{:?}", plan.checkpoints) };
    let desired = checkpoint.desired.as_ref().unwrap();
    let suffix = plan.rollout.target.as_ref().unwrap().to_string();
    let id = graph_checkpoint_id("team-a", "chat", "graph-uid", "Decode", Some(&suffix));
    assert_eq!(checkpoint.name, format!("checkpoint-{id}"));
    let labels = json!({ "nvidia.com/snapshot-checkpoint-id": id, "nvidia.com/dynamo-component": "Decode",
        "nvidia.com/dynamo-graph-deployment-name": "chat", "nvidia.com/dynamo-worker-hash": suffix });
    let metadata = json!({ "name": checkpoint.name, "namespace": "team-a", "labels": labels,
        "finalizers": ["nvidia.com/finalizer"],
        "annotations": { "nvidia.com/dynamo-auto-checkpoint": "true", "nvidia.com/snapshot-artifact-version": "1",
            "nvidia.com/dynamo-checkpoint-deletion-policy": "Delete" } });
    assert_eq!(json!(desired.object.metadata), metadata);
    let identity = json!({ "model": "team-a/chat", "backendFramework": "vllm", "tensorParallelSize": 1,
        "pipelineParallelSize": 1, "extraParameters": { "dgdUID": "graph-uid", "component": "Decode", "checkpointID": id } });
    assert_eq!(json!(desired.object.spec.identity), identity);
    let job = json!(desired.object.spec.job);
    assert_eq!(job["targetContainerName"], "main");
    let template = &job["podTemplateSpec"];
    assert_eq!(template["spec"]["restartPolicy"], "Never");
    assert_eq!(template["spec"]["priorityClassName"], "low");
    assert_eq!(template["metadata"]["labels"]["team"], "a");
    let env: Vec<_> = template["spec"]["containers"][0]["env"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert!(env.contains(&&json!("DYN_NAMESPACE")) && !env.contains(&&json!("DYN_NAMESPACE_WORKER_SUFFIX")), "{env:?}");

    let block = json!(worker(&plan).spec.component.experimental)["checkpoint"].clone();
    assert_eq!((block["checkpointRef"].as_str(), &block["job"]), (Some(checkpoint.name.as_str()), &Value::Null));
}

/// Reference: the first reconcile computed the identifier without the revision, the second with it.
#[test]
fn a_revision_has_one_checkpoint_after_any_number_of_reconciles() {
    let graph = graph(json!({}));
    let first = planned(&graph, vec![]);
    let components: Vec<_> = first.components.iter().map(|d| live(d, 4)).collect();
    let again = planned_with(&graph, components, vec![as_live(&first, CheckpointPhase::Creating)]);
    assert_eq!(again.checkpoints[0].name, first.checkpoints[0].name);
    assert_eq!(again.rollout.target, first.rollout.target);
    assert_eq!(reference(worker(&again)), reference(worker(&first)));
    assert_eq!(again.stale_checkpoints, []);
}

#[test]
fn pods_that_wait_come_with_their_checkpoint() {
    let graph = graph(json!({ "startupPolicy": WAIT }));
    let first = planned(&graph, vec![]);
    assert_eq!(worker(&first).spec.component.replicas, Some(0));
    let frontend = first.components.iter().find(|d| !d.spec.component.is_worker()).unwrap();
    assert_eq!(frontend.spec.component.replicas, Some(1));
    let mut components: Vec<_> = first.components.iter().map(|d| live(d, 0)).collect();
    let creating = as_live(&first, CheckpointPhase::Creating);
    let held = planned_with(&graph, components.clone(), vec![creating]);
    assert_eq!(worker(&held).spec.component.replicas, Some(0));
    let ready = as_live(&first, CheckpointPhase::Ready);
    let started = planned_with(&graph, components.clone(), vec![ready.clone()]);
    assert_eq!(worker(&started).spec.component.replicas, Some(4));
    assert_eq!(started.checkpoints[0].status().ready, Some(true));

    // They run. Another version of the artifact removes no worker.
    components.iter_mut().filter(|d| d.spec.component.is_worker()).for_each(|d| d.spec.component.replicas = Some(3));
    let mut again = ready;
    again.status = serde_json::from_value(json!({ "phase": "Creating" })).unwrap();
    let kept = planned_with(&graph, components, vec![again]);
    assert_eq!(worker(&kept).spec.component.replicas, Some(3));
}

#[test]
fn what_serves_goes_on_while_the_checkpoint_of_the_next_revision_is_made() {
    let old = graph(json!({ "startupPolicy": WAIT }));
    let first = planned(&old, vec![]);
    let mut components: Vec<_> = first.components.iter().map(|d| live(d, 4)).collect();
    for d in components.iter_mut().filter(|d| d.spec.component.is_worker()) {
        d.spec.component.replicas = Some(4);
        crate::graph::fixtures::set_available(d, 4);
    }
    let of_old = as_live(&first, CheckpointPhase::Ready);
    let new = edited(json!({ "startupPolicy": WAIT }), |g| set_image(g, "2"));
    let plan = planned_with(&new, components.clone(), vec![of_old.clone()]);
    assert_ne!(plan.checkpoints[0].name, first.checkpoints[0].name);
    assert_eq!(worker(&plan).spec.component.replicas, Some(0));
    assert_eq!(plan.old.iter().map(|d| d.spec.component.replicas).collect::<Vec<_>>(), [Some(4)]);
    assert_eq!((plan.delete.len(), plan.stale_checkpoints.len()), (0, 0));

    let ready = as_live(&plan, CheckpointPhase::Ready);
    let plan = planned_with(&new, components, vec![of_old, ready]);
    assert_eq!(worker(&plan).spec.component.replicas, Some(1), "within the surge");
    assert_eq!(plan.old.iter().map(|d| d.spec.component.replicas).collect::<Vec<_>>(), [Some(3)]);
}

#[test]
fn a_checkpoint_goes_with_the_last_of_its_revision_unless_a_pod_starts_from_it() {
    let graph = graph(json!({}));
    let first = planned(&graph, vec![]);
    let components: Vec<_> = first.components.iter().map(|d| live(d, d.spec.component.desired_replicas())).collect();
    let present = as_live(&first, CheckpointPhase::Ready);
    let mut of_before = present.clone();
    of_before.metadata.name = Some("checkpoint-before".to_owned());
    of_before.metadata.labels.as_mut().unwrap().insert(labels::WORKER_HASH.to_owned(), "0badcafe".to_owned());
    let mut retained = of_before.clone();
    (retained.metadata.name, retained.metadata.owner_references) = (Some("retained".to_owned()), None);
    let mut observed = observed(&graph, components);
    observed.checkpoints.all = vec![present, of_before, retained];
    let stale = |observed: &GraphObserved| -> Vec<String> {
        let plan = plan(&valid_with(&graph, switched_on()), observed, NOW);
        plan.stale_checkpoints.iter().map(ResourceExt::name_any).collect()
    };
    assert_eq!(stale(&observed), ["checkpoint-before"]);
    observed.checkpoints.in_use.insert("checkpoint-before".to_owned());
    assert_eq!(stale(&observed), [""; 0]);
}

#[test]
fn a_graph_that_was_left_behind_and_applied_again_keeps_its_checkpoint() {
    let before = graph(json!({}));
    let first = planned(&before, vec![]);
    let mut orphans: Vec<_> = first.components.iter().map(|d| live(d, 4)).collect();
    orphans.iter_mut().for_each(|d| d.metadata.owner_references = None);
    let mut checkpoint = as_live(&first, CheckpointPhase::Ready);
    checkpoint.metadata.owner_references = None;
    let again = edited(json!({}), |g| g["metadata"]["uid"] = json!("another-uid"));
    let plan = planned_with(&again, orphans, vec![checkpoint]);
    assert_eq!(plan.checkpoints[0].name, first.checkpoints[0].name);
    assert_eq!(reference(worker(&plan)), reference(worker(&first)));
}

#[test]
fn what_another_operator_made_is_recognised_with_its_checkpoint() {
    let graph = graph(json!({ "job": { "podTemplate": {} } }));
    let first = planned(&graph, vec![]);
    let mut theirs: Vec<_> = first.components.iter().map(|d| live(d, 4)).collect();
    theirs.iter_mut().for_each(|d| d.metadata.annotations = None);
    let plan = planned_with(&graph, theirs, vec![as_live(&first, CheckpointPhase::Ready)]);
    assert_eq!(plan.rollout.target, first.rollout.target);
    assert_eq!(reference(worker(&plan)), reference(worker(&first)));
}

#[test]
fn a_checkpoint_that_the_author_names_is_not_made() {
    let of = |policy: &str, found: bool| {
        let graph = graph(json!({ "checkpointRef": "mine", "startupPolicy": policy }));
        let checkpoint = json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint",
            "metadata": { "name": "mine", "namespace": "team-a" }, "status": { "phase": "Ready", "checkpointID": "id" },
            "spec": { "identity": { "model": "m", "backendFramework": "vllm" }, "job": { "podTemplateSpec": {} } } });
        let live = found.then(|| serde_json::from_value(checkpoint).unwrap());
        let plan = planned_with(&graph, vec![], live.into_iter().collect());
        assert_eq!(plan.checkpoints[0].desired, None);
        let checkpoint = &plan.checkpoints[0];
        (checkpoint.awaited.is_some(), worker(&plan).spec.component.replicas, checkpoint.capture)
    };
    assert_eq!(of("Immediate", true), (false, Some(4), Capture::Idle));
    assert_eq!(of(WAIT, true), (false, Some(4), Capture::Done));
    assert_eq!(of(WAIT, false), (true, Some(0), Capture::Lost), "only its user makes it");
    assert_eq!(of("Immediate", false), (true, Some(0), Capture::Idle));
}

#[test]
fn a_retained_checkpoint_has_no_owner_and_keeps_what_was_written_first() {
    let first = planned(&graph(json!({})), vec![]);
    let mut live = as_live(&first, CheckpointPhase::Failed);
    live.metadata.annotations.as_mut().unwrap().insert(annotations::ARTIFACT_VERSION.to_owned(), "2".to_owned());
    live.spec.job.active_deadline_seconds = Some(7);
    let graph = edited(json!({ "deletionPolicy": "Retain" }), |_| {});
    // The policy is part of the component, so the revision is another: looked at as the first one's.
    let mut plan = planned_with(&graph, vec![], vec![live.clone()]);
    let desired = plan.checkpoints.remove(0).desired.unwrap();
    assert!(!desired.goes_with_graph);
    assert_eq!(desired.object.annotations()[annotations::CHECKPOINT_DELETION_POLICY], "Retain");

    let again =
        planned_with(&self::graph(json!({})), vec![], vec![live.clone()]).checkpoints.remove(0).desired.unwrap();
    assert_eq!(again.object.annotations()[annotations::ARTIFACT_VERSION], "2");
    assert_eq!(again.object.spec, live.spec);
}

#[test]
fn gpu_memory_that_processes_share_is_claimed_for_the_captured_pod() {
    let graph = edited(
        json!({ "job": { "gmsClientContainers": ["side"],
        "podTemplate": { "spec": { "containers": [{ "name": "side", "image": "s" }] } } } }),
        |g| {
            g["spec"]["components"][1]["experimental"]["gpuMemoryService"] = json!({});
            let main = &mut g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0];
            main["resources"] = json!({ "limits": { "nvidia.com/gpu": "2" } });
        },
    );
    let plan = planned(&graph, vec![]);
    let desired = plan.checkpoints[0].desired.clone().unwrap();
    let claim = desired.claim.unwrap();
    let id = plan.checkpoints[0].id.as_deref().unwrap();
    assert_eq!(claim.metadata.name, Some(format!("checkpoint-{id}-worker-gpu")));
    assert_eq!(json!(claim.spec)["spec"]["devices"]["requests"][0]["exactly"]["count"], 2);
    assert_eq!(rendering::checkpoint::check_shared_gpu_memory(&desired.object), Ok(()));
}

#[test]
fn switched_off_nothing_that_was_kept_is_deleted() {
    let graph = graph(json!({}));
    let first = planned(&graph, vec![]);
    let components: Vec<_> = first.components.iter().map(|d| live(d, 4)).collect();
    let mut observed = observed(&graph, components);
    observed.checkpoints.all = vec![as_live(&first, CheckpointPhase::Ready)];
    let off = plan(&valid_with(&graph, settings()), &observed, NOW);
    assert_eq!((off.checkpoints.len(), off.stale_checkpoints.len()), (0, 0));
}

#[test]
fn what_becomes_of_a_checkpoint_is_no_reason_to_roll() {
    let target = |policy: Value| planned(&graph(policy), vec![]).rollout.target;
    assert_eq!(target(json!({})), target(json!({ "deletionPolicy": "Retain" })));
    assert_ne!(target(json!({})), target(json!({ "startupPolicy": WAIT })));
}

#[test]
fn workers_change_revision_together_or_wait_together() {
    let two = |image: &str| {
        edited(json!({ "startupPolicy": WAIT }), |g| {
            let mut other = g["spec"]["components"][1].clone();
            other["name"] = json!("Prefill");
            other.as_object_mut().unwrap().remove("experimental");
            g["spec"]["components"].as_array_mut().unwrap().push(other);
            set_image(g, image);
        })
    };
    let first = planned(&two("1"), vec![]);
    let mut components: Vec<_> = first.components.iter().map(|d| live(d, 4)).collect();
    for d in components.iter_mut().filter(|d| d.spec.component.is_worker()) {
        d.spec.component.replicas = Some(4);
        crate::graph::fixtures::set_available(d, 4);
    }
    let plan = planned_with(&two("2"), components, vec![as_live(&first, CheckpointPhase::Ready)]);
    let old: Vec<_> = plan.old.iter().map(|d| d.spec.component.replicas).collect();
    assert_eq!((old, plan.delete.len()), (vec![Some(4), Some(4)], 0));
    let new = plan.components.iter().filter(|d| d.spec.component.is_worker());
    assert!(new.into_iter().all(|d| d.spec.component.replicas == Some(0)), "{:?}", plan.components);
}

/// Two workers that are recreated, Decode and Prefill; the first so many of them wait for a capture.
fn recreated(image: &str, captured: usize) -> DynamoGraphDeployment {
    edited(json!({ "startupPolicy": WAIT }), |g| {
        let recreate = json!({ "nvidia.com/deployment-strategy": "Recreate" });
        g["spec"]["components"][1]["podTemplate"]["metadata"] = json!({ "annotations": recreate });
        let mut other = g["spec"]["components"][1].clone();
        other["name"] = json!("Prefill");
        if captured < 2 {
            other.as_object_mut().unwrap().remove("experimental");
        }
        g["spec"]["components"].as_array_mut().unwrap().push(other);
        set_image(g, image);
    })
}

/// Old replicas of Decode and Prefill after a step, from those before it. `reported` has what is live of the new
/// revision's checkpoints beside their spec, `null` if they are not there.
fn step(before: [i32; 2], reported: &[Value]) -> [i32; 2] {
    let first = planned(&recreated("1", reported.len()), vec![]);
    let mut components: Vec<_> = first.components.iter().map(|d| live(d, 4)).collect();
    for d in components.iter_mut().filter(|d| d.spec.component.is_worker()) {
        let replicas = before[usize::from(d.spec.component.name == "Prefill")];
        d.spec.component.replicas = Some(replicas);
        crate::graph::fixtures::set_available(d, replicas);
    }
    let new = recreated("2", reported.len());
    let begun = planned_with(&new, components.clone(), vec![]);
    assert_eq!(begun.checkpoints.len(), reported.len());
    let made = begun.checkpoints.iter().zip(reported).filter(|(_, reported)| !reported.is_null());
    let made = made.map(|(checkpoint, reported)| {
        let mut live = json!(checkpoint.desired.as_ref().unwrap().object);
        live["metadata"]["ownerReferences"] = json!([owner()]);
        live["metadata"].as_object_mut().unwrap().extend(reported["metadata"].as_object().cloned().unwrap_or_default());
        live["status"] = reported["status"].clone();
        serde_json::from_value(live).unwrap()
    });
    let plan = planned_with(&new, components, made.collect());
    assert!(plan.delete.is_empty());
    let replicas = |name: &str| {
        let old = plan.old.iter().find(|d| d.spec.component.name == name).unwrap();
        old.spec.component.desired_replicas()
    };
    [replicas("Decode"), replicas("Prefill")]
}

fn reported(phase: CheckpointPhase) -> Value {
    json!({ "status": { "phase": phase } })
}

fn told_stalled(phase: CheckpointPhase) -> Value {
    let stalled = json!({ "type": "Stalled", "status": "True", "reason": "r", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    json!({ "status": { "phase": phase, "conditions": [stalled] } })
}

#[test]
fn who_waits_for_no_capture_of_its_own_is_not_emptied_by_a_recreate() {
    use CheckpointPhase::{Creating, Failed, Pending};
    let mut deleted = reported(Creating);
    deleted["metadata"] = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
    // state of the checkpoint -> old replicas, while they serve and after they were drained
    let steps = [
        (Value::Null, 4, 0),
        (json!({}), 4, 0),
        (reported(Pending), 4, 0),
        (told_stalled(Pending), 4, 4),
        (reported(Creating), 0, 0),
        (told_stalled(Creating), 4, 4),
        (deleted, 4, 4),
        (reported(Failed), 4, 4),
    ];
    for (reported, serving, emptied) in steps {
        // The other one serves, or was at zero before.
        for other in [4, 0] {
            assert_eq!(step([4, other], std::slice::from_ref(&reported)), [serving, other], "{reported}");
            assert_eq!(step([0, other], std::slice::from_ref(&reported)), [emptied, other], "{reported}");
        }
    }
}

#[test]
fn who_was_emptied_for_a_capture_that_came_is_back_if_another_one_is_lost() {
    use CheckpointPhase::{Creating, Failed, Ready};
    assert_eq!(step([0, 0], &[reported(Ready), reported(Creating)]), [0, 0], "it takes no room from the other one");
    assert_eq!(step([0, 0], &[reported(Ready), reported(Failed)]), [4, 4]);
    assert_eq!(step([0, 0], &[reported(Creating), reported(Failed)]), [0, 4]);
}

#[test]
fn a_checkpoint_that_failed_is_known_as_such() {
    let graph = graph(json!({ "startupPolicy": WAIT }));
    let first = planned(&graph, vec![]);
    let failed = |phase| planned_with(&graph, vec![], vec![as_live(&first, phase)]).checkpoints[0].failed;
    assert_eq!((failed(CheckpointPhase::Failed), failed(CheckpointPhase::Creating)), (true, false));
}
