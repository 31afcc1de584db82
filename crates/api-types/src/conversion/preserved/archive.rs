//! What v1alpha1 of 2025 says about components whose image is built from an archive, and about their own volumes.

use super::{PreservedClaim, Texts, field, read};
use crate::conversion::value::{Object, object, text};
use crate::conversion::{COMPONENT_DEPLOYMENT, GRAPH};
use serde::Deserialize;

use std::collections::BTreeMap;

/// What a graph says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreservedGraph {
    /// What the image of all components is built from: `name:version`.
    pub source: Option<String>,
    /// What it says about single components, by their names. Those it says nothing about are left out.
    pub services: BTreeMap<String, PreservedService>,
}

/// What is said about a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreservedService {
    /// What its image is built from: `name:version`. Only of a component on its own.
    pub source: Option<String>,
    /// What is started of the image: `module:Service`.
    pub tag: Option<String>,
    /// A volume of its own.
    pub volume: Option<PreservedVolume>,
}

/// A volume of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservedVolume {
    /// The claim; its name may be empty.
    #[serde(flatten)]
    pub claim: PreservedClaim,
    /// Where it is mounted.
    pub mount_point: String,
}

impl PreservedGraph {
    /// Annotation that keeps it on a `DynamoGraphDeployment`.
    pub const ANNOTATION: &str = "nvidia.com/dgd-spec";

    /// What the annotations of a v1beta1 `DynamoGraphDeployment` keep; `None` if that is nothing.
    pub fn of(annotations: &Texts) -> Option<Self> {
        let spec = read(annotations, GRAPH)?;
        let named = object(&spec, "services").into_iter().flatten();
        let said = named.filter_map(|(name, service)| {
            // Only a component on its own is built from something of its own.
            let said = PreservedService { source: None, ..PreservedService::of(service.as_object()?) };
            (said != PreservedService::default()).then(|| (name.clone(), said))
        });
        let source = text(&spec, "dynamoComponent").or(text(&spec, "dynamoGraph")).map(ToOwned::to_owned);
        let graph = Self { source, services: said.collect() };
        (graph != Self::default()).then_some(graph)
    }
}

impl PreservedService {
    /// What the annotations of a v1beta1 `DynamoComponentDeployment` keep; `None` if that is nothing.
    pub fn of_component_deployment(annotations: &Texts) -> Option<Self> {
        let said = Self::of(&read(annotations, COMPONENT_DEPLOYMENT)?);
        (said != Self::default()).then_some(said)
    }

    fn of(spec: &Object) -> Self {
        let given = |key| text(spec, key).map(ToOwned::to_owned);
        let volume = spec.get("pvc").filter(|volume| volume.as_object().is_some_and(|fields| !fields.is_empty()));
        Self {
            source: given("dynamoComponent"),
            tag: given("dynamoTag"),
            volume: volume.and_then(|_| field(spec, "pvc")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversion::{ApiVersion, convert};
    use serde_json::{Value, json};

    fn annotations(kind: &str, spec: &Value) -> Texts {
        let object =
            json!({"apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let beta = convert(object.clone(), ApiVersion::V1Beta1).unwrap();
        assert_eq!(convert(beta.clone(), ApiVersion::V1Alpha1).unwrap(), object, "comes back");
        serde_json::from_value(beta["metadata"]["annotations"].clone()).unwrap_or_default()
    }

    fn volume() -> PreservedVolume {
        let claim = PreservedClaim {
            name: "data".to_owned(),
            create: true,
            size: "1Gi".to_owned(),
            storage_class: "fast".to_owned(),
            volume_access_mode: "ReadWriteOnce".to_owned(),
        };
        PreservedVolume { claim, mount_point: "/data".to_owned() }
    }

    fn service() -> Value {
        json!({
            "dynamoTag": "graphs.agg:Frontend", "runMode": { "standalone": true }, "replicas": 2,
            "pvc": { "name": "data", "create": true, "size": "1Gi", "storageClass": "fast",
                "volumeAccessMode": "ReadWriteOnce", "mountPoint": "/data" },
            "externalServices": { "Worker": { "deploymentSelectorKey": "name", "deploymentSelectorValue": "w" } },
        })
    }

    #[test]
    fn what_a_graph_of_2025_says() {
        for field in ["dynamoComponent", "dynamoGraph"] {
            let kept = annotations(
                GRAPH,
                &json!({ field: "chat:v1", "services": { "Frontend": service(), "Worker": { "replicas": 1 } } }),
            );
            let said =
                PreservedService { source: None, tag: Some("graphs.agg:Frontend".to_owned()), volume: Some(volume()) };
            let services = BTreeMap::from([("Frontend".to_owned(), said)]);
            let expected = PreservedGraph { source: Some("chat:v1".to_owned()), services };
            assert_eq!(PreservedGraph::of(&kept), Some(expected));
        }
    }

    #[test]
    fn what_a_component_of_2025_says() {
        let mut alone = service();
        alone["dynamoComponent"] = json!("chat:v1");
        let said = PreservedService::of_component_deployment(&annotations(COMPONENT_DEPLOYMENT, &alone)).unwrap();
        assert_eq!((said.source.as_deref(), said.volume), (Some("chat:v1"), Some(volume())));
    }

    #[test]
    fn who_says_nothing_costs_nothing() {
        let graph = json!({ "pvcs": [{ "name": "a" }], "services": { "A": { "labels": { "a": "b" } } } });
        assert_eq!(PreservedGraph::of(&annotations(GRAPH, &graph)), None);
        assert_eq!(PreservedGraph::of(&Texts::new()), None);
        assert_eq!(
            PreservedService::of_component_deployment(&annotations(COMPONENT_DEPLOYMENT, &json!({ "labels": {} }))),
            None
        );
    }
}
