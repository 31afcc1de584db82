//! Tests of the target.

use api_types::{
    grove::{PodCliqueSet, PodCliqueTemplate},
    labels, names,
    v1beta1::{DynamoGraphDeploymentScalingAdapter as Adapter, DynamoGraphDeploymentScalingAdapterSpec, ScalingTarget},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures::{graph_with, observed, owner, settings},
    model::{LiveGrove, ObstacleProgress},
};

fn live(replicas: i32) -> Adapter {
    let target = ScalingTarget { name: "chat".to_owned(), component_name: "Decode".to_owned() };
    let spec = DynamoGraphDeploymentScalingAdapterSpec { replicas, dgd_ref: target };
    let mut live = Adapter::new(&names::scaling_adapter("chat", "Decode"), spec);
    live.metadata.owner_references = Some(vec![owner()]);
    live
}

#[test]
fn a_live_adapter_of_the_graph_sets_the_count() {
    let counts = |live: Vec<Adapter>, has_adapter: bool| {
        let graph = graph_with(|g| {
            if has_adapter {
                g["spec"]["components"][1]["scalingAdapter"] = json!({});
            }
        });
        let mut cached = observed(&graph, vec![]);
        cached.adapters = live;
        scaled(&cached, &graph.spec.components)
            .map(|components| components.iter().map(|c| c.replicas).collect::<Vec<_>>())
    };
    assert_eq!(counts(vec![live(9)], true), Some(vec![Some(1), Some(9)]));
    assert_eq!(counts(vec![live(0)], true), Some(vec![Some(1), Some(0)]));
    assert_eq!(counts(vec![live(4)], true), None, "the graph has that count");
    assert_eq!(counts(vec![], true), None);
    assert_eq!(counts(vec![live(9)], false), None, "the component specifies no adapter");
    let mut foreign = live(9);
    foreign.metadata.owner_references = None;
    assert_eq!(counts(vec![foreign], true), None);
    let mut astray = live(9);
    astray.spec.dgd_ref.component_name = "Other".into();
    assert_eq!(counts(vec![astray], true), None);
    let mut leaving = live(9);
    leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(counts(vec![leaving], true), None);
}

/// Pods are not replaced because a scheduler was installed, or because the right to read a topology has gone.
#[test]
fn the_scheduler_and_the_domains_of_live_pods_are_read_from_them() {
    let set = |clique: Value| -> PodCliqueSet {
        let template = json!({ "cliques": [{ "name": "frontend", "spec": { "roleName": "frontend", "replicas": 1,
            "podSpec": { "containers": [] } } }, clique] });
        serde_json::from_value(json!({ "metadata": {}, "spec": { "replicas": 1, "template": template } })).unwrap()
    };
    let clique = |labels: Value, volumes: Value| {
        json!({ "name": "decode", "labels": labels, "spec": { "roleName": "decode", "replicas": 1,
            "podSpec": { "containers": [], "volumes": volumes } } })
    };
    let live = |set: &PodCliqueSet| LiveGrove { sets: vec![set.clone()], ..LiveGrove::default() };
    let files = json!([{ "path": "zone" }, { "path": "rack" }]);
    let reported = json!([{ "name": "topology-labels", "downwardAPI": { "items": files } }]);
    let on_kai = set(clique(json!({ labels::KAI_QUEUE: "team" }), reported));
    assert!(live(&on_kai).uses_kai().unwrap());
    assert_eq!(live(&on_kai).rendered_domains().unwrap(), ["zone", "rack"]);
    let plain = set(clique(json!({}), json!([])));
    assert!(!live(&plain).uses_kai().unwrap());
    assert_eq!(live(&plain).rendered_domains(), None);
}

/// Reference: it is looked for at every step.
#[test]
fn a_queue_in_which_a_graph_waits_already_is_not_looked_for_again() {
    let live = |queues: &[Option<&str>]| {
        let clique = |queue: &Option<&str>| PodCliqueTemplate {
            labels: queue.iter().map(|queue| (labels::KAI_QUEUE.to_owned(), (*queue).to_owned())).collect(),
            ..PodCliqueTemplate::default()
        };
        let mut set: PodCliqueSet = serde_json::from_value(json!({ "metadata": {}, "spec": {} })).unwrap();
        set.spec.template.cliques = queues.iter().map(clique).collect();
        LiveGrove { sets: vec![set], ..LiveGrove::default() }
    };
    assert!(live(&[Some("team"), Some("team")]).waits_in("team"));
    assert!(!live(&[Some("team"), Some("other")]).waits_in("team"), "it is to move");
    assert!(!live(&[None]).waits_in("team"), "it waited in none");
    assert!(!LiveGrove::default().waits_in("team"), "it is new");
}

#[test]
fn a_graph_without_a_provider_says_why() {
    let graph = graph_with(|g| g["metadata"]["annotations"] = json!({ "nvidia.com/workload-provider": "other" }));
    let obstacle = resolve(&mut observed(&graph, vec![]), settings()).unwrap_err();
    assert!(matches!(obstacle.progress, ObstacleProgress::Stalled(_)), "{obstacle:?}");
}
