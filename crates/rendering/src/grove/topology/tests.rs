//! Constraints and fragments.

use api_types::grove::API_VERSION;

use super::*;
use crate::rules::fragment::CONSTRAINT;

fn spec(value: Value) -> DynamoGraphDeploymentSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_component_names_the_topology_only_where_the_graph_packs_nothing() {
    let component = json!({ "name": "W", "topologyConstraint": { "packDomain": "rack" } });
    let table = [
        (json!({ "clusterTopologyName": "t", "packDomain": "zone" }), json!({ "pack": { "required": "rack" } })),
        (json!({ "clusterTopologyName": "t" }), json!({ "topologyName": "t", "pack": { "required": "rack" } })),
    ];
    for (of_whole, expected) in table {
        let spec = spec(json!({ "topologyConstraint": of_whole, "components": [component] }));
        assert_eq!(of_component(&spec, &spec.components[0]), Some(expected));
        let zone = spec.topology_constraint.as_ref().and_then(|t| t.pack_domain.clone());
        let whole = zone.map(|zone| json!({ "topologyName": "t", "pack": { "required": zone } }));
        assert_eq!(of_graph(&spec), whole);
    }
}

fn fragment(value: Value) -> Value {
    json!({ "apiVersion": API_VERSION, "value": value })
}

fn everywhere() -> DynamoGraphDeploymentSpec {
    let constraint = |name: &str| fragment(json!({ CONSTRAINT: { "pack": { "preferred": name }, "newer": null } }));
    spec(json!({
        "providerOverride": fragment(json!({ "spec": { "template": { CONSTRAINT: { "topologyName": "root" } } } })),
        "components": [
            { "name": "Front", "providerOverride": constraint("front") },
            { "name": "W", "providerOverride": constraint("w"), "multinode": {
                "nodeCount": 2,
                "leader": { "providerOverride": constraint("leader") },
                "worker": { "providerOverride": constraint("worker") },
            } },
        ],
    }))
}

#[test]
fn fragments_replace_what_was_rendered_as_a_whole() {
    let spec = everywhere();
    assert_eq!(check(&spec), []);
    assert!(has_topology(&spec));
    let clique = |name: &str| json!({ "name": name, CONSTRAINT: { "pack": { "required": "typed" } }, "spec": {} });
    let mut template: PodCliqueSetTemplate = serde_json::from_value(json!({
        "cliques": [clique("front"), clique("w-ldr"), clique("w-wkr"), clique("other")],
        "podCliqueScalingGroups": [{ "name": "w" }],
    }))
    .unwrap();
    apply_overrides(&mut template, &spec);
    assert_eq!(template.topology_constraint, Some(json!({ "topologyName": "root" })));
    let own = |name: &str| Some(json!({ "pack": { "preferred": name }, "newer": null }));
    let cliques: Vec<_> = template.cliques.into_iter().map(|clique| clique.topology_constraint).collect();
    let untouched = Some(json!({ "pack": { "required": "typed" } }));
    assert_eq!(cliques, [own("front"), own("leader"), own("worker"), untouched]);
    assert_eq!(template.pod_clique_scaling_groups[0].topology_constraint, own("w"));
}

#[test]
fn fragments_that_are_not_for_their_place_are_violations() {
    let table = [
        (json!({ "apiVersion": "grove.io/v2", "value": { CONSTRAINT: {} } }), vec!["apiVersion"]),
        (json!({ "apiVersion": API_VERSION, "target": "PodCliqueSet", "value": { CONSTRAINT: {} } }), vec!["target"]),
        (fragment(json!({ CONSTRAINT: {}, "replicas": 2 })), vec!["value.replicas"]),
        (fragment(json!({})), vec!["value.topologyConstraint"]),
        (fragment(json!({ CONSTRAINT: "rack" })), vec!["value.topologyConstraint"]),
    ];
    for (given, expected) in table {
        let spec = spec(json!({ "components": [{ "name": "W", "providerOverride": given }] }));
        let found: Vec<_> = check(&spec).into_iter().map(|violation| violation.path).collect();
        let expected: Vec<_> =
            expected.iter().map(|below| format!("spec.components[W].providerOverride.{below}")).collect();
        assert_eq!(found, expected, "{given}");
    }
    let wrong = json!({ "spec": { "replicas": 3, "template": { CONSTRAINT: {}, "cliques": [] } } });
    let root = spec(json!({ "providerOverride": fragment(wrong) }));
    let found: Vec<_> = check(&root).into_iter().map(|violation| violation.path).collect();
    assert_eq!(
        found,
        ["spec.providerOverride.value.spec.replicas", "spec.providerOverride.value.spec.template.cliques"]
    );
}
