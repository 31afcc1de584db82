//! Data about a component that v1alpha1 can express, v1beta1 cannot, and on which the component's objects still depend.
//!
//! An object of v1beta1 that came from v1alpha1 keeps it in its annotations, in the format of the payloads of
//! conversion. Only data that cannot contradict the live object is read: no field of v1beta1 has the same meaning.
//!
//! [`legacy`] has the data of the legacy API; the rules by which components are scaled are here.

#[cfg(test)]
mod autoscaling_tests;
pub mod legacy;

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerBehavior, MetricSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    COMPONENT_DEPLOYMENT, GRAPH, kind, payload,
    value::{Object, object},
};
use crate::v1beta1::{ComponentType, DynamoGraphDeployment, ScalingAdapterMarker};

type Texts = BTreeMap<String, String>;

/// Data about a component that only v1alpha1 can express.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservedComponent {
    /// Labels of the component's objects and pods.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub labels: Texts,
    /// Annotations of the component's objects and pods.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub annotations: Texts,
    /// Dynamo namespace in place of the one that follows from the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamo_namespace: Option<String>,
    /// Kind of worker that is no type of v1beta1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_component_type: Option<String>,
    /// Access to the component from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<PreservedIngress>,
}

/// Access to a component of v1alpha1 from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservedIngress {
    /// Whether it is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// Host name, without prefix and suffix.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Through an Istio VirtualService.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub use_virtual_service: bool,
    /// Gateway of the VirtualService.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_service_gateway: Option<String>,
    /// Prefix of the host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<String>,
    /// Annotations; the upstream operator ignores them.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub annotations: Texts,
    /// Labels; the upstream operator ignores them.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub labels: Texts,
    /// TLS of the Ingress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<PreservedTls>,
    /// Domain behind the host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_suffix: Option<String>,
    /// Class of the Ingress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_controller_class_name: Option<String>,
}

/// TLS of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservedTls {
    /// Secret with certificate and key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub secret_name: String,
}

/// A PersistentVolumeClaim that an object of v1alpha1 names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservedClaim {
    /// Its name.
    pub name: String,
    /// Whether it is to be made if it is missing.
    pub create: bool,
    /// Storage class; the cluster's default if empty.
    pub storage_class: String,
    /// Size, a quantity.
    #[serde(deserialize_with = "quantity")]
    pub size: String,
    /// Access mode.
    pub volume_access_mode: String,
}

/// A quantity may be written as a number.
fn quantity<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

impl PreservedComponent {
    /// Annotation that keeps it on a `DynamoComponentDeployment`.
    pub const ANNOTATION: &str = "nvidia.com/dcd-spec";

    /// Reads the data that the annotations of a v1beta1 `DynamoComponentDeployment` keep.
    pub fn of_component_deployment(annotations: &Texts) -> Self {
        read(annotations, COMPONENT_DEPLOYMENT).map(|spec| Self::of(&spec)).unwrap_or_default()
    }

    /// Reads the data that the annotations of a v1beta1 `DynamoGraphDeployment` keep about one of its components.
    pub fn of_graph(annotations: &Texts, component: &str) -> Self {
        let spec = read(annotations, GRAPH);
        let service = spec.as_ref().and_then(|spec| object(object(spec, "services")?, component));
        service.map(Self::of).unwrap_or_default()
    }

    /// The annotation that keeps it on a v1beta1 `DynamoComponentDeployment`; `None` if there is nothing to keep.
    pub fn to_annotation(&self) -> Option<(String, String)> {
        let annotation = || (Self::ANNOTATION.to_owned(), json!({ "version": 1, "spec": self }).to_string());
        (*self != Self::default()).then(annotation)
    }

    /// Field by field, so that one that cannot be read takes nothing else with it.
    fn of(spec: &Object) -> Self {
        Self {
            labels: field(spec, "labels"),
            annotations: field(spec, "annotations"),
            dynamo_namespace: field(spec, "dynamoNamespace"),
            sub_component_type: field::<Option<String>>(spec, "subComponentType").filter(|text| !text.is_empty()),
            ingress: field(spec, "ingress"),
        }
    }
}

/// Most claims that a v1alpha1 `DynamoGraphDeployment` may have, by its schema. No schema checks the annotations of
/// v1beta1.
pub const MOST_CLAIMS: usize = 100;

