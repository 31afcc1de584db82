//! What the Go operator reads on a graph, so that it can take the graph back without rolling a pod. Nothing is decided on it
//! here: it is written from the children, and written again if somebody takes it away.
//!
//! The Go operator knows two notes. The first holds the suffix of the live generation, opaque; the second a digest of the
//! spec, which only it can compute. With the first note alone it computes the digest, and lets run what runs. A digest that
//! it left beside another generation would make it roll all workers, so it goes with the generation that it was made for.

use std::collections::BTreeMap;

use api_types::annotations::{CURRENT_WORKER_HASH, CURRENT_WORKER_HASH_V2};
use api_types::v1beta1::DynamoGraphDeployment;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Rollout;

/// The changes of the graph's annotations, as a JSON patch; empty if they tell what is live, or while generations change.
pub fn bookkeeping(graph: &DynamoGraphDeployment, rollout: &Rollout) -> Vec<Value> {
    let Some(suffix) = rollout.target.as_ref().filter(|_| !rollout.in_progress()) else { return Vec::new() };
    let told = graph.annotations().get(CURRENT_WORKER_HASH);
    let told = told.or_else(|| graph.annotations().get(CURRENT_WORKER_HASH_V2));
    if told.is_some_and(|told| *told == suffix.to_string()) {
        return Vec::new();
    }
    let mut all: BTreeMap<_, _> = graph.annotations().clone();
    all.remove(CURRENT_WORKER_HASH_V2);
    all.insert(CURRENT_WORKER_HASH.to_owned(), suffix.to_string());
    vec![
        // Notes that others have written meanwhile must stay.
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": graph.resource_version() }),
        json!({ "op": "add", "path": "/metadata/annotations", "value": all }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::fixtures::graph_with;
    use api_types::names::GenerationSuffix;

    fn written(annotations: Value, target: Option<&str>, old: &[&str]) -> Option<Value> {
        let graph = graph_with(|g| g["metadata"]["annotations"] = annotations);
        let rollout = Rollout {
            target: target.map(GenerationSuffix::from_label),
            old: old.iter().map(|name| (*name).to_owned()).collect(),
            ..Rollout::default()
        };
        bookkeeping(&graph, &rollout).last().map(|operation| operation["value"].clone())
    }

    #[test]
    fn the_go_operator_finds_the_live_generation_and_no_digest_of_another() {
        let (first, second) = (CURRENT_WORKER_HASH, CURRENT_WORKER_HASH_V2);
        let table = [
            ("new", json!({ "team": "a" }), Some("0a1b2c3d"), &[][..], Some(json!({ "team": "a", first: "0a1b2c3d" }))),
            ("ours", json!({ first: "0a1b2c3d" }), Some("0a1b2c3d"), &[], None),
            ("taken over", json!({ second: "0a1b2c3d" }), Some("0a1b2c3d"), &[], None),
            ("taken over twice", json!({ first: "0a1b2c3d", second: "ffffffff" }), Some("0a1b2c3d"), &[], None),
            ("changing", json!({ second: "ffffffff" }), Some("0a1b2c3d"), &["old"], None),
            (
                "changed",
                json!({ first: "eeeeeeee", second: "ffffffff" }),
                Some("0a1b2c3d"),
                &[],
                Some(json!({ first: "0a1b2c3d" })),
            ),
            ("without workers", json!({}), None, &[], None),
        ];
        for (what, annotations, target, old, expected) in table {
            assert_eq!(written(annotations, target, old), expected, "{what}");
        }
    }
}
