//! Graphs on Grove whose workers start from checkpoints.

use api_types::{
    grove::PodCliqueTemplate,
    v1alpha1::DynamoCheckpoint,
    v1beta1::{DynamoGraphDeployment, RestartPhase},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use rendering::checkpoint::{CheckpointStorage, StorageLocation};
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures::{
        NOW, graph_with,
        grove::{as_live, clique, observed},
        owner, set_image,
    },
    model::GrovePlan,
    plan,
    settings::GraphSettings,
    validate::validate,
};

const WAIT: &str = "WaitForCheckpoint";

fn graph(policy: &str, image: &str) -> DynamoGraphDeployment {
    graph_with(|g| {
        let checkpoint = json!({ "enabled": true, "startupPolicy": policy });
        g["spec"]["components"][1]["experimental"] = json!({ "checkpoint": checkpoint });
        set_image(g, image);
    })
}

fn planned(observed: &GraphObserved) -> GraphPlan {
    let settings =
        GraphSettings { checkpoints: Some(Default::default()), ..crate::graph::fixtures::grove::settings().clone() };
    plan::plan(&validate(observed, &settings).unwrap(), observed, NOW)
}

fn on_grove(plan: &GraphPlan) -> &GrovePlan {
    plan.grove.as_ref().unwrap()
}

fn decode(plan: &GraphPlan) -> &PodCliqueTemplate {
    on_grove(plan).set.spec.template.cliques.iter().find(|clique| clique.name == "decode").unwrap()
}

fn checkpoint(plan: &GraphPlan, phase: &str) -> DynamoCheckpoint {
    let mut live = plan.checkpoints[0].desired.as_ref().unwrap().object.clone();
    (live.metadata.uid, live.metadata.owner_references) = (Some("checkpoint".to_owned()), Some(vec![owner()]));
    live.status = serde_json::from_value(json!({ "phase": phase })).unwrap();
    live
}

/// Returns the live state after a plan was carried out, with this number of serving decoders.
fn after(graph: &DynamoGraphDeployment, plan: &GraphPlan, serving: i32, phase: &str) -> GraphObserved {
    let mut observed = observed(graph);
    observed.grove.sets = vec![as_live(on_grove(plan).set.clone())];
    let mut decode = clique("Decode", serving.max(1));
    decode.status.as_mut().unwrap().ready_replicas = serving;
    observed.grove.cliques = vec![clique("Frontend", 1), decode];
    observed.checkpoints.all = vec![checkpoint(plan, phase)];
    let storage = CheckpointStorage { claim: "claim".to_owned(), folder: "/c".to_owned() };
    observed.checkpoints.place = StorageLocation::OfAgent(storage);
    observed
}

fn scaled(plan: &GraphPlan) -> Vec<(i32, i32)> {
    on_grove(plan).scale.iter().map(|scale| (scale.from, scale.to)).collect()
}

/// Reference: two checkpoints for one graph, the first under an identifier without revision.
#[test]
fn a_graph_on_grove_makes_one_checkpoint_and_its_pods_are_rendered_once() {
    let graph = graph("Immediate", "1");
    let first = planned(&observed(&graph));
    let name = &first.checkpoints[0].name;
    let annotations = &decode(&first).annotations;
    assert_eq!(annotations["nvidia.com/dynamo-checkpoint-name"], *name);
    assert_eq!(annotations["nvidia.com/dynamo-checkpoint-restore-candidate"], "true");
    assert_eq!(decode(&first).spec.replicas, 4);
    for phase in ["Pending", "Creating", "Ready", "Failed"] {
        let again = planned(&after(&graph, &first, 4, phase));
        assert_eq!((&again.checkpoints[0].name, again.stale_checkpoints.len()), (name, 0), "{phase}");
        assert_eq!(on_grove(&again).set, on_grove(&first).set, "{phase}");
        assert!(scaled(&again).is_empty(), "{phase}");
    }
}

#[test]
fn pods_on_grove_that_wait_come_with_their_checkpoint() {
    let graph = graph(WAIT, "1");
    let first = planned(&observed(&graph));
    assert_eq!(decode(&first).spec.replicas, 1, "Grove takes none with fewer");
    let waiting = planned(&after(&graph, &first, 0, "Creating"));
    assert_eq!(scaled(&waiting), [(1, 0)]);
    assert!(!on_grove(&waiting).held_back);

    let mut ready = after(&graph, &first, 0, "Ready");
    ready.grove.cliques[1].spec.replicas = 0;
    let ready = planned(&ready);
    assert_eq!(scaled(&ready), [(0, 4)]);
    let labels = &decode(&ready).labels;
    assert_eq!(labels["nvidia.com/snapshot-is-restore-target"], "true");
    let volumes = json!(decode(&ready).spec.pod_spec.volumes);
    let claims: Vec<&Value> =
        volumes.as_array().unwrap().iter().map(|v| &v["persistentVolumeClaim"]["claimName"]).collect();
    assert!(claims.contains(&&json!("claim")), "{volumes}");
}

