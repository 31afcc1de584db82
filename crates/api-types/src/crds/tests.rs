//! Tests of what the definitions say, beside their schemas.

use super::{all, file_name};
use crate::annotations;
use crate::schema::rules;
use crate::v1beta1::{BackendFramework, ComponentType, GpuSku, MAIN_CONTAINER};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::{Value, json};

fn crd(plural: &str) -> CustomResourceDefinition {
    all().unwrap().into_iter().find(|crd| crd.spec.names.plural == plural).unwrap()
}

fn v1beta1(crd: &CustomResourceDefinition) -> &CustomResourceDefinitionVersion {
    crd.spec.versions.iter().find(|version| version.name == "v1beta1").unwrap()
}

/// Plural, kind, short name, storage version and subresources of every kind.
const KINDS: [(&str, &str, &str, &str, &[&str]); 7] = [
    ("dynamographdeployments", "DynamoGraphDeployment", "dgd", "v1beta1", &["status"]),
    ("dynamocomponentdeployments", "DynamoComponentDeployment", "dcd", "v1beta1", &["status"]),
    ("dynamographdeploymentrequests", "DynamoGraphDeploymentRequest", "dgdr", "v1beta1", &["status"]),
    (
        "dynamographdeploymentscalingadapters",
        "DynamoGraphDeploymentScalingAdapter",
        "dgdsa",
        "v1beta1",
        &["scale", "status"],
    ),
    ("dynamomodels", "DynamoModel", "dm", "v1alpha1", &["status"]),
    ("dynamocheckpoints", "DynamoCheckpoint", "dckpt", "v1alpha1", &["status"]),
    ("dynamoworkermetadatas", "DynamoWorkerMetadata", "dwm", "v1alpha1", &[]),
];

#[test]
fn names_and_frame() {
    let plurals: Vec<_> = all().unwrap().into_iter().map(|crd| crd.spec.names.plural).collect();
    assert_eq!(plurals, KINDS.map(|kind| kind.0));
    for (plural, kind, short, storage, subresources) in KINDS {
        let crd = crd(plural);
        assert_eq!(crd.metadata.name, Some(format!("{plural}.nvidia.com")));
        assert_eq!(crd.metadata.annotations.as_ref().unwrap()["helm.sh/resource-policy"], "keep");
        assert_eq!(crd.spec.names.kind, kind);
        assert_eq!(crd.spec.names.list_kind, Some(format!("{kind}List")));
        assert_eq!(crd.spec.names.singular, Some(kind.to_lowercase()));
        assert_eq!(crd.spec.names.short_names, Some(vec![short.to_owned()]));
        assert_eq!(crd.spec.scope, "Namespaced");
        assert_eq!(file_name(&crd), format!("nvidia.com_{plural}.yaml"));
        for version in &crd.spec.versions {
            assert!(version.served, "{kind} {}", version.name);
            assert_eq!(version.storage, version.name == storage, "{kind} {}", version.name);
            let found = version.subresources.as_ref().map_or_else(|| json!({}), |found| json!(found));
            let found: Vec<_> = found.as_object().unwrap().keys().collect();
            assert_eq!(found, subresources, "{kind} {}", version.name);
        }
    }
}

#[test]
fn a_scaling_adapter_can_be_scaled() {
    let crd = crd("dynamographdeploymentscalingadapters");
    assert_eq!(
        json!(v1beta1(&crd).subresources)["scale"],
        json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        })
    );
}

/// Names and paths of the columns of a version.
fn columns(plural: &str, version: &str) -> Vec<String> {
    let crd = crd(plural);
    let version = crd.spec.versions.iter().find(|v| v.name == version).unwrap();
    let columns = version.additional_printer_columns.iter().flatten();
    columns.map(|c| format!("{} {} {}", c.name, c.type_, c.json_path)).collect()
}

