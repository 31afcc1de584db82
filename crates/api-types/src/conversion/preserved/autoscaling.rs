//! What only v1alpha1 has about the autoscaling of a component.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerBehavior, MetricSpec};
use serde::Deserialize;

use super::{Texts, field, read};
use crate::{
    conversion::{
        COMPONENT_DEPLOYMENT, GRAPH,
        value::{Object, object},
    },
    v1beta1::{DynamoGraphDeployment, ScalingAdapterMarker},
};

/// Rules of a HorizontalPodAutoscaler. The API server validates them, and fills in what is unset.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreservedAutoscaling {
    enabled: bool,
    /// Least replicas.
    pub min_replicas: Option<i32>,
    /// Most replicas; 0 if unset, which the API server rejects.
    pub max_replicas: i32,
    /// How fast to scale.
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
    /// What to scale by.
    pub metrics: Option<Vec<MetricSpec>>,
}

impl PreservedAutoscaling {
    /// What the annotations of a v1beta1 `DynamoComponentDeployment` keep; `None` if it is not enabled.
    pub fn of_component_deployment(annotations: &Texts) -> Option<Self> {
        read(annotations, COMPONENT_DEPLOYMENT).as_ref().and_then(Self::of)
    }

    /// What the annotations of a v1beta1 `DynamoGraphDeployment` keep, by component; those that do not enable it are
    /// left out.
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
    use serde_json::{Value, json};

    use super::*;
    use crate::conversion::{ApiVersion, convert};

    fn kept(kind: &str, spec: &Value) -> Value {
        let object =
            json!({"apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let beta = convert(object.clone(), ApiVersion::V1Beta1).unwrap();
        assert_eq!(convert(beta.clone(), ApiVersion::V1Alpha1).unwrap(), object, "comes back");
        beta
    }

    fn annotations(beta: &Value) -> Texts {
        serde_json::from_value(beta["metadata"]["annotations"].clone()).unwrap_or_default()
    }

    fn rules() -> Value {
        let metric =
            |target: Value| json!({ "type": "Pods", "pods": { "metric": { "name": "queue" }, "target": target } });
        json!({ "enabled": true, "minReplicas": 2, "maxReplicas": 5,
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 60,
                "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }] } },
            "metrics": [metric(json!({ "type": "AverageValue", "averageValue": "30" })),
                metric(json!({ "type": "AverageValue", "averageValue": 30 })),
                metric(json!({ "type": "AverageValue", "averageValue": 0.5 }))] })
    }

    #[test]
    fn rules_are_read_from_graphs_and_components_and_only_if_they_are_enabled() {
        let service = |autoscaling: Value| json!({ "componentType": "worker", "autoscaling": autoscaling });
        let mut off = rules();
        off["enabled"] = json!(false);
        let mut silent = rules();
        silent.as_object_mut().unwrap().remove("enabled");
        let services = json!({ "On": service(rules()), "Off": service(off), "Silent": service(silent),
            "Plain": { "componentType": "worker" } });
        let graph = kept(GRAPH, &json!({ "services": services }));
        let all = PreservedAutoscaling::of_graph(&annotations(&graph));
        assert_eq!(all.keys().collect::<Vec<_>>(), ["On"]);
        let on = &all["On"];
        assert_eq!((on.min_replicas, on.max_replicas, on.behavior.is_some()), (Some(2), 5, true));
        let values: Vec<_> = on.metrics.iter().flatten().map(|metric| serde_json::to_value(metric).unwrap()).collect();
        let value = |at: usize| values[at]["pods"]["target"]["averageValue"].clone();
        assert_eq!([value(0), value(1), value(2)], [json!("30"), json!("30"), json!("0.5")]);

        let component = annotations(&kept(COMPONENT_DEPLOYMENT, &service(rules())));
        assert_eq!(PreservedAutoscaling::of_component_deployment(&component).as_ref(), Some(on));
        assert_eq!(PreservedAutoscaling::of_component_deployment(&Texts::new()), None);

        let mut graph: DynamoGraphDeployment = serde_json::from_value(graph).unwrap();
        add_implied_adapters(&mut graph);
        let adapted = graph.spec.components.iter().filter(|component| component.scaling_adapter.is_some());
        assert_eq!(adapted.map(|component| component.name.as_str()).collect::<Vec<_>>(), ["On"]);
    }
}
