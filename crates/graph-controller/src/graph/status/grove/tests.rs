//! Tests of the status of a graph on Grove, situation by situation.

use api_types::{
    grove::PodClique,
    v1beta1::{ComponentKind, DynamoGraphDeploymentStatus, GraphState},
};
use k8s_openapi::jiff::Timestamp;
use rendering::{PodCause, PodDiagnosis};
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures::{
        graph, graph_with,
        grove::{clique, group, live_set, observed_with, planned},
    },
    model::{GraphApplied, RunningPods, Troubles},
    status::status,
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A PodCliqueSet of which Grove has looked at the latest spec.
fn looked_at(mut set: PodCliqueSet, conditions: Value) -> PodCliqueSet {
    let status = json!({ "observedGeneration": 1, "currentGenerationHash": "hash", "conditions": conditions });
    set.status = serde_json::from_value(status).unwrap();
    set
}

fn status_of(observed: &GraphObserved) -> DynamoGraphDeploymentStatus {
    status_with(observed, Troubles::new())
}

fn status_with(observed: &GraphObserved, troubles: Troubles) -> DynamoGraphDeploymentStatus {
    let plan = planned(observed);
    let applied = GraphApplied { grove: observed.grove.set().cloned(), troubles, ..GraphApplied::default() };
    status(observed, &plan, &applied, None, NOW)
}

fn with(graph: &DynamoGraphDeployment, cliques: Vec<PodClique>) -> GraphObserved {
    let mut observed = observed_with(graph, looked_at(live_set(graph), json!([])));
    observed.grove.cliques = cliques;
    observed
}

fn ready(status: &DynamoGraphDeploymentStatus) -> (&str, &str, &str) {
    let ready = find(&status.conditions, c::READY).unwrap();
    (&ready.status, &ready.reason, &ready.message)
}

fn gated(component: &str) -> PodClique {
    let mut clique = clique(component, 4);
    let status = clique.status.as_mut().unwrap();
    (status.ready_replicas, status.scheduled_replicas, status.schedule_gated_replicas) = (0, 0, 4);
    clique
}

#[test]
fn a_graph_is_ready_when_all_its_cliques_are() {
    let graph = graph();
    let status = status_of(&with(&graph, vec![clique("Frontend", 1), clique("Decode", 4)]));
    assert_eq!((ready(&status).1, status.state), (c::graph::ALL_READY, GraphState::Successful));
    let decode = &status.components["Decode"];
    assert_eq!(decode.component_kind, ComponentKind::PodClique);
    assert_eq!((decode.component_names[0].as_str(), decode.ready_replicas), ("chat-0-decode", Some(4)));
}

/// Reported: ready at once after an edit, because the pods of before were all there.
#[test]
fn pods_of_an_older_template_make_no_component_ready() {
    let of_groups = graph_with(|g| g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 }));
    let reported = |graph: &DynamoGraphDeployment, hash: Option<&str>, accepted: Option<&str>, replicas: i32| {
        let (mut frontend, mut alone, mut grouped) =
            (clique("Frontend", 1), clique("Decode", replicas), group("Decode", replicas));
        frontend.status.as_mut().unwrap().current_pod_clique_set_generation_hash = accepted.map(str::to_owned);
        let hash = hash.map(str::to_owned);
        alone.status.as_mut().unwrap().current_pod_clique_set_generation_hash.clone_from(&hash);
        grouped.status.as_mut().unwrap().current_pod_clique_set_generation_hash = hash;
        let mut observed = with(graph, vec![frontend, alone]);
        observed.grove.groups = vec![grouped];
        observed.grove.sets[0].status.as_mut().unwrap().current_generation_hash = accepted.map(str::to_owned);
        let status = status_of(&observed);
        (status.state, ready(&status).1.to_owned(), ready(&status).2.to_owned())
    };
    for graph in [graph(), of_groups] {
        let (state, reason, message) = reported(&graph, Some("older"), Some("hash"), 4);
        assert_eq!((state, reason.as_str()), (GraphState::Pending, c::graph::UPDATING));
        assert!(
            message.contains("chat: Decode: Grove has not confirmed yet that its pods have the current"),
            "{message}"
        );
        let ready = (GraphState::Successful, c::graph::ALL_READY.to_owned());
        for (hash, accepted, why) in [
            (Some("hash"), Some("hash"), "all follow"),
            (None, Some("hash"), "a Grove that says nothing of its children"),
            (Some("hash"), None, "a Grove that says nothing of the set"),
        ] {
            let (state, reason, _) = reported(&graph, hash, accepted, 4);
            assert_eq!((state, reason), ready, "{why}");
        }
    }
    let none = graph_with(|g| g["spec"]["components"][1]["replicas"] = json!(0));
    assert_eq!(
        reported(&none, Some("older"), Some("hash"), 0).0,
        GraphState::Successful,
        "no pod is of an older template"
    );
}

