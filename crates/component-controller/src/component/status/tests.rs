//! Tests of the status.

use controller_kit::{apply::ObjectId, conditions::find};

use super::*;
use crate::component::acted::{Cause, Refusal};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn facts(standing: Standing, pull_secrets: &NamedPullSecrets) -> Facts<'_> {
    Facts {
        generation: Some(3),
        standing,
        kind: WorkloadKind::Deployment,
        untold: None,
        replicas: None,
        pull_secrets,
        joins_nodes: true,
    }
}

/// Workers that were told to go, and then to stay, are counted as if nothing had been said until their controller has looked.
#[test]
fn counts_of_before_the_latest_spec_never_say_that_more_serve_than_were_told_to() {
    let secrets = NamedPullSecrets::default();
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
    let said = |untold: Option<i32>, before: Option<i32>, counted: i32| {
        let component = before.map(counts);
        let live = DynamoComponentDeploymentStatus { component, ..Default::default() };
        let replicas = Some(counts(counted));
        let facts = Facts { untold, replicas, ..facts(Standing::Underway("0 of 1".into()), &secrets) };
        let said = status(before.is_some().then_some(&live), &facts, at(1)).component.unwrap();
        assert_eq!((said.replicas, said.ready_replicas), (counted, said.available_replicas));
        said.ready_replicas.unwrap()
    };
    assert_eq!(said(Some(1), Some(4), 4), 1, "three were told to go");
    assert_eq!(said(Some(3), Some(1), 4), 1, "and may be gone by now, although they were told to stay");
    assert_eq!(said(None, Some(1), 2), 2, "their controller has looked");
    assert_eq!(said(Some(4), Some(4), 4), 4, "another template takes nobody away");
    assert_eq!(said(Some(2), None, 0), 0, "a new component");
}

/// `Type=Status/Reason` of every condition.
fn table(status: &DynamoComponentDeploymentStatus) -> Vec<String> {
    status.conditions.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect()
}

#[test]
fn every_standing_has_its_conditions() {
    let secrets = NamedPullSecrets::default();
    let stuck = Standing::Stuck { reason: reason::NAME_TAKEN, message: "taken".into() };
    for (standing, expected) in [
        (
            Standing::Ready,
            [
                "Available=True/DeploymentReady",
                "DynamoComponentReady=True/ComponentReady",
                "Ready=True/ComponentReady",
                "Reconciling=False/UpToDate",
                "Stalled=False/UpToDate",
            ],
        ),
        (
            Standing::Underway("0 of 1".into()),
            [
                "Available=False/DeploymentNotReady",
                "DynamoComponentReady=False/ComponentNotReady",
                "Ready=False/ComponentNotReady",
                "Reconciling=True/Progressing",
                "Stalled=False/Progressing",
            ],
        ),
        (
            Standing::Underway("0 of 1".into())
                .because_of(Some(Diagnosis { cause: workload::Cause::ImagePull, message: "pod w-1: no".into() })),
            [
                "Available=False/DeploymentNotReady",
                "DynamoComponentReady=False/ComponentNotReady",
                "Ready=False/ComponentNotReady",
                "Reconciling=True/ImagePullFailed",
                "Stalled=False/Progressing",
            ],
        ),
        (
            stuck,
            [
                "Available=False/DeploymentNotReady",
                "DynamoComponentReady=False/ComponentNotReady",
                "Ready=False/NameTaken",
                "Reconciling=False/Stalled",
                "Stalled=True/NameTaken",
            ],
        ),
    ] {
        let status = status(None, &facts(standing, &secrets), at(1));
        assert_eq!(table(&status), expected);
        assert_eq!(status.observed_generation, Some(3));
        assert!(status.conditions.iter().all(|c| c.observed_generation == Some(3)));
    }
}

#[test]
fn transition_times_and_conditions_of_others_stay() {
    let secrets = NamedPullSecrets::default();
    let mut before = status(None, &facts(Standing::Underway("a".into()), &secrets), at(1));
    set_condition(&mut before.conditions, "Theirs", Status::True, "X", "", None, at(1));
    let after = status(Some(&before), &facts(Standing::Underway("b".into()), &secrets), at(9));
    let ready = find(&after.conditions, conditions::READY).unwrap();
    assert_eq!((ready.message.as_str(), ready.last_transition_time.0), ("b", at(1)));
    assert!(find(&after.conditions, "Theirs").is_some());
}

#[test]
fn pull_secrets_show_only_where_some_are_named() {
    let missing = NamedPullSecrets { any: true, missing: vec!["a".into(), "b".into()] };
    let first = status(None, &facts(Standing::Ready, &missing), at(1));
    let condition = find(&first.conditions, reason::PULL_SECRETS_FOUND).unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", reason::SECRET_MISSING));
    assert!(condition.message.contains(": a, b;"), "{}", condition.message);

    let found = NamedPullSecrets { any: true, missing: Vec::new() };
    let second = status(Some(&first), &facts(Standing::Ready, &found), at(2));
    assert_eq!(find(&second.conditions, reason::PULL_SECRETS_FOUND).unwrap().status, "True");

    let third = status(Some(&second), &facts(Standing::Ready, &NamedPullSecrets::default()), at(3));
    assert!(find(&third.conditions, reason::PULL_SECRETS_FOUND).is_none());
}

#[test]
fn the_most_urgent_refusal_decides_and_all_are_told() {
    let refusal = |cause, message: &str| Refusal {
        cause,
        object: ObjectId { group: String::new(), kind: "Service".into(), namespace: "n".into(), name: "w".into() },
        message: message.into(),
    };
    let acted = |refusals| Acted { refusals, ..Acted::default() };
    let both = acted(vec![refusal(Cause::Forbidden, "quota"), refusal(Cause::NameTaken, "taken")]);
    assert_eq!(Standing::of(&both), Standing::Stuck { reason: reason::NAME_TAKEN, message: "taken; quota".into() });
    let rejected = acted(vec![refusal(Cause::Rejected, "bad port")]);
    assert_eq!(Standing::of(&rejected), Standing::invalid("bad port".into()));
    let forbidden = acted(vec![refusal(Cause::Forbidden, "quota")]);
    assert_eq!(Standing::of(&forbidden), Standing::Underway("quota".into()));
    let waiting = Acted { waiting: vec!["Deployment n/w: it is being deleted".into()], ..Acted::default() };
    assert_eq!(Standing::of(&waiting), Standing::Underway("Deployment n/w: it is being deleted".into()));
}

/// The reference leaves such an engine alone without a word, and its nodes never meet.
#[test]
fn an_engine_that_cannot_be_told_of_its_nodes_is_named_as_long_as_it_is_so() {
    let secrets = NamedPullSecrets::default();
    let facts = facts(Standing::Ready, &secrets);
    let told = status(None, &Facts { joins_nodes: false, ..facts.clone() }, at(1));
    let condition = find(&told.conditions, reason::NODES_JOINED).unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", reason::ENGINE_NOT_FOUND));
    assert!(find(&told.conditions, "Ready").unwrap().status == "True", "it may work all the same");
    let mended = status(Some(&told), &facts, at(2));
    assert!(find(&mended.conditions, reason::NODES_JOINED).is_none());
}
