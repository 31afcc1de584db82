//! Lists fields that the API accepts and that have no effect on a graph; its status names them.

use api_types::{
    annotations,
    v1beta1::{ComponentSpec, DynamoGraphDeployment},
};
use kube::ResourceExt;
use rendering::WorkloadProvider;

use crate::graph::{model::Served, observe::checkpoints::has_checkpoint};

/// Suffix of the path of a checkpoint.
const SWITCHED_OFF: &str =
    " (checkpoints are switched off; an administrator sets checkpoint.enabled in the operator's configuration)";

/// Suffix of the path of a topology that must not be read.
const HIDDEN: &str = " (the operator has no right to get clustertopologybindings.grove.io, so that pods know of the named domain only, and \
                      it may have no label; an administrator grants it, in a namespace-restricted install by \
                      dynamo-operator.namespaceRestriction.clusterReads=true)";

/// Paths of the fields without effect under this provider, in the order of the object, each with its reason where that
/// is not the provider; empty for most graphs.
pub fn unserved_fields(graph: &DynamoGraphDeployment, provider: WorkloadProvider, served: Served) -> Vec<String> {
    let (spec, as_components) = (&graph.spec, provider == WorkloadProvider::Component);
    let pinned = graph.annotations().get(annotations::WORKLOAD_PROVIDER);
    let elsewhere = pinned.is_some_and(|pinned| pinned != provider.as_str());
    let of_graph = [
        (as_components && spec.provider_override.is_some(), "spec.providerOverride"),
        (as_components && spec.priority_class_name.is_some(), "spec.priorityClassName"),
        (as_components && spec.topology_constraint.is_some(), "spec.topologyConstraint"),
    ];
    let annotation = elsewhere.then(|| format!("metadata.annotations[{}]", annotations::WORKLOAD_PROVIDER));
    let hidden =
        served.topology_hidden.then(|| format!("spec.experimental.kvTransferPolicy.clusterTopologyName{HIDDEN}"));
    let set = of_graph.into_iter().filter(|(is_set, _)| *is_set).map(|(_, field)| field.to_owned());
    let mut fields: Vec<String> = annotation.into_iter().chain(set).chain(hidden).collect();
    for component in &spec.components {
        let at = format!("spec.components[{}]", component.name);
        if !served.checkpoints && has_checkpoint(component) {
            fields.push(format!("{at}.experimental.checkpoint{SWITCHED_OFF}"));
        }
        fields.extend(of_component(component, as_components).into_iter().map(|field| format!("{at}.{field}")));
    }
    fields
}

fn of_component(component: &ComponentSpec, as_components: bool) -> Vec<&'static str> {
    let [leader, worker] = [true, false].map(|leads| {
        let nodes = component.multinode.as_ref();
        let role = nodes.and_then(|nodes| if leads { nodes.leader.as_ref() } else { nodes.worker.as_ref() });
        role.is_some_and(|role| role.provider_override.is_some())
    });
    let grove = component.experimental.as_ref().and_then(|experimental| experimental.grove.as_ref());
    let forced = grove.is_some_and(|grove| grove.force_scaling_group == Some(true));
    let fields = [
        (as_components && component.provider_override.is_some(), "providerOverride"),
        (as_components && component.min_available.is_some(), "minAvailable"),
        (as_components && leader, "multinode.leader.providerOverride"),
        (as_components && worker, "multinode.worker.providerOverride"),
        (as_components && component.topology_constraint.is_some(), "topologyConstraint"),
        (as_components && forced, "experimental.grove.forceScalingGroup"),
    ];
    fields.into_iter().filter(|(is_set, _)| *is_set).map(|(_, field)| field).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::fixtures::{graph, graph_with};

    #[test]
    fn an_ordinary_graph_is_served_whole() {
        assert_eq!(unserved_fields(&graph(), WorkloadProvider::Component, Served::default()), Vec::<String>::new());
    }

    #[test]
    fn every_field_without_effect_is_named() {
        let graph = graph_with(|g| {
            g["spec"]["priorityClassName"] = json!("high");
            g["spec"]["components"][0]["minAvailable"] = json!(1);
            let worker = &mut g["spec"]["components"][1];
            worker["topologyConstraint"] = json!({ "packDomain": "rack" });
            worker["experimental"] = json!({ "grove": { "forceScalingGroup": true } });
            let fragment = json!({ "apiVersion": "grove.io/v1alpha1", "target": "PodClique", "value": {} });
            worker["multinode"] = json!({ "nodeCount": 2, "leader": { "providerOverride": fragment } });
        });
        let expected = [
            "spec.priorityClassName",
            "spec.components[Frontend].minAvailable",
            "spec.components[Decode].multinode.leader.providerOverride",
            "spec.components[Decode].topologyConstraint",
            "spec.components[Decode].experimental.grove.forceScalingGroup",
        ];
        assert_eq!(unserved_fields(&graph, WorkloadProvider::Component, Served::default()), expected);
    }

    #[test]
    fn a_checkpoint_is_named_where_checkpoints_are_switched_off() {
        let graph = graph_with(|g| {
            g["spec"]["components"][1]["experimental"] = json!({ "checkpoint": { "enabled": true } });
        });
        let reported = unserved_fields(&graph, WorkloadProvider::Component, Served::default());
        assert!(
            reported.len() == 1 && reported[0].starts_with("spec.components[Decode].experimental.checkpoint ("),
            "{reported:?}"
        );
        let served = Served { checkpoints: true, ..Served::default() };
        assert_eq!(unserved_fields(&graph, WorkloadProvider::Component, served), Vec::<String>::new());
    }

    #[test]
    fn a_topology_that_may_not_be_read_is_named_with_the_right_and_who_grants_it() {
        let served = Served { topology_hidden: true, ..Served::default() };
        let reported = unserved_fields(&graph(), WorkloadProvider::Grove, served);
        assert_eq!(reported.len(), 1, "{reported:?}");
        for part in ["kvTransferPolicy.clusterTopologyName", "clustertopologybindings.grove.io", "clusterReads=true"] {
            assert!(reported[0].contains(part), "{reported:?}");
        }
    }

    #[test]
    fn grove_serves_more_and_an_annotation_that_live_objects_contradict_is_named() {
        let graph = graph_with(|g| {
            g["metadata"]["annotations"] = json!({ annotations::WORKLOAD_PROVIDER: "component" });
            g["spec"]["priorityClassName"] = json!("high");
            g["spec"]["components"][0]["minAvailable"] = json!(1);
        });
        let expected = ["metadata.annotations[nvidia.com/workload-provider]"];
        assert_eq!(unserved_fields(&graph, WorkloadProvider::Grove, Served::default()), expected);
    }
}
