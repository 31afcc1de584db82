//! Tests of what the definitions say, beside their schemas.

use super::{all, file_name};
use crate::annotations;
use crate::schema::rules;
use crate::v1beta1::{BackendFramework, ComponentType, MAIN_CONTAINER};
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

#[test]
fn names_and_frame() {
    for (plural, kind, short) in [
        ("dynamographdeployments", "DynamoGraphDeployment", "dgd"),
        ("dynamocomponentdeployments", "DynamoComponentDeployment", "dcd"),
    ] {
        let crd = crd(plural);
        assert_eq!(crd.metadata.name, Some(format!("{plural}.nvidia.com")));
        assert_eq!(crd.metadata.annotations.as_ref().unwrap()["helm.sh/resource-policy"], "keep");
        assert_eq!(crd.spec.names.kind, kind);
        assert_eq!(crd.spec.names.list_kind, Some(format!("{kind}List")));
        assert_eq!(crd.spec.names.singular, Some(kind.to_lowercase()));
        assert_eq!(crd.spec.names.short_names, Some(vec![short.to_owned()]));
        assert_eq!(crd.spec.scope, "Namespaced");
        assert_eq!(file_name(&crd), format!("nvidia.com_{plural}.yaml"));
        let version = v1beta1(&crd);
        assert!(version.served && version.storage);
        let subresources = version.subresources.as_ref().unwrap();
        assert!(subresources.status.is_some() && subresources.scale.is_none());
    }
}

#[test]
fn columns() {
    for (plural, condition) in [("dynamographdeployments", "Ready"), ("dynamocomponentdeployments", "Available")] {
        let crd = crd(plural);
        let columns = v1beta1(&crd).additional_printer_columns.as_ref().unwrap();
        let columns: Vec<_> =
            columns.iter().map(|c| (c.name.as_str(), c.type_.as_str(), c.json_path.as_str())).collect();
        let path = format!(".status.conditions[?(@.type==\"{condition}\")].status");
        assert_eq!(
            columns,
            [
                (condition, "string", path.as_str()),
                ("Backend", "string", ".spec.backendFramework"),
                ("Age", "date", ".metadata.creationTimestamp"),
            ]
        );
    }
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