#[test]
fn columns_of_kubectl_get() {
    let condition = |type_: &str, field: &str| format!(".status.conditions[?(@.type==\"{type_}\")].{field}");
    let age = "Age date .metadata.creationTimestamp";
    for (plural, type_) in [("dynamographdeployments", "Ready"), ("dynamocomponentdeployments", "Available")] {
        let column = format!("{type_} string {}", condition(type_, "status"));
        assert_eq!(columns(plural, "v1beta1"), [&column, "Backend string .spec.backendFramework", age]);
    }
    let (reason, message) = (condition("Succeeded", "reason"), condition("Succeeded", "message"));
    assert_eq!(
        columns("dynamographdeploymentrequests", "v1beta1"),
        [
            "Model string .spec.model",
            "Backend string .spec.backend",
            "Phase string .status.phase",
            "Profiling string .status.profilingPhase",
            &format!("Reason string {reason}"),
            &format!("Message string {message}"),
            "DGD string .status.dgdName",
            age,
        ]
    );
    assert_eq!(
        columns("dynamographdeploymentscalingadapters", "v1beta1"),
        [
            "DGD string .spec.dgdRef.name",
            "COMPONENT string .spec.dgdRef.componentName",
            "REPLICAS integer .status.replicas",
            "AGE date .metadata.creationTimestamp",
        ]
    );
    assert_eq!(
        columns("dynamomodels", "v1alpha1"),
        [
            "BaseModel string .spec.baseModelName",
            "Type string .spec.modelType",
            "Ready integer .status.readyEndpoints",
            "Total integer .status.totalEndpoints",
            age,
        ]
    );
    assert_eq!(
        columns("dynamocheckpoints", "v1alpha1"),
        [
            "Model string .spec.identity.model",
            "Backend string .spec.identity.backendFramework",
            "Phase string .status.phase",
            "CheckpointID string .status.checkpointID",
            age,
        ]
    );
    assert_eq!(columns("dynamoworkermetadatas", "v1alpha1"), [age]);
}

/// The rules are text and know nothing of the constants that they speak of.
#[test]
fn rules_use_the_vocabulary_of_the_types() {
    assert!(rules::CONTAINER[0].rule.contains(&format!("\"{MAIN_CONTAINER}\"")));
    assert_eq!(rules::POD_ANNOTATIONS[0].rule.matches(annotations::VLLM_EXECUTOR_BACKEND).count(), 2);
    assert!(rules::COMPONENT[0].rule.contains(&format!("'{}'", ComponentType::Epp)));
}

#[test]
fn enums_are_those_of_the_types() {
    let schema = json!(v1beta1(&crd("dynamographdeployments")).schema);
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let mut frameworks = spec["backendFramework"]["enum"].as_array().unwrap().clone();
    frameworks.sort_by_key(Value::to_string);
    let known = [BackendFramework::Sglang, BackendFramework::Trtllm, BackendFramework::Vllm];
    assert_eq!(frameworks, known.map(|f| json!(f.as_str())));
}

#[test]
fn a_gpu_has_one_name() {
    let skus = GpuSku::ALL.map(|sku| json!(sku));
    assert_eq!(skus, GpuSku::ALL.map(|sku| json!(sku.as_str())));
    let schema = json!(v1beta1(&crd("dynamographdeploymentrequests")).schema);
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(spec["hardware"]["properties"]["gpuSku"]["enum"], json!(skus));
}

/// The typed definition has no field for what it does not know; a keyword lost there would be lost in silence.
#[test]
fn nothing_of_a_schema_is_lost_in_the_typed_definition() {
    use crate::schema::{kubernetes::Definitions, structural::schema_of};
    use crate::v1beta1::{DynamoGraphDeploymentSpec, DynamoGraphDeploymentStatus};
    let definitions = Definitions::load().unwrap();
    let schema = json!(v1beta1(&crd("dynamographdeployments")).schema);
    let typed = &schema["openAPIV3Schema"]["properties"];
    for (field, made) in [
        ("spec", schema_of::<DynamoGraphDeploymentSpec>(&definitions).unwrap()),
        ("status", schema_of::<DynamoGraphDeploymentStatus>(&definitions).unwrap()),
    ] {
        assert_eq!(with_floats(&typed[field]), with_floats(&made), "{field}");
    }
}

/// `minimum: 1` and `minimum: 1.0` are the same.
fn with_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(with_floats).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), with_floats(value))).collect(),
        other => other.clone(),
    }
}
