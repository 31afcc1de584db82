//! Tests of what the definitions say, beside their schemas.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::{Value, json};

use super::{ConversionService, all, all_converted_by, file_name, version};
use crate::{
    annotations,
    conversion::ApiVersion,
    schema::{checks, rules},
    v1beta1::{BackendFramework, ComponentType, GpuSku, MAIN_CONTAINER},
};

fn crd(plural: &str) -> CustomResourceDefinition {
    all().unwrap().into_iter().find(|crd| crd.spec.names.plural == plural).unwrap()
}

fn v1beta1(crd: &CustomResourceDefinition) -> &CustomResourceDefinitionVersion {
    crd.spec.versions.iter().find(|version| version.name == "v1beta1").unwrap()
}

/// Plural, kind, short name, storage version and subresources of every kind.
const KINDS: [(&str, &str, &str, &str, &[&str]); 8] = [
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
    ("dynamocomponents", "DynamoComponent", "dc", "v1alpha1", &["status"]),
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
    for version in crd("dynamographdeploymentscalingadapters").spec.versions {
        assert_eq!(
            json!(version.subresources)["scale"],
            json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            })
        );
    }
}

/// kstatus takes an object without conditions and without `observedGeneration` for one that is done.
#[test]
fn a_new_object_is_of_no_generation_in_every_kind_with_conditions() {
    let mut kinds = 0;
    for crd in all().unwrap() {
        for version in &crd.spec.versions {
            let status = json!(version.schema)["openAPIV3Schema"]["properties"]["status"].clone();
            if status["properties"].get("conditions").is_none() {
                continue;
            }
            let at = format!("{} {}", crd.spec.names.kind, version.name);
            let field = &status["properties"]["observedGeneration"];
            assert!(field["type"] == "integer" && field.get("minimum").is_none(), "{at} {field}");
            assert_eq!(status["default"]["observedGeneration"], -1, "{at}");
            assert_eq!(status["default"]["conditions"], json!([]), "{at}");
            for name in status["required"].as_array().into_iter().flatten() {
                assert!(status["default"].get(name.as_str().unwrap()).is_some(), "{at} {name}");
            }
            kinds += 1;
        }
    }
    assert_eq!(kinds, 9);
}

/// Conversion keeps the first status as it is and needs no annotation for it.
#[test]
fn the_first_status_is_the_same_in_both_versions() {
    use crate::conversion::convert;
    for crd in all().unwrap().iter().filter(|crd| crd.spec.versions.len() == 2) {
        let schema = json!(v1beta1(crd).schema);
        let first = &schema["openAPIV3Schema"]["properties"]["status"]["default"];
        if first.is_null() {
            continue;
        }
        let new = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": crd.spec.names.kind, "metadata": { "name": "a" }, "status": first,
        });
        let old = convert(new.clone(), ApiVersion::V1Alpha1).unwrap();
        assert_eq!(old["status"]["observedGeneration"], -1);
        assert_eq!(old["metadata"], new["metadata"], "{}", crd.spec.names.kind);
        assert_eq!(convert(old, ApiVersion::V1Beta1).unwrap()["status"], *first, "{}", crd.spec.names.kind);
    }
}

#[test]
fn kinds_stored_in_v1beta1_are_served_in_v1alpha1_as_well() {
    for crd in all().unwrap() {
        let kind = &crd.spec.names.kind;
        let storage = crd.spec.versions.iter().find(|version| version.storage).unwrap();
        let others: Vec<_> = crd.spec.versions.iter().filter(|version| !version.storage).collect();
        let conversion = json!(crd.spec.conversion);
        if storage.name == "v1alpha1" {
            assert!(others.is_empty() && conversion.is_null() && storage.deprecated.is_none(), "{kind}");
            continue;
        }
        let [alpha] = others.as_slice() else { panic!("{kind}: {others:?}") };
        assert_eq!((alpha.name.as_str(), alpha.deprecated), ("v1alpha1", Some(true)));
        let warning = format!("nvidia.com/v1alpha1 {kind} is deprecated; use nvidia.com/v1beta1 {kind}");
        assert_eq!(alpha.deprecation_warning, Some(warning));
        assert_eq!(
            conversion,
            json!({
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": { "service": {
                        "namespace": "dynamo-system", "name": "dynamo-operator-webhook-service", "path": "/convert",
                    } },
                    "conversionReviewVersions": ["v1"],
                },
            })
        );
    }
}

#[test]
fn another_service_can_convert() {
    let service: ConversionService = "here/there:9443".parse().unwrap();
    let stanzas: Vec<_> = all_converted_by(&service).unwrap().iter().map(|crd| json!(crd.spec.conversion)).collect();
    let client = json!({ "service": { "namespace": "here", "name": "there", "path": "/convert", "port": 9443 } });
    assert_eq!(stanzas.iter().filter(|stanza| stanza["webhook"]["clientConfig"] == client).count(), 4);
}