#[test]
fn what_grove_has_not_made_or_observed_is_reported() {
    let graph = graph();
    let status = status_of(&with(&graph, vec![clique("Frontend", 1)]));
    let expected = "Resources not ready: chat: Decode: Grove has not made PodClique chat-0-decode yet";
    assert_eq!(ready(&status), ("False", c::graph::SOME_NOT_READY, expected));
    let mut observed = with(&graph, vec![clique("Frontend", 1), clique("Decode", 4)]);
    observed.grove.sets[0].metadata.generation = Some(2);
    assert_eq!(ready(&status_of(&observed)).1, c::graph::SOME_NOT_READY, "an edit that Grove has not seen");
}

/// Pods behind a scheduling gate have no event of their own.
#[test]
fn pods_that_wait_for_their_gang_are_reported_by_their_gate() {
    let graph = graph();
    let status = status_of(&with(&graph, vec![clique("Frontend", 1), gated("Decode")]));
    let (_, reason, message) = ready(&status);
    assert_eq!(reason, c::graph::INSUFFICIENT_CAPACITY);
    assert!(message.contains("Decode: 4 pods have a scheduling gate"), "{message}");
    assert!(message.ends_with("with room on the nodes that takes a few seconds"), "{message}");

    let mut frontend = clique("Frontend", 1);
    frontend.status.as_mut().unwrap().ready_replicas = 0;
    assert_eq!(ready(&status_of(&with(&graph, vec![frontend, gated("Decode")]))).1, c::graph::MIXED);
}

/// A set in the middle of a rolling update, as Grove leaves it: the observed revisions lag until the update has ended.
fn rolling(graph: &DynamoGraphDeployment) -> GraphObserved {
    let mut decode = clique("Decode", 4);
    decode.metadata.generation = Some(9);
    decode.status = serde_json::from_value(json!({
        "observedGeneration": 8, "replicas": 4, "updatedReplicas": 1, "readyReplicas": 3, "scheduledReplicas": 3,
        "currentPodCliqueSetGenerationHash": "older",
        "updateProgress": { "updateStartedAt": "2026-01-01T00:00:00Z", "podCliqueSetGenerationHash": "hash",
            "podTemplateHash": "new", "readyPodsSelectedToUpdate": { "current": "chat-0-decode-abcde" } },
    }))
    .unwrap();
    let mut observed = with(graph, vec![clique("Frontend", 1), decode]);
    let set = &mut observed.grove.sets[0];
    set.metadata.generation = Some(3);
    let status = json!({ "observedGeneration": 2, "currentGenerationHash": "hash", "updateProgress": {
        "updateStartedAt": "2026-01-01T00:00:00Z", "currentlyUpdating": [{ "replicaIndex": 0 }] } });
    set.status = serde_json::from_value(status).unwrap();
    observed
}

/// Defect: "Grove has not looked at the latest spec yet" for the whole of every rollout, and nothing of the pod that
/// stops it.
#[test]
fn a_rollout_that_is_stuck_names_the_pod_that_stops_it() {
    let observed = rolling(&graph());
    assert!(waits_for_pods(&observed, &planned(&observed).grove.unwrap()), "its pods are not read");
    let trouble =
        PodDiagnosis { cause: PodCause::Unschedulable, message: "pod d-1: 12 Insufficient nvidia.com/gpu".into() };
    let status = status_with(&observed, [("Decode".to_owned(), trouble)].into());
    let expected = "Resources not ready: PodCliqueSet chat: Grove replaces pods of an older template; \
        chat: Decode: 1 of 4 pods have the current template, 3 are ready; pod d-1: 12 Insufficient nvidia.com/gpu";
    assert_eq!(ready(&status), ("False", c::graph::UPDATING, expected));
    let reconciling = find(&status.conditions, c::RECONCILING).unwrap();
    assert_eq!(reconciling.reason, PodCause::Unschedulable.reason());
}

