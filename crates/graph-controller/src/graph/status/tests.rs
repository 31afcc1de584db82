//! Tests of a graph's status, situation by situation.

use api_types::v1beta1::{RollingUpdatePhase, RollingUpdateStatus};
use controller_kit::conditions::set_condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::graph::{
    fixtures::{graph, graph_with, live, observed, set_image, valid},
    model::ObstacleProgress,
    plan::plan,
    validate::validate,
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn status_of(graph: &DynamoGraphDeployment, live: Vec<DynamoComponentDeployment>) -> DynamoGraphDeploymentStatus {
    let valid = valid(graph);
    let plan = plan(&valid, &observed(graph, live.clone()), NOW);
    status(&observed(graph, vec![]), &plan, &GraphApplied { live, ..GraphApplied::default() }, None, NOW)
}

fn fresh(graph: &DynamoGraphDeployment, available: impl Fn(i32) -> i32) -> Vec<DynamoComponentDeployment> {
    let valid = valid(graph);
    let plan = plan(&valid, &observed(graph, vec![]), NOW);
    plan.components.iter().map(|d| live(d, available(d.spec.component.desired_replicas()))).collect()
}

fn is(status: &DynamoGraphDeploymentStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|c| c.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn a_new_graph_waits_for_everything_it_needs() {
    let status = status_of(&graph(), vec![]);
    assert_eq!(status.state, GraphState::Pending);
    let (ready, reason, message) = is(&status, "Ready");
    assert_eq!((ready.as_str(), reason.as_str()), ("False", "some_resources_are_not_ready"));
    assert!(message.starts_with("Resources not ready: chat-frontend: not created yet; chat-decode-"), "{message}");
    assert_eq!(is(&status, "Reconciling").0, "True");
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn a_graph_whose_components_are_available_is_ready() {
    let status = status_of(&graph(), fresh(&graph(), |n| n));
    assert_eq!(status.state, GraphState::Successful);
    assert_eq!(is(&status, "Ready").1, "all_resources_are_ready");
    assert_eq!(is(&status, "Stalled").0, "False");
    assert_eq!(status.components["Decode"].ready_replicas, Some(4));
    assert_eq!(status.rolling_update, None);
}

#[test]
fn an_edit_is_not_ready_before_its_components_have_been_reconciled() {
    let mut live = fresh(&graph(), |n| n);
    live[0].metadata.generation = Some(2);
    let status = status_of(&graph(), live);
    assert_eq!(is(&status, "Ready").0, "False");
    assert!(is(&status, "Ready").2.contains("the latest spec has not been reconciled yet"));
}

#[test]
fn a_change_of_revision_sums_old_and_new_and_keeps_the_serving_namespace() {
    let edited = graph_with(|g| set_image(g, "1.6.0"));
    let mut live = fresh(&graph(), |n| n);
    live.extend(fresh(&edited, |_| 1).into_iter().filter(|d| d.spec.component.is_worker()));
    let old_namespace = live[1].status.as_ref().unwrap().component.as_ref().unwrap().runtime_namespace.clone();
    let status = status_of(&edited, live);
    assert_eq!(is(&status, "Ready").1, "rolling_update_in_progress");
    let decode = &status.components["Decode"];
    assert_eq!((decode.ready_replicas, decode.updated_replicas), (Some(5), 1));
    assert_eq!(decode.component_names.len(), 2);
    assert_eq!(decode.runtime_namespace, old_namespace);
    let progress = status.rolling_update.unwrap();
    assert_eq!(progress.phase, Some(RollingUpdatePhase::InProgress));
    assert_eq!(progress.start_time, Some(Time(NOW)));
}

#[test]
fn workers_that_serve_never_vanish_from_the_status() {
    let edited = graph_with(|g| set_image(g, "1.6.0"));
    let status = status_of(&edited, fresh(&graph(), |n| n));
    assert_eq!(status.components["Decode"].ready_replicas, Some(4));
    assert_eq!(status.components["Decode"].updated_replicas, 0);
    assert!(is(&status, "Ready").2.contains("4 workers of the old revision"), "{}", is(&status, "Ready").2);
}

#[test]
fn the_end_of_a_change_is_recorded_once() {
    let mut after = graph();
    after.status = Some(DynamoGraphDeploymentStatus {
        rolling_update: Some(RollingUpdateStatus {
            phase: Some(RollingUpdatePhase::InProgress),
            start_time: Some(Time(NOW)),
            ..RollingUpdateStatus::default()
        }),
        ..DynamoGraphDeploymentStatus::default()
    });
    let status = status_of(&after, fresh(&after, |n| n));
    let done = status.rolling_update.clone().unwrap();
    assert_eq!(done.phase, Some(RollingUpdatePhase::Completed));
    assert_eq!(done.updated_components, Some(vec!["Decode".to_owned()]));
    after.status = Some(status);
    assert_eq!(status_of(&after, fresh(&after, |n| n)).rolling_update, Some(done));
}

/// The status of a graph one of whose components is stalled.
fn with_stalled(reason: &str, message: &str) -> DynamoGraphDeploymentStatus {
    let mut live = fresh(&graph(), |_| 0);
    let conditions = &mut live[0].status.as_mut().unwrap().conditions;
    let generation = conditions[0].observed_generation;
    set_condition(conditions, "Stalled", true.into(), reason, message, generation, NOW);
    status_of(&graph(), live)
}

/// Found defect: the graph said `Progressing`, and only its components named the webhook.
#[test]
fn a_webhook_that_does_not_answer_for_a_component_is_the_reason_of_the_graph() {
    let edited = graph_with(|g| set_image(g, "1.6.0"));
    for of_old in [false, true] {
        let mut live = fresh(&graph(), |n| n);
        live.extend(fresh(&edited, |_| 0).into_iter().filter(|d| d.spec.component.is_worker()));
        let hindered = live.iter_mut().filter(|d| d.spec.component.is_worker());
        let hindered = if of_old { hindered.last() } else { hindered.into_iter().next() }.unwrap();
        let name = hindered.name_any();
        let conditions = &mut hindered.status.as_mut().unwrap().conditions;
        let (generation, message) = (conditions[0].observed_generation, "failed calling webhook \"m\"");
        set_condition(conditions, "Reconciling", true.into(), "WebhookUnavailable", message, generation, NOW);
        let status = status_of(&edited, live);
        let expected = ("True".to_owned(), "WebhookUnavailable".to_owned(), format!("{name}: {message}"));
        assert_eq!(is(&status, "Reconciling"), expected);
        assert_eq!(is(&status, "Ready").1, "rolling_update_in_progress");
    }
}

#[test]
fn a_stalled_component_stalls_the_graph_in_its_own_words() {
    let status = with_stalled("NameTaken", "Deployment x belongs to y");
    assert_eq!(status.state, GraphState::Pending, "the other components go on");
    let expected =
        ("True".to_owned(), "NameTaken".to_owned(), "component Frontend: Deployment x belongs to y".to_owned());
    assert_eq!(is(&status, "Stalled"), expected);
}

#[test]
fn a_missing_api_is_no_violation() {
    assert_eq!(is(&with_stalled("ApiMissing", "no LeaderWorkerSets"), "Stalled").1, "ApiMissing");
}

#[test]
fn a_refused_spec_keeps_what_is_known_of_the_workers() {
    let mut running = graph();
    running.status = Some(status_of(&graph(), fresh(&graph(), |n| n)));
    running.metadata.generation = Some(2);
    let rejection = GraphObstacle {
        ready_reason: "failed_to_reconcile_the_resources",
        progress: ObstacleProgress::Stalled("InvalidSpec"),
        message: "m".into(),
    };
    let status = of_obstacle(&observed(&running, fresh(&graph(), |n| n)), &rejection, NOW);
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.components["Decode"].ready_replicas, Some(4));
    assert_eq!(is(&status, "Ready").0, "False");
}

#[test]
fn a_graph_whose_workers_wait_for_their_checkpoint_says_so() {
    let graph = graph_with(|g| {
        let checkpoint = serde_json::json!({ "enabled": true, "startupPolicy": "WaitForCheckpoint" });
        g["spec"]["components"][1]["experimental"] = serde_json::json!({ "checkpoint": checkpoint });
    });
    let settings = crate::graph::settings::GraphSettings {
        checkpoints: Some(Default::default()),
        ..crate::graph::fixtures::settings().clone()
    };
    let valid = crate::graph::fixtures::valid_with(&graph, &settings);
    let plan = plan(&valid, &observed(&graph, vec![]), NOW);
    let live: Vec<_> = plan.components.iter().map(|d| live(d, d.spec.component.desired_replicas())).collect();
    let status = status(&observed(&graph, vec![]), &plan, &GraphApplied { live, ..GraphApplied::default() }, None, NOW);
    assert_eq!(status.state, GraphState::Pending);
    let (_, reason, message) = is(&status, "Ready");
    assert_eq!(reason, "waiting_for_checkpoint");
    let name = status.checkpoints["Decode"].checkpoint_name.clone().unwrap();
    assert_eq!(
        message,
        format!("Waiting for checkpoints: Decode waits for DynamoCheckpoint {name}, which is being made")
    );
    assert_eq!((status.checkpoints["Decode"].ready, status.checkpoints.len()), (None, 1));
}

/// Children are written all the same: pods that mount the Secret wait for it by themselves.
#[test]
fn a_graph_whose_replicas_span_nodes_names_the_secret_that_its_namespace_lacks() {
    let key = || Some("key".to_owned());
    let missing = Some(
        "Secret team-a/key: it holds the SSH key for MPI and does not exist; the webhook server makes it; make it yourself where none runs",
    );
    for (what, nodes, missing_key, expected) in
        [("missing", 2, key(), missing), ("there, or none at all", 2, None, None), ("one node", 1, key(), None)]
    {
        let graph = graph_with(|g| {
            g["spec"]["components"][1]["multinode"] = serde_json::json!({ "nodeCount": nodes });
            let before =
                [serde_json::json!({ "type": "MPIKeyAvailable", "status": "False", "reason": "r", "message": "m",
                "lastTransitionTime": "1970-01-01T00:00:00Z" })];
            g["status"] = serde_json::json!({ "conditions": before });
        });
        let settings = crate::graph::fixtures::settings();
        let served = ClusterApis { leader_worker_sets: true, ..ClusterApis::default() };
        let observed = GraphObserved { missing_key, served, ..observed(&graph, vec![]) };
        let valid = validate(&observed, settings).unwrap();
        let plan = plan(&valid, &observed, NOW);
        assert_eq!(plan.components.len(), 2, "{what}");
        let status = status(&observed, &plan, &GraphApplied::default(), None, NOW);
        // A graph that no API can run names it too, as with the upstream operator.
        let rejection =
            GraphObstacle { ready_reason: "r", progress: ObstacleProgress::Stalled("s"), message: "m".into() };
        for status in [status, of_obstacle(&observed, &rejection, NOW)] {
            let condition = status.conditions.iter().find(|c| c.type_ == "MPIKeyAvailable");
            assert_eq!(condition.map(|c| c.message.as_str()), expected, "{what}");
            assert!(
                condition.is_none_or(|c| (c.status.as_str(), c.reason.as_str()) == ("False", "SecretMissing")),
                "{what}"
            );
        }
    }
}

#[test]
fn an_engine_that_flags_cannot_reach_is_reported() {
    let graph = graph();
    let condition = |live: &[DynamoComponentDeployment]| {
        let status = status_of(&graph, live.to_vec());
        find(&status.conditions, c::component::NODES_JOINED).map(|found| found.message.clone())
    };
    let mut live = fresh(&graph, |n| n);
    assert_eq!(condition(&live), None);
    let (type_, why) = (c::component::NODES_JOINED, c::component::ENGINE_NOT_FOUND);
    let decode = live.iter_mut().find(|d| d.spec.component.name == "Decode").unwrap();
    set_condition(&mut decode.status.as_mut().unwrap().conditions, type_, false.into(), why, "m", None, NOW);
    let message = condition(&live).unwrap();
    assert!(message.starts_with("spec.components[Decode]: container main starts no"), "{message}");
}
