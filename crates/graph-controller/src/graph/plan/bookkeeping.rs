//! What is noted on the graph itself: the program that runs it, and what the upstream operator reads, so that it can
//! take the graph back without rolling a pod. All of it is written from what is live, and written again if a user
//! takes it away.
//!
//! Admission notes the program on every new graph. A graph that is older than the note, or came while admission was
//! away, gets it here: without it, admission would judge the graph by what the cluster serves today.
//!
//! The upstream operator knows two notes. The first holds the suffix of the live revision, opaque; the second a digest
//! of the spec, which only it can compute. With the first note alone it computes the digest, and lets run what runs. A
//! digest that it left beside another revision would make it roll all workers, so it goes with the revision that it was
//! made for.

use api_types::{
    annotations::{CURRENT_WORKER_HASH, CURRENT_WORKER_HASH_V2, WORKLOAD_PROVIDER},
    v1beta1::DynamoGraphDeployment,
};
use controller_kit::apply::MetadataPatch;
use kube::ResourceExt;
use rendering::WorkloadProvider;

use crate::graph::model::Rollout;

/// The changes of the graph's annotations; empty if they tell what is live. Of revisions nothing is noted while they
/// change.
pub fn bookkeeping(graph: &DynamoGraphDeployment, provider: WorkloadProvider, rollout: &Rollout) -> MetadataPatch {
    let all = graph.annotations();
    let mut patch = MetadataPatch::default();
    if !all.contains_key(WORKLOAD_PROVIDER) {
        patch = patch.annotation(WORKLOAD_PROVIDER, Some(provider.as_str()));
    }
    let suffix = rollout.target.as_ref().filter(|_| !rollout.in_progress()).map(ToString::to_string);
    let reported = all.get(CURRENT_WORKER_HASH).or_else(|| all.get(CURRENT_WORKER_HASH_V2));
    if let Some(suffix) = suffix.filter(|suffix| reported != Some(suffix)) {
        patch = patch.annotation(CURRENT_WORKER_HASH_V2, None).annotation(CURRENT_WORKER_HASH, Some(&suffix));
    }
    // A note that another operator has written meanwhile must stay.
    patch.only_if_unchanged()
}

#[cfg(test)]
mod tests {
    use api_types::names::RevisionSuffix;
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::fixtures::graph_with;

    fn written(mut annotations: Value, target: Option<&str>, old: &[&str]) -> Option<MetadataPatch> {
        annotations[WORKLOAD_PROVIDER] = json!("component");
        let graph = graph_with(|g| g["metadata"]["annotations"] = annotations);
        let rollout = Rollout {
            target: target.map(RevisionSuffix::from_label),
            old: old.iter().map(|name| (*name).to_owned()).collect(),
            ..Rollout::default()
        };
        Some(bookkeeping(&graph, WorkloadProvider::Component, &rollout)).filter(|patch| !patch.is_empty())
    }

    #[test]
    fn a_graph_without_a_program_is_told_the_one_that_runs_it_also_while_generations_change() {
        let graph = |annotations: Value| graph_with(|g| g["metadata"]["annotations"] = annotations);
        let changing = Rollout { old: vec!["old".to_owned()], ..Rollout::default() };
        for (provider, rollout) in
            [(WorkloadProvider::Grove, Rollout::default()), (WorkloadProvider::Component, changing)]
        {
            let reported = bookkeeping(&graph(json!({ "team": "a" })), provider, &rollout);
            let expected = MetadataPatch::default().annotation(WORKLOAD_PROVIDER, Some(provider.as_str()));
            assert_eq!(reported, expected.only_if_unchanged());
            let known = graph(json!({ WORKLOAD_PROVIDER: "component" }));
            assert!(bookkeeping(&known, provider, &rollout).is_empty(), "it is never changed");
        }
    }

    #[test]
    fn the_go_operator_finds_the_live_generation_and_no_digest_of_another() {
        let (first, second) = (CURRENT_WORKER_HASH, CURRENT_WORKER_HASH_V2);
        let noted = MetadataPatch::default().annotation(first, Some("0a1b2c3d")).annotation(second, None);
        let noted = noted.only_if_unchanged();
        let table = [
            ("new", json!({ "team": "a" }), Some("0a1b2c3d"), &[][..], Some(noted.clone())),
            ("ours", json!({ first: "0a1b2c3d" }), Some("0a1b2c3d"), &[], None),
            ("taken over", json!({ second: "0a1b2c3d" }), Some("0a1b2c3d"), &[], None),
            ("taken over twice", json!({ first: "0a1b2c3d", second: "ffffffff" }), Some("0a1b2c3d"), &[], None),
            ("changing", json!({ second: "ffffffff" }), Some("0a1b2c3d"), &["old"], None),
            ("changed", json!({ first: "eeeeeeee", second: "ffffffff" }), Some("0a1b2c3d"), &[], Some(noted)),
            ("without workers", json!({}), None, &[], None),
        ];
        for (what, annotations, target, old, expected) in table {
            assert_eq!(written(annotations, target, old), expected, "{what}");
        }
    }
}