/// The claims that the annotations of a v1beta1 `DynamoGraphDeployment` keep, [`MOST_CLAIMS`] at most; those without a
/// name are left out.
pub fn claims_of_graph(annotations: &Texts) -> Vec<PreservedClaim> {
    let claims = all_claims_of_graph(annotations).into_iter().take(MOST_CLAIMS);
    claims.filter(|claim| !claim.name.is_empty()).collect()
}

/// Returns the number of claims that the annotations of a v1beta1 `DynamoGraphDeployment` keep, if it is more than
/// [`MOST_CLAIMS`].
pub fn too_many_claims(annotations: &Texts) -> Option<usize> {
    Some(all_claims_of_graph(annotations).len()).filter(|count| *count > MOST_CLAIMS)
}

fn all_claims_of_graph(annotations: &Texts) -> Vec<PreservedClaim> {
    read(annotations, GRAPH).map(|spec| field(&spec, "pvcs")).unwrap_or_default()
}

/// The types that the annotations of a v1beta1 `DynamoGraphDeployment` keep because v1beta1 lacks them, by
/// component.
pub fn unknown_types_of_graph(annotations: &Texts) -> Texts {
    let services = read(annotations, GRAPH).and_then(|mut spec| spec.remove("services"));
    let services = services.as_ref().and_then(Value::as_object).into_iter().flatten();
    let given =
        services.filter_map(|(name, service)| Some((name.clone(), field(service.as_object()?, "componentType"))));
    given.filter(|(_, type_): &(String, String)| !type_.is_empty() && ComponentType::named(type_).is_none()).collect()
}

fn field<T: for<'de> Deserialize<'de> + Default>(spec: &Object, key: &str) -> T {
    spec.get(key).and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or_default()
}

/// The saved spec of v1alpha1.
fn read(annotations: &Texts, kind_name: &str) -> Option<Object> {
    match payload::read_spec(annotations.get(kind(kind_name)?.spec)?)?.sparse.remove("spec")? {
        Value::Object(spec) => Some(spec),
        _ => None,
    }
}

/// Rules of a HorizontalPodAutoscaler. The API server validates them, and fills in what is unset.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservedAutoscaling {
    enabled: bool,
    /// Least replicas.
    pub min_replicas: Option<i32>,
    /// Most replicas; 0 if unset, which the API server rejects.
    pub max_replicas: i32,
    /// Speed of scaling.
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
    /// Metrics for scaling.
    pub metrics: Option<Vec<MetricSpec>>,
}

impl PreservedAutoscaling {
    /// Reads the autoscaling that the annotations of a v1beta1 `DynamoComponentDeployment` keep; `None` if it is not
    /// enabled.
    pub fn of_component_deployment(annotations: &Texts) -> Option<Self> {
        read(annotations, COMPONENT_DEPLOYMENT).as_ref().and_then(Self::of)
    }

    /// Reads the autoscaling that the annotations of a v1beta1 `DynamoGraphDeployment` keep, by component; components
    /// that do not enable it are left out.
    pub fn of_graph(annotations: &Texts) -> BTreeMap<String, Self> {
        let spec = read(annotations, GRAPH);
        let services = spec.as_ref().and_then(|spec| object(spec, "services")).into_iter().flatten();
        services.filter_map(|(name, service)| Some((name.clone(), Self::of(service.as_object()?)?))).collect()
    }

    fn of(spec: &Object) -> Option<Self> {
        Some(field::<Self>(spec, "autoscaling")).filter(|rules| rules.enabled)
    }
}