/// Defect: pods that the scheduler has seen were said to have a gate, because Grove's count of gated pods was older.
#[test]
fn a_pod_without_a_gate_counts_more_than_an_old_count_of_gates() {
    let observed = with(&graph(), vec![clique("Frontend", 1), gated("Decode")]);
    let of = |cause: PodCause| {
        let trouble = PodDiagnosis { cause, message: "pod d-1: text".into() };
        let status = status_with(&observed, [("Decode".to_owned(), trouble)].into());
        (ready(&status).1.to_owned(), ready(&status).2.to_owned())
    };
    let (reason, message) = of(PodCause::Unschedulable);
    assert_eq!((reason.as_str(), message.contains("gate")), (c::graph::INSUFFICIENT_CAPACITY, false), "{message}");
    assert!(message.ends_with("Decode: pod d-1: text"), "{message}");
    assert_eq!(of(PodCause::ImagePull).0, c::graph::PODS_NOT_READY);
    let (reason, message) = of(PodCause::Gated);
    assert_eq!(reason, c::graph::INSUFFICIENT_CAPACITY);
    assert!(message.contains("4 pods have a scheduling gate"), "{message}");
}

/// Defect: with `OnDelete` nothing said that Grove waits for pods to be deleted.
#[test]
fn the_strategy_on_delete_is_named_while_pods_of_an_older_template_exist() {
    let graph = graph_with(|g| g["metadata"]["annotations"]["nvidia.com/grove-update-strategy"] = json!("OnDelete"));
    let mut decode = clique("Decode", 4);
    decode.status.as_mut().unwrap().updated_replicas = 0;
    let status = status_of(&with(&graph, vec![clique("Frontend", 1), decode]));
    let message = "0 of 4 pods have the current template, 4 are ready; with the update strategy OnDelete, Grove replaces a \
        pod when it is deleted";
    assert!(ready(&status).2.ends_with(message), "{}", ready(&status).2);
}

/// Defect: ready while pods of a component that was scaled to zero still held their GPUs.
#[test]
fn a_component_scaled_to_zero_is_ready_when_its_pods_are_gone() {
    let graph = graph_with(|g| g["spec"]["components"][1]["replicas"] = json!(0));
    let mut observed = with(&graph, vec![clique("Frontend", 1), clique("Decode", 0)]);
    let pods = RunningPods { component: "Decode".to_owned(), count: 2 };
    observed.running_pods = [("Decode".to_owned(), pods)].into();
    let status = status_of(&observed);
    assert!(ready(&status).2.ends_with("2 pods that are no longer desired are still there"), "{}", ready(&status).2);
    observed.running_pods.clear();
    assert_eq!(status_of(&observed).state, GraphState::Successful);
}

#[test]
fn the_pod_that_a_user_can_help_is_named() {
    let unready = |component: &str, replicas: i32| {
        let mut clique = clique(component, replicas);
        clique.status.as_mut().unwrap().ready_replicas = 0;
        clique
    };
    let said = |component: &str, cause: PodCause| {
        (component.to_owned(), PodDiagnosis { cause, message: format!("pod {component}-1: text") })
    };
    let observed = with(&graph(), vec![unready("Frontend", 1), unready("Decode", 4)]);
    let troubles = [said("Frontend", PodCause::Probe), said("Decode", PodCause::ImagePull)];
    let status = status_with(&observed, troubles.into());
    assert!(ready(&status).2.contains("Frontend: 0 of 1 are ready; pod Frontend-1: text"), "{}", ready(&status).2);
    let reconciling = find(&status.conditions, c::RECONCILING).unwrap();
    assert_eq!(
        (reconciling.reason.as_str(), reconciling.message.as_str()),
        ("ImagePullFailed", "Decode: pod Decode-1: text")
    );
    // Engines take their time, and what was seen of a component that serves by now is of the past.
    let observed = with(&graph(), vec![unready("Frontend", 1), clique("Decode", 4)]);
    let status =
        status_with(&observed, [said("Frontend", PodCause::Probe), said("Decode", PodCause::ImagePull)].into());
    assert_eq!(find(&status.conditions, c::RECONCILING).unwrap().reason, c::graph::PROGRESSING);
}

#[test]
fn pods_are_looked_at_when_grove_has_made_them_and_they_do_not_serve() {
    let looks = |cliques: Vec<PodClique>| {
        let observed = with(&graph(), cliques);
        waits_for_pods(&observed, &planned(&observed).grove.unwrap())
    };
    assert!(!looks(vec![]), "there are none");
    assert!(!looks(vec![clique("Frontend", 1), clique("Decode", 4)]), "all serve");
    assert!(looks(vec![clique("Frontend", 1), gated("Decode")]));
}

#[test]
fn replicas_that_were_requested_just_now_are_not_there() {
    let scaled = graph_with(|g| g["spec"]["components"][1]["replicas"] = json!(6));
    let status = status_of(&with(&scaled, vec![clique("Frontend", 1), clique("Decode", 4)]));
    assert_eq!(ready(&status).1, c::graph::UPDATING);
    assert!(ready(&status).2.contains("Decode: 4 replicas become 6"));
}

