//! What is noted on the graph itself: the program that runs it, and what the Go operator reads, so that it can take the graph
//! back without rolling a pod. All of it is written from what is live, and written again if somebody takes it away.
//!
//! Admission notes the program on every new graph. A graph that is older than the note, or came while admission was away, gets it
//! here: without it, admission would judge the graph by what the cluster serves today.
//!
//! The Go operator knows two notes. The first holds the suffix of the live generation, opaque; the second a digest of the
//! spec, which only it can compute. With the first note alone it computes the digest, and lets run what runs. A digest that
//! it left beside another generation would make it roll all workers, so it goes with the generation that it was made for.

use std::collections::BTreeMap;

use api_types::annotations::{CURRENT_WORKER_HASH, CURRENT_WORKER_HASH_V2, WORKLOAD_PROVIDER};
use api_types::v1beta1::DynamoGraphDeployment;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Rollout;
use crate::graph::program::Program;

/// The changes of the graph's annotations, as a JSON patch; empty if they tell what is live. Of generations nothing is noted
/// while they change.
pub fn bookkeeping(graph: &DynamoGraphDeployment, program: Program, rollout: &Rollout) -> Vec<Value> {
    let mut all: BTreeMap<_, _> = graph.annotations().clone();
    all.entry(WORKLOAD_PROVIDER.to_owned()).or_insert_with(|| program.as_str().to_owned());
    let suffix = rollout.target.as_ref().filter(|_| !rollout.in_progress()).map(ToString::to_string);
    let told = all.get(CURRENT_WORKER_HASH).or_else(|| all.get(CURRENT_WORKER_HASH_V2));
    if let Some(suffix) = suffix.filter(|suffix| told != Some(suffix)) {
        all.remove(CURRENT_WORKER_HASH_V2);
        all.insert(CURRENT_WORKER_HASH.to_owned(), suffix);
    }
    if all == *graph.annotations() {
        return Vec::new();
    }
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

    fn written(mut annotations: Value, target: Option<&str>, old: &[&str]) -> Option<Value> {
        annotations[WORKLOAD_PROVIDER] = json!("component");
        let graph = graph_with(|g| g["metadata"]["annotations"] = annotations);
        let rollout = Rollout {
            target: target.map(GenerationSuffix::from_label),
            old: old.iter().map(|name| (*name).to_owned()).collect(),
            ..Rollout::default()
        };
        let mut value = bookkeeping(&graph, Program::Component, &rollout).last()?["value"].clone();
        assert_eq!(value.as_object_mut()?.remove(WORKLOAD_PROVIDER), Some(json!("component")));
        Some(value)
    }

    #[test]
    fn a_graph_without_a_program_is_told_the_one_that_runs_it_also_while_generations_change() {
        let graph = |annotations: Value| graph_with(|g| g["metadata"]["annotations"] = annotations);
        let changing = Rollout { old: vec!["old".to_owned()], ..Rollout::default() };
        for (program, rollout) in [(Program::Grove, Rollout::default()), (Program::Component, changing)] {
            let told = bookkeeping(&graph(json!({ "team": "a" })), program, &rollout);
            assert_eq!(told[1]["value"], json!({ "team": "a", WORKLOAD_PROVIDER: program.as_str() }));
            let known = graph(json!({ WORKLOAD_PROVIDER: "component" }));
            assert!(bookkeeping(&known, program, &rollout).is_empty(), "it is never changed");
        }
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