#[test]
fn who_serves_on_grove_goes_on_when_its_checkpoint_is_made_anew_or_is_gone() {
    let graph = graph(WAIT, "1");
    let first = planned(&observed(&graph));
    let live = planned(&after(&graph, &first, 4, "Ready"));
    for phase in ["Creating", "Failed"] {
        let kept = planned(&after(&graph, &live, 4, phase));
        assert!(on_grove(&kept).held_back && scaled(&kept).is_empty(), "{phase}");
    }
    let mut going = after(&graph, &live, 4, "Ready");
    going.checkpoints.all[0].metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let kept = planned(&going);
    assert!(on_grove(&kept).held_back && scaled(&kept).is_empty(), "being deleted");
    let mut gone = after(&graph, &live, 4, "Ready");
    gone.checkpoints.all.clear();
    let kept = planned(&gone);
    assert!(on_grove(&kept).held_back && scaled(&kept).is_empty());
}

#[test]
fn an_edit_before_the_first_checkpoint_starts_no_pod_cold() {
    let first = planned(&observed(&graph(WAIT, "1")));
    let mut waiting = after(&graph(WAIT, "1"), &first, 0, "Failed");
    waiting.grove.cliques[1].spec.replicas = 0;
    waiting.graph = graph(WAIT, "2");
    assert!(scaled(&planned(&waiting)).is_empty());
}

#[test]
fn who_serves_on_grove_goes_on_while_the_next_checkpoint_is_made() {
    let (old, new) = (graph(WAIT, "1"), graph(WAIT, "2"));
    let first = planned(&observed(&old));
    let live = planned(&after(&old, &first, 4, "Ready"));
    let serving = after(&old, &live, 4, "Ready");
    let mut edited = serving.clone();
    edited.graph = new.clone();
    let held = planned(&edited);
    assert!(on_grove(&held).held_back);
    assert_eq!(held.rollout.target, first.rollout.target, "who routes by it keeps to what serves");
    assert_ne!(held.checkpoints[0].name, first.checkpoints[0].name);
    assert!(scaled(&held).is_empty() && held.stale_checkpoints.is_empty());

    edited.checkpoints.all.push(checkpoint(&held, "Ready"));
    let released = planned(&edited);
    assert!(!on_grove(&released).held_back);
    assert_ne!(released.rollout.target, first.rollout.target);

    let mut done = after(&new, &released, 4, "Ready");
    done.checkpoints.all.extend(serving.checkpoints.all);
    done.grove.sets[0].status = serde_json::from_value(json!({ "observedGeneration": 1 })).unwrap();
    let stale: Vec<_> = planned(&done).stale_checkpoints.iter().map(ResourceExt::name_any).collect();
    assert_eq!(stale, [first.checkpoints[0].name.clone()]);
}

#[test]
fn a_restart_waits_with_the_edit_that_it_came_with() {
    let first = planned(&observed(&graph(WAIT, "1")));
    let mut serving = after(&graph(WAIT, "1"), &first, 4, "Ready");
    let live = planned(&serving);
    serving = after(&graph(WAIT, "1"), &live, 4, "Ready");
    serving.graph = graph(WAIT, "2");
    serving.graph.spec.restart = serde_json::from_value(json!({ "id": "r1" })).unwrap();
    let held = planned(&serving);
    assert!(on_grove(&held).held_back);
    let restart = held.restart.unwrap();
    assert_eq!((restart.phase, restart.in_progress), (Some(RestartPhase::Restarting), Some(vec!["Decode".to_owned()])));
}

#[test]
fn checkpoints_of_a_graph_that_has_no_workers_any_more_are_deleted() {
    let before = graph("Immediate", "1");
    let first = planned(&observed(&before));
    let mut after = after(&before, &first, 4, "Ready");
    after.graph = graph_with(|g| g["spec"]["components"].as_array_mut().unwrap().truncate(1));
    after.grove.sets[0].status = serde_json::from_value(json!({ "observedGeneration": 1 })).unwrap();
    let stale: Vec<_> = planned(&after).stale_checkpoints.iter().map(ResourceExt::name_any).collect();
    assert_eq!(stale, [first.checkpoints[0].name.clone()]);
}

#[test]
fn a_checkpoint_of_other_memory_is_reported_and_nothing_is_written() {
    let graph = graph(WAIT, "1");
    let first = planned(&observed(&graph));
    let mut live = after(&graph, &first, 0, "Ready");
    live.checkpoints.all[0].spec.gpu_memory_service = serde_json::from_value(json!({ "enabled": true })).unwrap();
    let plan = planned(&live);
    assert!(plan.grove.is_none());
    let message = plan.obstacle.unwrap().message;
    assert!(
        message.starts_with("spec.components[Decode]: spec.experimental.gpuMemoryService: is missing"),
        "{message}"
    );
}