/// Fields by which the standalone component differs from the component of a graph.
#[test]
fn a_component_on_its_own_has_no_part_in_a_graph() {
    for (version, list, items) in [("v1beta1", "components", "items"), ("v1alpha1", "services", "additionalProperties")]
    {
        let spec = |plural: &str| {
            let crd = crd(plural);
            let version = crd.spec.versions.iter().find(|v| v.name == version).unwrap();
            json!(version.schema)["openAPIV3Schema"]["properties"]["spec"].clone()
        };
        let in_graph = spec("dynamographdeployments")["properties"][list][items].clone();
        let alone = spec("dynamocomponentdeployments");
        for field in [
            "/properties/providerOverride",
            "/properties/multinode/properties/leader",
            "/properties/multinode/properties/worker",
        ] {
            assert!(in_graph.pointer(field).is_some() && alone.pointer(field).is_none(), "{version} {field}");
        }
        let named = |schema: &Value| schema["required"].as_array().is_some_and(|r| r.contains(&json!("name")));
        assert_eq!((named(&in_graph), named(&alone)), (version == "v1beta1", false));
        // But for the kind that they name, rules hold in both; and Grove runs no component on its own.
        let rules = |schema: &Value| -> Vec<Value> {
            schema["x-kubernetes-validations"].as_array().unwrap().iter().map(|rule| rule["rule"].clone()).collect()
        };
        let more = if version == "v1beta1" { 2 } else { 1 };
        let (in_graph, alone) = (rules(&in_graph), rules(&alone));
        let of_alone: Vec<_> = alone.iter().filter(|rule| !in_graph.contains(rule)).collect();
        let of_grove =
            |rule: &&Value| rule.as_str().is_some_and(|rule| rule.contains("minAvailable") || rule.contains("grove"));
        assert!(of_alone.len() == more && of_alone.iter().all(of_grove), "{version}: {of_alone:#?}");
        assert!(in_graph.iter().all(|rule| alone.contains(rule)), "{version}");
    }
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
    let backend = "Backend string .spec.backendFramework";
    let ready = format!("Ready string {}", condition("Ready", "status"));
    let available = format!("Available string {}", condition("Available", "status"));
    assert_eq!(columns("dynamographdeployments", "v1beta1"), [&ready, backend, age]);
    assert_eq!(columns("dynamographdeployments", "v1alpha1"), [&ready, backend, age]);
    assert_eq!(columns("dynamocomponentdeployments", "v1beta1"), [&available, backend, age]);
    assert_eq!(
        columns("dynamocomponentdeployments", "v1alpha1"),
        ["DynamoComponent string .spec.dynamoComponent", &available, backend, age]
    );
    assert_eq!(
        columns("dynamographdeploymentrequests", "v1alpha1"),
        [
            "Model string .spec.model",
            "Backend string .status.backend",
            "State string .status.state",
            "DGD-State string .status.deployment.state",
            age,
        ]
    );
    assert_eq!(
        columns("dynamographdeploymentscalingadapters", "v1alpha1"),
        [
            "DGD string .spec.dgdRef.name",
            "SERVICE string .spec.dgdRef.serviceName",
            "REPLICAS integer .status.replicas",
            "AGE date .metadata.creationTimestamp",
        ]
    );
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
    assert_eq!(
        columns("dynamocomponents", "v1alpha1"),
        [
            "DynamoComponent string .spec.dynamoComponent",
            &format!("Image-Exists string {}", condition("ImageExists", "status")),
            age,
        ]
    );
    assert_eq!(columns("dynamoworkermetadatas", "v1alpha1"), [age]);
}

/// The rules are text, and no compiler compares them with the constants that they name.
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
    let schema = json!(v1beta1(&crd("dynamographdeploymentrequests")).schema);
    let spec = &schema["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for name in spec["hardware"]["properties"]["gpuSku"]["enum"].as_array().unwrap() {
        let sku: GpuSku = serde_json::from_value(name.clone()).unwrap();
        assert_eq!(name, &sku.to_string());
    }
}

/// The typed definition has no field for other keywords; one that is lost there would cause no error.
#[test]
fn nothing_of_a_schema_is_lost_in_the_typed_definition() {
    use crate::{
        schema::{
            kubernetes::Definitions,
            structural::{schema_of, structural, structural_spec},
        },
        v1beta1::{DynamoGraphDeploymentSpec, DynamoGraphDeploymentStatus},
    };
    let definitions = Definitions::load().unwrap();
    let schema = json!(v1beta1(&crd("dynamographdeployments")).schema);
    let typed = &schema["openAPIV3Schema"]["properties"];
    let mut status = structural(schema_of::<DynamoGraphDeploymentStatus>(), &definitions).unwrap();
    version::add_first_status(&mut status).unwrap();
    let spec = structural_spec(schema_of::<DynamoGraphDeploymentSpec>(), &definitions).unwrap();
    let mut made = json!({ "properties": { "spec": spec, "status": status } });
    checks::add(&mut made, "DynamoGraphDeployment", ApiVersion::V1Beta1.api_version()).unwrap();
    for field in ["spec", "status"] {
        assert_eq!(with_floats(&typed[field]), with_floats(&made["properties"][field]), "{field}");
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
