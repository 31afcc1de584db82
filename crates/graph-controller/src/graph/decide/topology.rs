//! Where pods are: workers that exchange key-value caches get labels of their node, which the files that tell them where they
//! are show at once.

use std::collections::BTreeMap;

use api_types::{annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// What a pod wants to know of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// A label of the node, as it is.
    pub label_key: Option<String>,
    /// All levels of a cluster topology.
    pub topology: Option<String>,
}

/// A level of a cluster topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its domain, such as `rack`.
    pub domain: String,
    /// The label of nodes that says where they are in it.
    pub key: String,
}

/// A label of a node, and that of the pod which gets its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The node's.
    pub from: String,
    /// The pod's.
    pub to: String,
}

/// What a pod may still want to know; `None` if nothing.
pub fn wanted(pod: &ObjectMeta) -> Option<Wanted> {
    let labelled = |key: &str| pod.labels.as_ref().and_then(|all| all.get(key)).is_some_and(|value| !value.is_empty());
    let given = |key: &str| pod.annotations.as_ref()?.get(key).cloned().filter(|value| !value.is_empty());
    let wanted =
        Wanted { label_key: given(annotations::TOPOLOGY_LABEL_KEY), topology: given(annotations::TOPOLOGY_NAME) };
    let has = |key: &String| pod.labels.as_ref().is_some_and(|all| all.contains_key(key));
    // Which levels a topology has is not known here: one that is there does not mean that the others are.
    let lacks = wanted.topology.is_some() || wanted.label_key.as_ref().is_some_and(|key| !has(key));
    (lacks && pod.deletion_timestamp.is_none() && labelled(labels::GRAPH) && labelled(labels::COMPONENT))
        .then_some(wanted)
}

/// The levels of a cluster topology, as its binding says.
pub fn levels(binding: &Value) -> Vec<Level> {
    let levels = binding.pointer("/spec/levels").and_then(Value::as_array).into_iter().flatten();
    let level = |level: &Value| {
        Some(Level { domain: level["domain"].as_str()?.to_owned(), key: level["key"].as_str()?.to_owned() })
    };
    levels.filter_map(level).collect()
}

/// What is copied to a pod with these labels.
pub fn copies(wanted: &Wanted, levels: &[Level], has: &BTreeMap<String, String>) -> Vec<Copied> {
    let own = wanted.label_key.iter().map(|key| Copied { from: key.clone(), to: key.clone() });
    let levels = levels.iter().map(|level| Copied { from: level.key.clone(), to: labels::topology(&level.domain) });
    own.chain(levels).filter(|copied| !has.contains_key(&copied.to)).collect()
}

/// The labels that the pod gets from its node, and the copies whose label the node lacks.
pub fn changes<'a>(
    copies: &'a [Copied],
    node: &BTreeMap<String, String>,
) -> (BTreeMap<String, String>, Vec<&'a Copied>) {
    let (found, missing): (Vec<_>, Vec<_>) = copies.iter().partition(|copied| node.contains_key(&copied.from));
    let found = found.into_iter().filter_map(|copied| Some((copied.to.clone(), node.get(&copied.from)?.clone())));
    (found.collect(), missing)
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
    fn only_pods_that_lack_what_they_ask_for_are_looked_at() {
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
            assert_eq!(wanted(&pod).is_some(), expected, "{pod:?}");
        }
    }

    #[test]
    fn labels_are_copied_as_far_as_the_node_has_them() {
        let binding = json!({ "spec": { "levels": [{ "domain": "zone", "key": "topology.kubernetes.io/zone" },
            { "domain": "rack", "key": "rack" }, { "domain": "host", "key": "host" }] } });
        let wanted = Wanted { label_key: None, topology: Some("t".to_owned()) };
        let has = BTreeMap::from([("nvidia.com/dynamo-topology.host".to_owned(), "h".to_owned())]);
        let copies = copies(&wanted, &levels(&binding), &has);
        let node = BTreeMap::from([("topology.kubernetes.io/zone".to_owned(), "a".to_owned())]);
        let (changes, missing) = changes(&copies, &node);
        let expected = BTreeMap::from([("nvidia.com/dynamo-topology.zone".to_owned(), "a".to_owned())]);
        assert_eq!(changes, expected);
        assert_eq!(missing.iter().map(|copied| copied.from.as_str()).collect::<Vec<_>>(), ["rack"]);
    }

    #[test]
    fn a_label_that_is_named_keeps_its_name() {
        let wanted = Wanted { label_key: Some("zone".to_owned()), topology: None };
        let expected = [Copied { from: "zone".to_owned(), to: "zone".to_owned() }];
        assert_eq!(copies(&wanted, &[], &BTreeMap::new()), expected);
    }
}
