//! Tests of workers with rendered topology domains, when the topology changes.

use api_types::v1beta1::DynamoGraphDeployment;
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures::{
        graph_with,
        grove::{as_live, observed, observed_with, planned},
        set_image,
    },
    model::ObstacleProgress,
};

/// The graph, its workers exchanging caches within `domain` of `topology`, after a further edit.
fn exchanging(topology: &str, domain: &str, edit: impl FnOnce(&mut Value)) -> DynamoGraphDeployment {
    graph_with(|graph| {
        let policy = json!({ "clusterTopologyName": topology, "domain": domain });
        graph["spec"]["experimental"] = json!({ "kvTransferPolicy": policy });
        edit(graph);
    })
}

fn set_of(mut observed: GraphObserved, domains: &[&str]) -> PodCliqueSet {
    observed.grove.topology_domains = Some(domains.iter().map(|domain| (*domain).to_owned()).collect());
    planned(&observed).grove.unwrap().set
}

fn domains_of(set: &PodCliqueSet) -> Vec<String> {
    set.spec.template.cliques.iter().find_map(|clique| rendering::topology_domains(&clique.spec.pod_spec)).unwrap()
}

/// Reference: every level that is added to a topology replaces the workers of all graphs that name it.
#[test]
fn a_topology_that_gets_a_level_replaces_no_workers() {
    let graph = exchanging("racks", "rack", |_| {});
    let live = as_live(set_of(observed(&graph), &["zone", "rack"]));
    assert_eq!(domains_of(&live), ["zone", "rack"]);
    let later = |graph: &DynamoGraphDeployment| {
        let set = set_of(observed_with(graph, live.clone()), &["zone", "rack", "host"]);
        (set.spec == live.spec && set.metadata.annotations == live.metadata.annotations, domains_of(&set))
    };
    let (before, all) = (vec!["zone".to_owned(), "rack".to_owned()], vec!["zone", "rack", "host"]);
    assert_eq!(later(&graph), (true, before.clone()));
    let frontend = exchanging("racks", "rack", |graph| graph["spec"]["components"][0]["replicas"] = json!(2));
    assert_eq!(later(&frontend).1, before, "nothing about the workers has changed");
    for (changed, why) in [
        (exchanging("racks", "rack", |graph| set_image(graph, "1.6.0")), "they are replaced anyway"),
        (exchanging("racks", "host", |_| {}), "they do not have the domain yet"),
        (exchanging("rows", "rack", |_| {}), "they have another topology"),
    ] {
        let (same, domains) = later(&changed);
        assert!(!same, "{why}");
        assert_eq!(domains, all, "{why}");
    }
}

/// The creator of the workers.
#[test]
fn a_topology_that_gets_a_level_replaces_no_workers_of_another_operator() {
    let graph = exchanging("racks", "rack", |_| {});
    let mut live = as_live(set_of(observed(&graph), &["zone", "rack"]));
    live.metadata.annotations = None;
    let set = set_of(observed_with(&graph, live.clone()), &["zone", "rack", "host"]);
    assert_eq!(set.spec, live.spec);
}

/// A topology that is made later raises no event, so it is read again.
#[test]
fn a_missing_topology_is_an_obstacle_and_no_violation() {
    let graph = graph_with(|g| {
        let policy = json!({ "clusterTopologyName": "racks", "domain": "rack" });
        g["spec"]["experimental"] = json!({ "kvTransferPolicy": policy });
    });
    let obstacle = |domains: Option<&[&str]>, served: bool| {
        let mut observed = observed(&graph);
        observed.served.grove = served;
        observed.grove.topology_domains = domains.map(|all| all.iter().map(|name| (*name).to_owned()).collect());
        planned(&observed).obstacle
    };
    let missing = obstacle(None, true).unwrap();
    assert_eq!(missing.progress, ObstacleProgress::Stalled(conditions::graph::TOPOLOGY_NOT_FOUND));
    assert!(missing.message.contains("ClusterTopologyBinding racks"), "{}", missing.message);
    let other = obstacle(Some(&["zone", "block"]), true).unwrap();
    assert_eq!(other.progress, ObstacleProgress::Stalled(conditions::graph::TOPOLOGY_LEVELS_UNAVAILABLE));
    assert!(other.message.contains("zone, block"), "{}", other.message);
    assert_eq!(obstacle(Some(&["zone", "rack"]), true), None);
    let unserved = obstacle(None, false).unwrap();
    assert_eq!(unserved.progress, ObstacleProgress::Stalled(conditions::graph::API_MISSING));
    assert!(unserved.message.contains("grove.io"), "{}", unserved.message);
}
