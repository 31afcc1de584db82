//! Table tests of the plan of a write.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{APPLIED_ANNOTATION, Write, fingerprint, plan_write, stamp};

const PARENT: &str = "parent-uid";

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": "nvidia.com/v1beta1", "kind": kind, "name": name, "uid": uid, "controller": true })
}

fn desired() -> Value {
    stamp(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "d", "namespace": "n", "ownerReferences": [owner("Component", "c", PARENT)] },
        "spec": { "replicas": 2, "template": { "spec": { "containers": [{ "name": "main", "image": "i:1" }] } } },
    }))
}

/// Returns the object of the API server after the desired object was applied.
fn live() -> Value {
    let mut live = desired();
    live["metadata"]["uid"] = json!("live-uid");
    live["metadata"]["resourceVersion"] = json!("41");
    live["spec"]["progressDeadlineSeconds"] = json!(600);
    live["status"] = json!({ "readyReplicas": 2 });
    live
}

fn plan(live: &Value) -> Write {
    plan_write(&desired(), live, PARENT, false)
}

fn paths(write: &Write) -> Vec<&str> {
    match write {
        Write::Update { differences, .. } => differences.iter().map(|d| d.path.as_str()).collect(),
        other => panic!("not an update: {other:?}"),
    }
}

#[test]
fn what_is_as_desired_is_skipped() {
    assert_eq!(plan(&live()), Write::Skip);
}

#[test]
fn drift_is_repaired_with_the_uid_that_was_seen() {
    let mut drifted = live();
    drifted["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
    let write = plan(&drifted);
    assert_eq!(paths(&write), ["spec.template.spec.containers[0].image"]);
    let Write::Update { uid, resource_version, .. } = write else { unreachable!("checked by paths") };
    assert_eq!((uid.as_str(), resource_version.as_str()), ("live-uid", "41"));
}

#[test]
fn a_label_of_ours_that_was_removed_is_drift_and_a_foreign_one_is_not() {
    let expected = stamp(
        json!({ "metadata": { "name": "d", "labels": { "ours": "x" }, "ownerReferences": [owner("C", "c", PARENT)] } }),
    );
    let mut labelled = expected.clone();
    labelled["metadata"]["labels"]["theirs"] = json!("y");
    assert_eq!(plan_write(&expected, &labelled, PARENT, false), Write::Skip);
    labelled["metadata"]["labels"] = json!({ "theirs": "y" });
    assert_eq!(
        paths(&plan_write(&expected, &labelled, PARENT, false)),
        ["metadata.labels"].map(|p| format!("{p}.ours"))
    );
}

#[test]
fn a_field_that_is_no_longer_desired_is_an_update_though_every_leaf_is_covered() {
    let mut before = live();
    before["metadata"]["annotations"][APPLIED_ANNOTATION] = json!("0123456789abcdef");
    before["spec"]["minReadySeconds"] = json!(5);
    assert_eq!(paths(&plan(&before)), ["metadata.annotations.operator.dynamo/applied"]);
}

#[test]
fn the_plan_depends_on_the_owner_of_the_object() {
    let owned_by = |owners: Value| {
        let mut object = live();
        object["metadata"]["ownerReferences"] = owners;
        object
    };
    let mut plain = owner("Component", "c", "x");
    plain["controller"] = json!(false);
    for (case, owners, adoptable, expected) in [
        ("another controller", json!([owner("Other", "o", "9")]), true, Some("its controller is Other o")),
        ("another parent", json!([owner("Component", "d", "9")]), true, Some("its controller is Component d")),
        ("no owner", json!([]), false, Some("it has no controller")),
        ("an owner that does not control", json!([plain]), false, Some("it has no controller")),
        ("no owner, and adoptable", json!([]), true, None),
    ] {
        let write = plan_write(&desired(), &owned_by(owners), PARENT, adoptable);
        match expected {
            Some(reason) => assert_eq!(write, Write::Conflict { reason: reason.to_owned() }, "{case}"),
            None => assert_eq!(paths(&write), ["metadata.ownerReferences[0]"], "{case}"),
        }
    }
}

#[test]
fn a_parent_made_again_waits_until_the_children_of_the_old_one_are_collected() {
    let mut old = live();
    old["metadata"]["ownerReferences"] = json!([owner("Component", "c", "uid-of-the-deleted-one")]);
    let Write::Wait { reason } = plan(&old) else { panic!("{:?}", plan(&old)) };
    assert_eq!(reason, "it belongs to a deleted Component c and is being collected");
}

#[test]
fn an_object_that_is_being_deleted_is_waited_for() {
    let mut leaving = live();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(plan(&leaving), Write::Wait { reason: "it is being deleted".to_owned() });
    leaving["spec"]["replicas"] = json!(9);
    assert!(matches!(plan(&leaving), Write::Wait { .. }), "drift does not matter any more");
}

#[test]
fn stamping_drops_what_the_server_says_and_is_stable() {
    let stamped = stamp(json!({
        "metadata": { "name": "a", "uid": "u", "resourceVersion": "1", "creationTimestamp": null, "managedFields": [] },
        "spec": { "a": null, "list": [{ "b": null, "c": 1 }] },
        "status": {},
    }));
    let print = stamped["metadata"]["annotations"][APPLIED_ANNOTATION].as_str().unwrap().to_owned();
    assert_eq!(print.len(), 16);
    assert_eq!(
        stamped,
        json!({
            "metadata": { "name": "a", "annotations": { APPLIED_ANNOTATION: print } },
            "spec": { "list": [{ "c": 1 }] },
        })
    );
    assert_eq!(stamp(stamped.clone()), stamped);
}

#[test]
fn the_fingerprint_is_the_same_in_every_release() {
    let object = json!({ "b": [1, "x", null, true], "a": { "d": 1.5, "c": "ü\n" } });
    assert_eq!(fingerprint(&object), "389783e0c2194321");
    assert_ne!(fingerprint(&json!({ "a": "1" })), fingerprint(&json!({ "a": 1 })));
    assert_ne!(fingerprint(&json!([["a"], "b"])), fingerprint(&json!([["a", "b"]])));
}

proptest! {
    #[test]
    fn no_live_object_of_another_controller_is_ever_written(uid in "[a-z]{1,8}", replicas in 0..9, adoptable: bool) {
        prop_assume!(uid != PARENT);
        let mut object = live();
        object["spec"]["replicas"] = json!(replicas);
        object["metadata"]["ownerReferences"] = json!([owner("Any", "x", &uid)]);
        let write = plan_write(&desired(), &object, PARENT, adoptable);
        prop_assert!(matches!(write, Write::Conflict { .. }), "{:?}", write);
    }

    #[test]
    fn other_order_of_fields_is_the_same_fingerprint(fields in prop::collection::vec(("[a-e]{1,3}", 0..9), 1..6)) {
        let text = |list: &[(String, i32)]| -> Value {
            let body: Vec<String> = list.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
            serde_json::from_str(&format!("{{{}}}", body.join(","))).unwrap()
        };
        let unique: std::collections::BTreeMap<_, _> = fields.into_iter().collect();
        let forward: Vec<_> = unique.into_iter().collect();
        let backward: Vec<_> = forward.iter().rev().cloned().collect();
        prop_assert_eq!(fingerprint(&text(&forward)), fingerprint(&text(&backward)));
    }
}
