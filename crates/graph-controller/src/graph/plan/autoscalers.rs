//! HorizontalPodAutoscalers of the components whose `autoscaling` in v1alpha1 is enabled. They scale the components'
//! scaling adapters: replicas of the Deployments follow from the graph.

use std::collections::BTreeMap;

use api_types::{
    conversion::preserved::autoscaling::PreservedAutoscaling, labels, names,
    v1beta1::DynamoGraphDeploymentScalingAdapter as Adapter,
};
use k8s_openapi::{
    api::autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;

use super::graph_label::add_graph_label;
use crate::graph::model::ValidGraph;

/// Plans the autoscalers of a graph. Each has the name of the adapter that it scales.
pub(super) fn autoscalers(graph: &ValidGraph<'_>) -> Vec<HorizontalPodAutoscaler> {
    let mut rules = PreservedAutoscaling::of_graph(graph.annotations);
    let components = graph.spec.components.iter();
    let enabled = components.filter_map(|component| Some((component, rules.remove(&component.name)?)));
    let rendered = enabled.map(|(component, rules)| {
        let name = names::scaling_adapter(&graph.name, &component.name);
        let labels = BTreeMap::from([
            (labels::GRAPH.to_owned(), graph.name.clone()),
            (labels::COMPONENT.to_owned(), names::label_value(&component.name)),
        ]);
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(graph.namespace.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let target = CrossVersionObjectReference {
            api_version: Some(Adapter::api_version(&()).into_owned()),
            kind: Adapter::kind(&()).into_owned(),
            name,
        };
        let mut autoscaler = rendering::render_autoscaler(metadata, target, rules);
        add_graph_label(&mut autoscaler, graph);
        autoscaler
    });
    rendered.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::fixtures::{graph_with, valid};

    #[test]
    fn an_autoscaler_scales_the_adapter_of_its_component() {
        let metrics = json!([{ "type": "Resource",
            "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 60 } } }]);
        let services = json!({
            "Decode": { "autoscaling": { "enabled": true, "minReplicas": 2, "maxReplicas": 4, "metrics": metrics } },
            "Frontend": { "autoscaling": { "enabled": false, "maxReplicas": 4 } },
            "Gone": { "autoscaling": { "enabled": true, "maxReplicas": 4 } },
        });
        let saved = json!({ "version": 1, "spec": { "services": services } }).to_string();
        let graph = graph_with(|graph| graph["metadata"]["annotations"] = json!({ "nvidia.com/dgd-spec": saved }));
        let planned = serde_json::to_value(autoscalers(&valid(&graph))).unwrap();
        let labels = json!({ "nvidia.com/dynamo-graph-deployment-name": "chat", "nvidia.com/dynamo-component": "Decode",
            "operator.dynamo/graph": "chat" });
        let expected = json!([{
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "chat-decode", "namespace": "team-a", "labels": labels },
            "spec": {
                "scaleTargetRef": { "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
                    "name": "chat-decode" },
                "minReplicas": 2, "maxReplicas": 4, "metrics": metrics,
            },
        }]);
        assert_eq!(planned, expected);
    }
}
