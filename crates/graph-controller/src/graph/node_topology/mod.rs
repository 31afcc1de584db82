//! Copies topology labels of nodes to the worker pods of graphs with a KV-transfer policy.
//!
//! The labels of its node that a worker pod needs are computed in this file, without I/O. The pod reads them through a
//! downward API volume.

pub mod apply;
pub mod lookup;

use std::collections::BTreeMap;

use api_types::{annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// The node labels that a pod requests by its annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyRequest {
    /// A label of the node, copy under its own key.
    pub label_key: Option<String>,
    /// All levels of a cluster topology.
    pub topology: Option<String>,
}

/// A node label to copy, and the pod label that gets its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelCopy {
    /// Key on the node.
    pub from: String,
    /// Key on the pod.
    pub to: String,
}

/// Returns the topology that a pod requests and may still lack; `None` if there is none.
pub fn request(pod: &ObjectMeta) -> Option<TopologyRequest> {
    let labeled = |key: &str| pod.labels.as_ref().and_then(|all| all.get(key)).is_some_and(|value| !value.is_empty());
    let given = |key: &str| pod.annotations.as_ref()?.get(key).cloned().filter(|value| !value.is_empty());
    let request = TopologyRequest {
        label_key: given(annotations::TOPOLOGY_LABEL_KEY),
        topology: given(annotations::TOPOLOGY_NAME),
    };
    let has = |key: &String| pod.labels.as_ref().is_some_and(|all| all.contains_key(key));
    // The levels of a topology are not known here: one existing label does not mean that the others exist.
    let lacks = request.topology.is_some() || request.label_key.as_ref().is_some_and(|key| !has(key));
    (lacks && pod.deletion_timestamp.is_none() && labeled(labels::GRAPH) && labeled(labels::COMPONENT))
        .then_some(request)
}

/// The node labels of the levels of a ClusterTopologyBinding.
pub fn levels(binding: &Value) -> Vec<LabelCopy> {
    let levels = binding.pointer("/spec/levels").and_then(Value::as_array).into_iter().flatten();
    let level = |level: &Value| {
        Some(LabelCopy { from: level["key"].as_str()?.to_owned(), to: labels::topology(level["domain"].as_str()?) })
    };
    levels.filter_map(level).collect()
}

/// The labels to copy to a pod that has these labels.
pub fn copies(request: &TopologyRequest, levels: &[LabelCopy], has: &BTreeMap<String, String>) -> Vec<LabelCopy> {
    let own = request.label_key.iter().map(|key| LabelCopy { from: key.clone(), to: key.clone() });
    own.chain(levels.iter().cloned()).filter(|copy| !has.contains_key(&copy.to)).collect()
}

/// The labels to set on the pod, and those that its node lacks.
pub fn changes(copies: &[LabelCopy], node: &BTreeMap<String, String>) -> (BTreeMap<String, String>, Vec<LabelCopy>) {
    let found = copies.iter().filter_map(|copy| Some((copy.to.clone(), node.get(&copy.from)?.clone())));
    let missing = copies.iter().filter(|copy| !node.contains_key(&copy.from));
    (found.collect(), missing.cloned().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(labels: Value, annotations: Value) -> ObjectMeta {
        let mut all = json!({ "nvidia.com/dynamo-graph-deployment-name": "g", "nvidia.com/dynamo-component": "c" });
        all.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
        serde_json::from_value(json!({ "name": "p", "labels": all, "annotations": annotations })).unwrap()
    }

    #[test]
    fn only_pods_that_lack_what_they_request_are_looked_at() {
        let (key, name) = ("nvidia.com/topology-label-key", "nvidia.com/topology-cluster-topology-name");
        let table = [
            (json!({}), json!({}), false),
            (json!({}), json!({ key: "zone" }), true),
            (json!({ "zone": "a" }), json!({ key: "zone" }), false),
            (json!({ "zone": "" }), json!({ key: "zone" }), false),
            (json!({}), json!({ name: "t" }), true),
            (json!({ "nvidia.com/dynamo-topology.rack": "r" }), json!({ name: "t" }), true),
            (json!({ "zone": "a" }), json!({ key: "zone", name: "t" }), true),
            (json!({ "nvidia.com/dynamo-component": "" }), json!({ key: "zone" }), false),
        ];
        for (labels, annotations, expected) in table {
            let pod = pod(labels, annotations);
            assert_eq!(request(&pod).is_some(), expected, "{pod:?}");
        }
    }

    #[test]
    fn labels_are_copied_as_far_as_the_node_has_them() {
        let binding = json!({ "spec": { "levels": [{ "domain": "zone", "key": "topology.kubernetes.io/zone" },
            { "domain": "rack", "key": "rack" }, { "domain": "host", "key": "host" }] } });
        let request = TopologyRequest { label_key: None, topology: Some("t".to_owned()) };
        let has = BTreeMap::from([("nvidia.com/dynamo-topology.host".to_owned(), "h".to_owned())]);
        let copies = copies(&request, &levels(&binding), &has);
        let node = BTreeMap::from([("topology.kubernetes.io/zone".to_owned(), "a".to_owned())]);
        let (changes, missing) = changes(&copies, &node);
        let expected = BTreeMap::from([("nvidia.com/dynamo-topology.zone".to_owned(), "a".to_owned())]);
        assert_eq!(changes, expected);
        assert_eq!(missing.iter().map(|copy| copy.from.as_str()).collect::<Vec<_>>(), ["rack"]);
    }

    #[test]
    fn a_label_that_is_named_keeps_its_name() {
        let request = TopologyRequest { label_key: Some("zone".to_owned()), topology: None };
        let expected = [LabelCopy { from: "zone".to_owned(), to: "zone".to_owned() }];
        assert_eq!(copies(&request, &[], &BTreeMap::new()), expected);
    }
}
