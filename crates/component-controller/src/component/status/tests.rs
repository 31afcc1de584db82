//! Tests of the status.

use controller_kit::{apply::ObjectId, conditions::find};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn progressing(message: &str) -> Progress {
    Progress::working(reason::PROGRESSING, message)
}

fn inputs(progress: Progress, pull_secrets: &NamedPullSecrets) -> ComponentStatusInputs<'_> {
    ComponentStatusInputs {
        generation: Some(3),
        progress,
        kind: WorkloadKind::Deployment,
        replicas: None,
        pull_secrets,
        joins_nodes: true,
    }
}

/// Workers that were removed and then kept do not count until their controller has observed the latest spec.
#[test]
fn counts_of_an_unobserved_spec_are_limited() {
    let counts = |n: i32| ComponentReplicaStatus {
        component_kind: api_types::v1beta1::ComponentKind::Deployment,
        component_names: vec![],
        runtime_namespace: None,
        replicas: n,
        updated_replicas: n,
        ready_replicas: Some(n),
        available_replicas: Some(n),
        scheduled_replicas: None,
    };
    let reported = |unobserved: Option<i32>, before: Option<i32>, counted: i32| {
        let limited = limit_unobserved(counts(counted), unobserved, before.map(counts).as_ref());
        assert_eq!((limited.replicas, limited.ready_replicas), (counted, limited.available_replicas));
        limited.ready_replicas.unwrap()
    };
    assert_eq!(reported(Some(1), Some(4), 4), 1, "three are removed");
    assert_eq!(reported(Some(3), Some(1), 4), 1, "they may be gone, although they are kept");
    assert_eq!(reported(None, Some(1), 2), 2, "observed");
    assert_eq!(reported(Some(4), Some(4), 4), 4, "another template removes none");
    assert_eq!(reported(Some(2), None, 0), 0, "a new component");
}

/// `Type=Status/Reason` of every condition.
fn table(status: &DynamoComponentDeploymentStatus) -> Vec<String> {
    status.conditions.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect()
}

#[test]
fn every_phase_has_its_conditions() {
    let secrets = NamedPullSecrets::default();
    let diagnosis = PodDiagnosis { cause: rendering::PodCause::ImagePull, message: "pod w-1: no".into() };
    for (progress, expected) in [
        (
            Progress::Current,
            [
                "Available=True/DeploymentReady",
                "DynamoComponentReady=True/ComponentReady",
                "Ready=True/ComponentReady",
                "Reconciling=False/UpToDate",
                "Stalled=False/UpToDate",
            ],
        ),
        (
            progressing("0 of 1"),
            [
                "Available=False/DeploymentNotReady",
                "DynamoComponentReady=False/ComponentNotReady",
                "Ready=False/ComponentNotReady",
                "Reconciling=True/Progressing",
                "Stalled=False/Progressing",
            ],
        ),
        (
            with_diagnosis(progressing("0 of 1"), Some(&diagnosis)),
            [
                "Available=False/DeploymentNotReady",
                "DynamoComponentReady=False/ComponentNotReady",
                "Ready=False/ComponentNotReady",
                "Reconciling=True/ImagePullFailed",
                "Stalled=False/Progressing",
            ],
        ),
        (
            Progress::stuck(reason::NAME_TAKEN, "taken"),
            [
                "Available=False/DeploymentNotReady",
                "DynamoComponentReady=False/ComponentNotReady",
                "Ready=False/NameTaken",
                "Reconciling=False/Stalled",
                "Stalled=True/NameTaken",
            ],
        ),
    ] {
        let status = status(None, &inputs(progress, &secrets), at(1));
        assert_eq!(table(&status), expected);
        assert_eq!(status.observed_generation, Some(3));
        assert!(status.conditions.iter().all(|c| c.observed_generation == Some(3)));
    }
}

#[test]
fn transition_times_and_conditions_of_others_stay() {
    let secrets = NamedPullSecrets::default();
    let mut before = status(None, &inputs(progressing("a"), &secrets), at(1));
    set_condition(&mut before.conditions, "Theirs", Status::True, "X", "", None, at(1));
    let after = status(Some(&before), &inputs(progressing("b"), &secrets), at(9));
    let ready = find(&after.conditions, conditions::READY).unwrap();
    assert_eq!((ready.message.as_str(), ready.last_transition_time.0), ("b", at(1)));
    assert!(find(&after.conditions, "Theirs").is_some());
}

#[test]
fn pull_secrets_have_a_condition_only_if_some_are_named() {
    let missing = NamedPullSecrets { any: true, missing: vec!["a".into(), "b".into()] };
    let first = status(None, &inputs(Progress::Current, &missing), at(1));
    let condition = find(&first.conditions, reason::PULL_SECRETS_FOUND).unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", reason::SECRET_MISSING));
    assert!(condition.message.contains(": a, b;"), "{}", condition.message);

    let found = NamedPullSecrets { any: true, missing: Vec::new() };
    let second = status(Some(&first), &inputs(Progress::Current, &found), at(2));
    assert_eq!(find(&second.conditions, reason::PULL_SECRETS_FOUND).unwrap().status, "True");

    let third = status(Some(&second), &inputs(Progress::Current, &NamedPullSecrets::default()), at(3));
    assert!(find(&third.conditions, reason::PULL_SECRETS_FOUND).is_none());
}

