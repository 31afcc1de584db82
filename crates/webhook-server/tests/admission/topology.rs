//! Placement in the topology of the cluster.

use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Facts, Lookup, lookups};

use crate::support::*;

fn binding(name: &str) -> Lookup {
    Lookup::TopologyBinding { name: name.to_owned() }
}

/// A cluster with a topology of zones, blocks and racks.
fn with_topology() -> Facts {
    let levels: Vec<Value> = ["zone", "block", "rack"].map(|domain| json!({ "domain": domain })).into();
    let mut facts = grove();
    facts.found.insert(binding("fabric"), Ok(Some(json!({ "spec": { "levels": levels } }))));
    facts.found.insert(binding("secret"), Err("not allowed".to_owned()));
    facts
}

fn placed(whole: Value, part: Value) -> Value {
    edited(&grove_graph(), |g| {
        g["spec"]["topologyConstraint"] = whole;
        g["spec"]["components"][1]["topologyConstraint"] = part;
    })
}

fn fabric(domain: Option<&str>) -> Value {
    json!({ "clusterTopologyName": "fabric", "packDomain": domain })
}

#[test]
fn domains_are_domains_of_the_topology() {
    let domain = |domain: &str| json!({ "packDomain": domain });
    let at = |path: &str| path.to_owned();
    for (whole, part, expected) in [
        (fabric(Some("block")), json!(null), vec![]),
        (fabric(Some("block")), domain("rack"), vec![]),
        (fabric(Some("block")), domain("block"), vec![]),
        (fabric(None), domain("zone"), vec![]),
        (fabric(Some("row")), json!(null), vec![at("Invalid spec.topologyConstraint.packDomain")]),
        (fabric(Some("block")), domain("row"), vec![at("Invalid spec.components[1].topologyConstraint.packDomain")]),
        (fabric(Some("block")), domain("zone"), vec![at("Invalid spec.components[1].topologyConstraint.packDomain")]),
        (
            json!({ "clusterTopologyName": "other", "packDomain": "rack" }),
            json!(null),
            vec![at("Invalid spec.topologyConstraint.clusterTopologyName")],
        ),
        (
            json!({ "clusterTopologyName": "secret", "packDomain": "rack" }),
            json!(null),
            vec![at("Invalid spec.topologyConstraint.clusterTopologyName")],
        ),
    ] {
        let answer = create(&placed(whole.clone(), part.clone()), &with_topology());
        assert_eq!(violations(&answer), expected, "{whole} {part}\n{}", words(&answer));
    }
}

#[test]
fn transfer_policies_name_a_topology() {
    let with = |name: &str, domain: &str| {
        edited(&grove_graph(), |g| {
            g["spec"]["experimental"] =
                json!({ "kvTransferPolicy": { "clusterTopologyName": name, "domain": domain } });
        })
    };
    let at = |field: &str| format!("Invalid spec.experimental.kvTransferPolicy.{field}");
    for (name, domain, expected) in [
        ("fabric", "rack", vec![]),
        ("fabric", "row", vec![at("domain")]),
        ("other", "rack", vec![at("clusterTopologyName")]),
    ] {
        assert_eq!(violations(&create(&with(name, domain), &with_topology())), expected, "{name} {domain}");
    }
    let plain = edited(&with("fabric", "rack"), |g| {
        g["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!("component");
        for index in [0, 1] {
            g["spec"]["components"][index]["minAvailable"] = json!(null);
        }
    });
    let forbidden = ["Forbidden spec.experimental.kvTransferPolicy.clusterTopologyName"];
    assert_eq!(violations(&create(&plain, &with_topology())), forbidden);
}

/// The topology may have changed since.
#[test]
fn graphs_that_live_are_not_held_against_the_topology() {
    let old = placed(json!({ "clusterTopologyName": "gone", "packDomain": "rack" }), json!(null));
    let new = edited(&old, |g| g["spec"]["components"][1]["replicas"] = json!(5));
    assert_eq!(violations(&update(&old, &new, &with_topology())), Vec::<String>::new());
    assert!(lookups(AdmissionPath::ValidateGraph, &change(old, new), &grove()).is_empty());
}

#[test]
fn only_topologies_that_a_new_graph_names_are_read() {
    let named = |object: Value| lookups(AdmissionPath::ValidateGraph, &creation(object), &grove());
    assert!(named(grove_graph()).is_empty());
    assert_eq!(named(placed(fabric(None), json!(null))), [binding("fabric")]);
    let both = edited(&placed(fabric(None), json!(null)), |g| {
        g["spec"]["experimental"] = json!({ "kvTransferPolicy": { "clusterTopologyName": "fabric" } });
    });
    assert_eq!(named(both), [binding("fabric")], "each once");
    assert!(lookups(AdmissionPath::DefaultGraph, &creation(placed(fabric(None), json!(null))), &grove()).is_empty());
}