/// Gives the components that are autoscaled a scaling adapter, which is what the autoscaler scales.
pub fn add_implied_adapters(graph: &mut DynamoGraphDeployment) {
    let Some(annotations) = &graph.metadata.annotations else { return };
    let autoscaled = PreservedAutoscaling::of_graph(annotations);
    for component in graph.spec.components.iter_mut().filter(|component| autoscaled.contains_key(&component.name)) {
        component.scaling_adapter.get_or_insert(ScalingAdapterMarker {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversion::{ApiVersion, convert};

    fn annotations(object: &Value) -> Texts {
        serde_json::from_value(object["metadata"]["annotations"].clone()).unwrap_or_default()
    }

    fn alpha(kind: &str, spec: Value) -> Value {
        let object =
            json!({"apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        convert(object, ApiVersion::V1Beta1).unwrap()
    }

    fn service() -> Value {
        json!({
            "componentType": "worker", "subComponentType": "vision", "dynamoNamespace": "old", "labels": {"a": "1"},
            "annotations": {"b": "2"}, "replicas": 2, "ingress": {"enabled": true, "host": "h", "tls": {"secretName": "s"}},
        })
    }

    fn expected() -> PreservedComponent {
        PreservedComponent {
            labels: Texts::from([("a".to_owned(), "1".to_owned())]),
            annotations: Texts::from([("b".to_owned(), "2".to_owned())]),
            dynamo_namespace: Some("old".to_owned()),
            sub_component_type: Some("vision".to_owned()),
            ingress: Some(PreservedIngress {
                enabled: true,
                host: "h".to_owned(),
                tls: Some(PreservedTls { secret_name: "s".to_owned() }),
                ..PreservedIngress::default()
            }),
        }
    }

    #[test]
    fn what_conversion_saves_is_read_from_components_and_graphs() {
        let component = alpha(COMPONENT_DEPLOYMENT, service());
        assert_eq!(PreservedComponent::of_component_deployment(&annotations(&component)), expected());
        let pvc =
            json!({"name": "models", "create": true, "size": "1Gi", "storageClass": "fast", "volumeAccessMode": "RWO"});
        let number = json!({"name": "scratch", "size": 1024});
        let graph = alpha(GRAPH, json!({"services": {"W": service(), "F": {}}, "pvcs": [pvc, {"name": ""}, number]}));
        let annotations = annotations(&graph);
        assert_eq!(PreservedComponent::of_graph(&annotations, "W"), expected());
        assert_eq!(PreservedComponent::of_graph(&annotations, "F"), PreservedComponent::default());
        let [claim, scratch] = claims_of_graph(&annotations).try_into().unwrap();
        assert_eq!(scratch.size, "1024");
        assert_eq!((claim.name.as_str(), claim.create, claim.storage_class.as_str()), ("models", true, "fast"));
    }

    /// Found defect: the annotation of a v1beta1 object, which no schema checks, was followed however many claims it
    /// named.
    #[test]
    fn claims_beyond_the_schemas_maximum_are_left_out_and_counted() {
        let saved = |count: usize| {
            let claims: Vec<_> = (0..count).map(|n| json!({ "name": format!("p{n:05}") })).collect();
            let text = json!({ "spec": { "pvcs": claims } }).to_string();
            Texts::from([("nvidia.com/dgd-spec".to_owned(), text)])
        };
        for (count, kept, too_many) in
            [(0, 0, None), (100, 100, None), (101, 100, Some(101)), (9_000, 100, Some(9_000))]
        {
            let annotations = saved(count);
            assert_eq!(claims_of_graph(&annotations).len(), kept, "{count}");
            assert_eq!(too_many_claims(&annotations), too_many, "{count}");
        }
    }

    #[test]
    fn types_without_meaning_are_warned_about() {
        let services = json!({"A": {"componentType": "main"}, "B": {"componentType": "worker"}, "C": {}});
        let graph = alpha(GRAPH, json!({"services": services}));
        let expected = Texts::from([("A".to_owned(), "main".to_owned())]);
        assert_eq!(unknown_types_of_graph(&annotations(&graph)), expected);
        assert_eq!(unknown_types_of_graph(&Texts::new()), Texts::new());
    }

    #[test]
    fn a_component_made_by_an_operator_carries_what_its_graph_keeps() {
        let (key, value) = expected().to_annotation().unwrap();
        assert_eq!(
            PreservedComponent::of_component_deployment(&Texts::from([(key.clone(), value.clone())])),
            expected()
        );
        assert_eq!(PreservedComponent::default().to_annotation(), None);
        let made = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": COMPONENT_DEPLOYMENT,
            "metadata": {"name": "x", "annotations": {key: value}}, "spec": {"name": "W", "type": "worker"},
        });
        let alpha = convert(made, ApiVersion::V1Alpha1).unwrap();
        assert_eq!(alpha["spec"]["ingress"]["host"], "h");
        assert_eq!(alpha["spec"]["dynamoNamespace"], "old");
    }

    #[test]
    fn what_cannot_be_read_takes_nothing_else_with_it() {
        let kept = |text: &str| {
            let key = kind(COMPONENT_DEPLOYMENT).unwrap().spec.to_owned();
            PreservedComponent::of_component_deployment(&Texts::from([(key, text.to_owned())]))
        };
        assert_eq!(kept("junk"), PreservedComponent::default());
        let partly = kept(r#"{"version":1,"spec":{"labels":{"a":"1"},"annotations":7,"ingress":"x"}}"#);
        assert_eq!(partly, PreservedComponent { labels: expected().labels, ..PreservedComponent::default() });
    }
}
