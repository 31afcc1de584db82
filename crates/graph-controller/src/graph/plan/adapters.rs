//! Scaling adapters, one for each component that enables one, and the HorizontalPodAutoscalers that scale them.

use api_types::{
    conversion::preserved::PreservedAutoscaling,
    labels, names,
    v1beta1::{
        ComponentSpec, DynamoGraphDeploymentScalingAdapter as Adapter, DynamoGraphDeploymentScalingAdapterSpec,
        ScalingTarget,
    },
};
use k8s_openapi::{
    api::autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt};

use super::{add_graph_label, metadata};
use crate::graph::model::{Adapters, GraphObserved, ValidGraph};

/// Plans the adapters of a graph.
pub fn adapters(graph: &ValidGraph<'_>, observed: &GraphObserved) -> Adapters {
    let scaled = graph.spec.components.iter().filter(|component| component.scaling_adapter.is_some());
    let all: Vec<_> = scaled.map(|component| adapter(graph, component)).collect();
    let desired = all.iter().map(ResourceExt::name_any).collect();
    let write = all.into_iter().filter_map(|desired| to_write(observed, desired)).collect();
    Adapters { write, desired }
}

/// Metadata of the adapter of a component, and of the autoscaler that scales it.
fn metadata_of(graph: &ValidGraph<'_>, component: &ComponentSpec) -> ObjectMeta {
    let labels = [(labels::GRAPH, graph.name.clone()), (labels::COMPONENT, names::label_value(&component.name))];
    metadata(&graph.namespace, names::scaling_adapter(&graph.name, &component.name), labels)
}

fn adapter(graph: &ValidGraph<'_>, component: &ComponentSpec) -> Adapter {
    Adapter {
        metadata: metadata_of(graph, component),
        spec: DynamoGraphDeploymentScalingAdapterSpec {
            replicas: component.desired_replicas(),
            dgd_ref: ScalingTarget { name: graph.name.clone(), component_name: component.name.clone() },
        },
        status: None,
    }
}

/// The desired adapter; none if the live one is right, whatever its replicas.
fn to_write(observed: &GraphObserved, mut desired: Adapter) -> Option<Adapter> {
    let Some(live) = observed.adapters.iter().find(|live| live.metadata.name == desired.metadata.name) else {
        return Some(desired);
    };
    let labelled = desired.labels().iter().all(|(key, value)| live.labels().get(key) == Some(value));
    if observed.is_owner(live) && labelled && live.spec.dgd_ref == desired.spec.dgd_ref {
        return None;
    }
    desired.spec.replicas = live.spec.replicas;
    Some(desired)
}

/// Plans the autoscalers of a graph. Each has the name of the adapter that it scales.
pub(super) fn autoscalers(graph: &ValidGraph<'_>) -> Vec<HorizontalPodAutoscaler> {
    let mut rules = PreservedAutoscaling::of_graph(graph.annotations);
    let components = graph.spec.components.iter();
    let enabled = components.filter_map(|component| Some((component, rules.remove(&component.name)?)));
    let rendered = enabled.map(|(component, rules)| {
        let target = CrossVersionObjectReference {
            api_version: Some(Adapter::api_version(&()).into_owned()),
            kind: Adapter::kind(&()).into_owned(),
            name: names::scaling_adapter(&graph.name, &component.name),
        };
        let mut autoscaler = rendering::render_autoscaler(metadata_of(graph, component), target, rules);
        add_graph_label(&mut autoscaler, graph);
        autoscaler
    });
    rendered.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::fixtures::{graph_with, observed, owner, valid};

    fn planned(live: Vec<Adapter>) -> (Vec<(String, i32)>, Vec<String>) {
        let graph = graph_with(|g| g["spec"]["components"][1]["scalingAdapter"] = json!({}));
        let mut observed = observed(&graph, vec![]);
        observed.adapters = live;
        let Adapters { write, desired } = adapters(&valid(&graph), &observed);
        (write.iter().map(|a| (a.name_any(), a.spec.replicas)).collect(), desired)
    }

    fn live(replicas: i32) -> Adapter {
        let graph = graph_with(|_| {});
        let mut live = adapter(&valid(&graph), &graph.spec.components[1]);
        live.spec.replicas = replicas;
        live.metadata.owner_references = Some(vec![owner()]);
        live
    }

    #[test]
    fn an_adapter_starts_with_the_authors_count() {
        assert_eq!(planned(vec![]), (vec![("chat-decode".into(), 4)], vec!["chat-decode".into()]));
    }

    #[test]
    fn what_others_set_is_never_written_again() {
        assert_eq!(planned(vec![live(9)]).0, []);
        let mut orphan = live(9);
        orphan.metadata.owner_references = None;
        assert_eq!(planned(vec![orphan]).0, [("chat-decode".into(), 9)], "it becomes ours with its count");
        let mut astray = live(9);
        astray.spec.dgd_ref.component_name = "Other".into();
        assert_eq!(planned(vec![astray]).0, [("chat-decode".into(), 9)]);
    }

    #[test]
    fn a_component_that_specifies_none_has_none() {
        let graph = graph_with(|_| {});
        let Adapters { write, desired } = adapters(&valid(&graph), &observed(&graph, vec![]));
        assert!(write.is_empty() && desired.is_empty());
    }
}

#[cfg(test)]
mod autoscalers_tests {
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