#[test]
fn workers_are_routed_to_their_new_namespace_when_all_of_them_have_changed() {
    let graph = graph_with(|g| {
        let mut prefill = g["spec"]["components"][1].clone();
        (prefill["name"], prefill["type"]) = (json!("Prefill"), json!("prefill"));
        g["spec"]["components"].as_array_mut().unwrap().push(prefill);
        let old =
            json!({ "componentKind": "PodClique", "replicas": 4, "updatedReplicas": 0, "runtimeNamespace": "old" });
        g["status"] = json!({ "state": "pending", "components": { "Decode": old, "Prefill": old } });
    });
    let namespaces = |observed: &GraphObserved| {
        let status = status_of(observed);
        ["Frontend", "Decode", "Prefill"].map(|name| status.components[name].runtime_namespace.clone().unwrap())
    };
    let mut late = clique("Prefill", 4);
    late.status.as_mut().unwrap().current_pod_clique_set_generation_hash = Some("older".to_owned());
    let mut observed = with(&graph, vec![clique("Frontend", 1), clique("Decode", 4), late]);
    assert_eq!(namespaces(&observed), ["team-a-chat", "old", "old"]);
    observed.grove.cliques[2] = clique("Prefill", 4);
    let suffix = revision_of(&observed.grove.sets[0].spec.template.cliques[1]).unwrap();
    let new = format!("team-a-chat-{suffix}");
    assert_eq!(namespaces(&observed), ["team-a-chat", &new, &new]);
}

#[test]
fn a_group_is_reported_as_a_group() {
    let graph = graph_with(|g| g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 }));
    let mut observed = with(&graph, vec![clique("Frontend", 1)]);
    observed.grove.groups = vec![group("Decode", 4)];
    let status = status_of(&observed);
    assert_eq!(ready(&status).1, c::graph::ALL_READY);
    let decode = &status.components["Decode"];
    assert_eq!(decode.component_kind, ComponentKind::PodCliqueScalingGroup);
    assert_eq!((decode.ready_replicas, decode.available_replicas), (None, Some(4)));
}

#[test]
fn a_topology_is_reported_only_where_one_is_requested() {
    let topology = |graph: &DynamoGraphDeployment, conditions: Value| {
        let mut observed = with(graph, vec![]);
        observed.grove.sets = vec![looked_at(live_set(graph), conditions)];
        let status = status_of(&observed);
        find(&status.conditions, c::TOPOLOGY_AVAILABLE).map(|found| (found.status.clone(), found.reason.clone()))
    };
    assert_eq!(topology(&graph(), json!([])), None);
    let placed =
        graph_with(|g| g["spec"]["topologyConstraint"] = json!({ "clusterTopologyName": "t", "packDomain": "rack" }));
    let said = |status: &str, reason: &str| {
        json!([{ "type": "TopologyLevelsUnavailable", "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }])
    };
    for (conditions, status, reason) in [
        (json!([]), "Unknown", c::graph::TOPOLOGY_PENDING),
        (said("False", "All"), "True", c::graph::ALL_TOPOLOGY_LEVELS),
        (said("True", "ClusterTopologyLevelsUnavailable"), "False", c::graph::TOPOLOGY_LEVELS_UNAVAILABLE),
        (said("True", "ClusterTopologyNotFound"), "False", c::graph::TOPOLOGY_NOT_FOUND),
    ] {
        assert_eq!(topology(&placed, conditions), Some((status.to_owned(), reason.to_owned())));
    }
}

#[test]
fn an_engine_that_flags_cannot_reach_is_reported() {
    let reported = |command: &str| {
        let graph = graph_with(|g| {
            g["spec"]["backendFramework"] = json!("vllm");
            let decode = &mut g["spec"]["components"][1];
            decode["multinode"] = json!({ "nodeCount": 2 });
            let main = &mut decode["podTemplate"]["spec"]["containers"][0];
            main["command"] = json!(["/bin/sh", "-c"]);
            main["args"] = json!([format!("{command} --tensor-parallel-size 16")]);
            main["resources"] = json!({ "limits": { "nvidia.com/gpu": "8" } });
        });
        let status = status_of(&with(&graph, vec![]));
        find(&status.conditions, c::component::NODES_JOINED).map(|c| (c.status.clone(), c.message.clone()))
    };
    let (status, message) = reported("./launch.sh").unwrap();
    assert!(status == "False" && message.starts_with("spec.components[Decode]: container main starts no"), "{message}");
    assert_eq!(reported("python3 -m dynamo.vllm"), None);
}
