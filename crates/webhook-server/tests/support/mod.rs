//! Requests, facts, and answers in short.

pub mod conformance_kit;

use api_types::{
    conversion::{ApiVersion, convert},
    violations::Violation,
};
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Answer, Facts, Features, Operation, Request, review};

/// User name of the operator.
pub const OPERATOR: &str = "system:serviceaccount:dynamo-system:dynamo-operator-graph-controller";

/// A cluster with everything but Grove, LeaderWorkerSet and checkpoints.
pub fn facts() -> Facts {
    Facts {
        features: Features { inference_pool: true, gpu_discovery: true, ..Features::default() },
        operators: vec![OPERATOR.to_owned()],
        operator_version: "1.5.0".to_owned(),
        ..Facts::default()
    }
}

/// The same with some features switched.
pub fn facts_with(switch: impl FnOnce(&mut Features)) -> Facts {
    let mut facts = facts();
    switch(&mut facts.features);
    facts
}

/// A cluster with Grove.
pub fn grove() -> Facts {
    facts_with(|features| features.grove = true)
}

/// A request to create an object.
pub fn creation(object: Value) -> Request {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (group, version) = text("/apiVersion").split_once('/').map_or_else(
        || (String::new(), text("/apiVersion")),
        |(group, version)| (group.to_owned(), version.to_owned()),
    );
    Request {
        uid: "1".to_owned(),
        kind: GroupVersionKind { group, version, kind: text("/kind") },
        request_kind: None,
        subresource: None,
        operation: Operation::Create,
        name: text("/metadata/name"),
        namespace: text("/metadata/namespace"),
        user_info: user_named("ann"),
        object: Some(object),
        old_object: None,
    }
}

/// The request as the API server sends it: converted, with the kind that the user sent beside it.
pub fn converted(object: &Value) -> Request {
    let kind = creation(object.clone()).kind;
    let hub = convert(object.clone(), ApiVersion::V1Beta1).unwrap();
    Request { request_kind: Some(kind), ..creation(hub) }
}

/// A request to change an object.
pub fn change(old: Value, new: Value) -> Request {
    Request { operation: Operation::Update, old_object: Some(old), ..creation(new) }
}

/// A request to change an object, as the API server sends it.
pub fn converted_change(old: &Value, new: &Value) -> Request {
    Request { operation: Operation::Update, old_object: converted(old).object, ..converted(new) }
}

/// A sender of requests.
pub fn user_named(name: &str) -> UserInfo {
    UserInfo { username: Some(name.to_owned()), ..UserInfo::default() }
}

/// A change by a given user.
pub fn change_by(user: &str, old: Value, new: Value) -> Request {
    Request { user_info: user_named(user), ..change(old, new) }
}

/// The violations in an answer as `Kind path`; empty if the request is admitted.
pub fn violations(answer: &Answer) -> Vec<String> {
    let Answer::Deny { violations, .. } = answer else { return Vec::new() };
    violations.iter().map(|violation| format!("{:?} {}", violation.reason, violation.path)).collect()
}

/// Everything that an answer says.
pub fn words(answer: &Answer) -> String {
    let (violations, warnings) = match answer {
        Answer::Deny { violations, warnings } => (violations.iter().map(Violation::in_status).collect(), warnings),
        Answer::Allow { warnings, .. } => (Vec::new(), warnings),
    };
    violations.into_iter().chain(warnings.iter().cloned()).collect::<Vec<String>>().join("\n")
}

/// The warnings in an answer.
pub fn warnings(answer: &Answer) -> &[String] {
    match answer {
        Answer::Deny { warnings, .. } | Answer::Allow { warnings, .. } => warnings,
    }
}

/// The object as the answer leaves it.
pub fn patched(path: AdmissionPath, request: &Request, facts: &Facts) -> Value {
    let Answer::Allow { patch, .. } = review(path, request, facts) else { panic!("refused: {request:?}") };
    let mut object = request.object.clone().unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    object
}

/// The path on which objects of a kind are validated.
pub fn validates(kind: &str) -> Option<AdmissionPath> {
    match kind {
        "DynamoGraphDeployment" => Some(AdmissionPath::ValidateGraph),
        "DynamoComponentDeployment" => Some(AdmissionPath::ValidateComponent),
        "DynamoGraphDeploymentRequest" => Some(AdmissionPath::ValidateRequest),
        "DynamoCheckpoint" => Some(AdmissionPath::ValidateCheckpoint),
        "DynamoModel" => Some(AdmissionPath::ValidateModel),
        _ => None,
    }
}

/// Validates a request.
pub fn validate(request: &Request, facts: &Facts) -> Answer {
    review(validates(&request.kind.kind).unwrap(), request, facts)
}

/// Validates a new object.
pub fn create(object: &Value, facts: &Facts) -> Answer {
    validate(&creation(object.clone()), facts)
}

/// Validates the change of an object.
pub fn update(old: &Value, new: &Value, facts: &Facts) -> Answer {
    validate(&change(old.clone(), new.clone()), facts)
}

/// A worker of a graph that is in order.
pub fn worker() -> Value {
    json!({
        "name": "decode", "type": "decode", "replicas": 2,
        "podTemplate": { "spec": { "containers": [
            { "name": "side", "image": "side:1" },
            { "name": "main", "image": "vllm-runtime:1.5.0", "resources": { "limits": { "nvidia.com/gpu": "1" } } },
        ] } },
    })
}

/// A graph that is in order, in v1beta1.
pub fn graph() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {
            "name": "llama", "namespace": "team", "generation": 1,
            "annotations": { "nvidia.com/workload-provider": "component" },
        },
        "spec": {
            "backendFramework": "vllm",
            "components": [
                {
                    "name": "Frontend", "type": "frontend", "replicas": 1,
                    "podTemplate": { "spec": { "containers": [{ "name": "main", "image": "vllm-runtime:1.5.0" }] } },
                },
                worker(),
            ],
        },
    })
}

/// The same on Grove.
pub fn grove_graph() -> Value {
    edited(&graph(), |graph| {
        graph["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!("grove");
        for index in [0, 1] {
            graph["spec"]["components"][index]["minAvailable"] = json!(1);
        }
    })
}

/// A component on its own that is in order.
pub fn component() -> Value {
    let mut spec = worker();
    spec["backendFramework"] = json!("vllm");
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": { "name": "decode", "namespace": "team" },
        "spec": spec,
    })
}

/// An object with a change.
pub fn edited(object: &Value, edit: impl FnOnce(&mut Value)) -> Value {
    let mut object = object.clone();
    edit(&mut object);
    object
}

/// One row of a table: a change of an object, and the violations that it makes.
pub type Row = (&'static str, fn(&mut Value), &'static [&'static str]);

/// Creates `object` with each change and compares the violations.
pub fn creates(object: &Value, facts: &Facts, rows: &[Row]) {
    assert_eq!(violations(&create(object, facts)), Vec::<String>::new(), "as it is");
    for (what, edit, expected) in rows {
        let answer = create(&edited(object, edit), facts);
        assert_eq!(violations(&answer), *expected, "{what}\n{}", words(&answer));
    }
}

/// Updates `object` with each change and compares the violations.
pub fn updates(object: &Value, facts: &Facts, rows: &[Row]) {
    for (what, edit, expected) in rows {
        let answer = update(object, &edited(object, edit), facts);
        assert_eq!(violations(&answer), *expected, "{what}\n{}", words(&answer));
    }
}
