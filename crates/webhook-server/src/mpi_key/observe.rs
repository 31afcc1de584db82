//! Watches the graphs that need a key.

use std::collections::BTreeSet;

use api_types::{conditions::MPI_KEY_AVAILABLE, v1beta1::DynamoGraphDeployment};
use controller_kit::store::{Scope, Store, watch_api};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource};
use serde::Deserialize;
use serde_json::Value;

use crate::changes::{Changes, ticks};

/// The little of a graph that matters here, in the version that is stored: nothing has to be converted for it.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = DynamoGraphDeployment)]
#[serde(from = "Whole")]
pub(super) struct Graph {
    metadata: ObjectMeta,
    lacks_key: bool,
}

#[derive(Deserialize)]
struct Whole {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Value,
}

impl From<Whole> for Graph {
    fn from(Whole { metadata, status }: Whole) -> Self {
        let conditions = status["conditions"].as_array();
        let is_missing = |condition: &Value| condition["type"] == MPI_KEY_AVAILABLE && condition["status"] == "False";
        let lacks_key = conditions.is_some_and(|conditions| conditions.iter().any(is_missing));
        let ObjectMeta { name, namespace, uid, resource_version, .. } = metadata;
        Self { metadata: ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }, lacks_key }
    }
}

/// Begins to watch graphs wherever this process serves.
pub(super) fn watch_graphs(client: Client, scope: &Scope) -> (Store<Graph>, Changes) {
    let (graphs, changes) = watch_api(scope.api(client), None, None);
    (graphs, Changes::of([ticks(changes)]))
}

/// The namespaces in which a graph needs a key that is not there, as of the last event.
pub(super) fn namespaces_in_need(graphs: &Store<Graph>) -> BTreeSet<String> {
    let graphs = graphs.all();
    graphs.iter().filter(|graph| graph.lacks_key).filter_map(|graph| graph.metadata.namespace.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_graph_says_in_its_status_that_the_key_is_missing() {
        let condition = |type_: &str, status: &str| json!({ "conditions": [{ "type": type_, "status": status }] });
        for (status, lacks_key) in [
            (condition("MPIKeyAvailable", "False"), true),
            (condition("MPIKeyAvailable", "True"), false),
            (condition("Ready", "False"), false),
            (json!({ "conditions": "garbage" }), false),
            (json!({}), false),
            (json!(null), false),
        ] {
            let metadata = json!({ "name": "g", "namespace": "n", "annotations": { "long": "text" } });
            let graph: Graph = serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap();
            assert_eq!(graph.lacks_key, lacks_key, "{status}");
            assert_eq!((graph.metadata.name.as_deref(), graph.metadata.annotations), (Some("g"), None));
        }
    }
}
