//! Any bytes as an `AdmissionReview`, and any JSON as the objects in one: every path gives an answer, and what is to be
//! changed can be changed.

use std::{collections::BTreeMap, sync::LazyLock};

use json_patch::{Patch, patch};
use serde_json::{Value, json};
use webhook_server::{
    admission::{AdmissionPath, Answer, Facts, Features, Lookup, Request, lookups, review},
    review::{decode, encode},
};

const OPERATOR: &str = "system:serviceaccount:o:operator";
const TYPES: [(&str, &str); 7] = [
    ("v1beta1", "DynamoGraphDeployment"),
    ("v1alpha1", "DynamoGraphDeployment"),
    ("v1beta1", "DynamoComponentDeployment"),
    ("v1alpha1", "DynamoComponentDeployment"),
    ("v1beta1", "DynamoGraphDeploymentRequest"),
    ("v1alpha1", "DynamoCheckpoint"),
    ("v1alpha1", "DynamoModel"),
];

/// A cluster with nothing, and one with everything.
static CLUSTERS: LazyLock<[Facts; 2]> = LazyLock::new(|| {
    let operators = vec![OPERATOR.to_owned()];
    [
        Facts::default(),
        Facts { features: Features::ALL, operators, operator_version: "1.5.0".to_owned(), ..Facts::default() },
    ]
});

/// Reviews as the server does; `seen` is the content of every object that the rules read.
fn check(path: AdmissionPath, request: &Request, cluster: &Facts, seen: &Value) {
    let found = |lookup: Lookup| (lookup, Ok(Some(seen.clone())));
    let found: BTreeMap<_, _> = lookups(path, request, cluster).into_iter().map(found).collect();
    let answer = review(path, request, &Facts { found, ..cluster.clone() });
    let _ = encode(request, &answer);
    if let (Answer::Allow { patch: changes, .. }, Some(object)) = (answer, &request.object) {
        let mut object = object.clone();
        assert!(patch(&mut object, &Patch(changes)).is_ok(), "{path:?}: a patch that does not fit");
    }
}

/// The fuzz target.
pub fn run(data: &[u8]) {
    if let Ok(request) = decode(data) {
        for path in AdmissionPath::ALL {
            CLUSTERS.iter().for_each(|cluster| check(path, &request, cluster, &Value::Null));
        }
    }
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let (group_of, whole) = (|kind: &str| if kind == "Pod" { "" } else { "nvidia.com" }, &value);
    for (version, kind) in TYPES.into_iter().chain([("v1", "Pod")]) {
        let object = |of: &Value| {
            json!({
                "apiVersion": format!("nvidia.com/{version}"), "kind": kind,
                "metadata": of["metadata"], "spec": of["spec"], "status": of["status"],
            })
        };
        let gvk = json!({ "group": group_of(kind), "version": version, "kind": kind });
        let request = |operation: &str, old: Value| {
            json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "u", "kind": gvk, "requestKind": gvk, "resource": {}, "operation": operation, "name": "a",
                "namespace": "n", "userInfo": { "username": OPERATOR }, "object": object(whole), "oldObject": old,
            } })
        };
        for review in [request("CREATE", Value::Null), request("UPDATE", object(&whole["old"]))] {
            let Ok(request) = decode(review.to_string().as_bytes()) else { panic!("the request of a real API server") };
            for path in AdmissionPath::ALL {
                CLUSTERS.iter().for_each(|cluster| check(path, &request, cluster, whole));
            }
        }
    }
}