#[test]
fn the_most_urgent_rejection_sets_the_reason_and_all_are_in_the_message() {
    let rejection = |class, message: &str| Rejection {
        class,
        object: ObjectId { group: String::new(), kind: "Service".into(), namespace: "n".into(), name: "w".into() },
        message: message.into(),
    };
    let applied = |rejections| ComponentApplied { rejections, ..ComponentApplied::default() };
    let both = applied(vec![rejection(Class::Forbidden, "quota"), rejection(Class::Foreign, "taken")]);
    assert_eq!(progress_of(&both), Progress::stuck(reason::NAME_TAKEN, "taken; quota"));
    let rejected = applied(vec![rejection(Class::Invalid, "bad port")]);
    assert_eq!(progress_of(&rejected), Progress::stuck(reason::INVALID_SPEC, "bad port"));
    let forbidden = applied(vec![rejection(Class::Forbidden, "quota")]);
    assert_eq!(progress_of(&forbidden), progressing("quota"));
    let waiting =
        ComponentApplied { waiting: vec!["Deployment n/w: it is being deleted".into()], ..ComponentApplied::default() };
    assert_eq!(progress_of(&waiting), progressing("Deployment n/w: it is being deleted"));
}

/// The upstream operator does not report it, and the nodes never join.
#[test]
fn an_engine_whose_nodes_cannot_be_joined_has_a_condition() {
    let secrets = NamedPullSecrets::default();
    let inputs = inputs(Progress::Current, &secrets);
    let first = status(None, &ComponentStatusInputs { joins_nodes: false, ..inputs.clone() }, at(1));
    let condition = find(&first.conditions, reason::NODES_JOINED).unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", reason::ENGINE_NOT_FOUND));
    assert!(find(&first.conditions, "Ready").unwrap().status == "True", "it may work nevertheless");
    let second = status(Some(&first), &inputs, at(2));
    assert!(find(&second.conditions, reason::NODES_JOINED).is_none());
}

fn deployment(observed: i64, status: DeploymentStatus) -> LiveWorkload {
    let mut deployment = Deployment::default();
    deployment.metadata.name = Some("w".into());
    deployment.metadata.generation = Some(2);
    deployment.spec = Some(DeploymentSpec { replicas: Some(2), ..DeploymentSpec::default() });
    deployment.status = Some(DeploymentStatus { observed_generation: Some(observed), ..status });
    LiveWorkload::Deployment(Box::new(deployment))
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        ..DeploymentCondition::default()
    }
}

#[test]
fn the_message_of_a_new_deployment_is_constant_until_its_first_pod_exists() {
    let unseen = shortfall(&deployment(0, DeploymentStatus::default()));
    let seen = shortfall(&deployment(2, DeploymentStatus::default()));
    assert_eq!(unseen, seen);
    assert_eq!(seen.unwrap(), "Deployment w: 0 of 2 desired pods are available, 0 have the latest template");
}

#[test]
fn counts_of_an_older_spec_do_not_count() {
    let status = DeploymentStatus {
        replicas: Some(2),
        updated_replicas: Some(2),
        ready_replicas: Some(2),
        available_replicas: Some(2),
        conditions: Some(vec![condition("Available", "True", "", "")]),
        ..DeploymentStatus::default()
    };
    assert_eq!(shortfall(&deployment(2, status.clone())), None);
    let message = shortfall(&deployment(1, status)).unwrap();
    assert_eq!(message, "Deployment w: its controller has not yet seen the latest spec");
}

#[test]
fn pods_that_a_quota_rejects_differ_from_slow_pods() {
    let with = |condition| deployment(2, DeploymentStatus { conditions: Some(vec![condition]), ..Default::default() });
    assert!(pods_are_rejected(&with(condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota"))));
    assert!(!pods_are_rejected(&with(condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"))));
}

#[test]
fn failed_conditions_of_a_deployment_are_included() {
    let status = DeploymentStatus {
        replicas: Some(1),
        updated_replicas: Some(1),
        conditions: Some(vec![
            condition("Progressing", "False", "ProgressDeadlineExceeded", "timed out"),
            condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota: gpus"),
            condition("Available", "False", "MinimumReplicasUnavailable", "no"),
        ]),
        ..DeploymentStatus::default()
    };
    assert_eq!(
        shortfall(&deployment(2, status)).unwrap(),
        "Deployment w: 0 of 2 desired pods are available, 1 have the latest template; \
         ProgressDeadlineExceeded: timed out; FailedCreate: exceeded quota: gpus"
    );
}

/// A standalone component may name an account that only graphs create.
#[test]
fn a_missing_service_account_is_named() {
    let words = "pods \"w-1\" is forbidden: error looking up service account team/w-k8s-service-discovery: not found";
    let status = DeploymentStatus {
        conditions: Some(vec![condition("ReplicaFailure", "True", "FailedCreate", words)]),
        ..DeploymentStatus::default()
    };
    let message = shortfall(&deployment(1, status)).unwrap();
    assert!(message.contains("service account team/w-k8s-service-discovery"), "{message}");
}
