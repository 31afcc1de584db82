//! Fragments of Grove's objects.

use serde_json::{Value, json};

use crate::support::*;

fn fragment(target: Option<&str>, value: Value) -> Value {
    json!({ "apiVersion": "grove.io/v1alpha1", "target": target, "value": value })
}

fn rack() -> Value {
    json!({ "topologyConstraint": { "topologyName": "t", "pack": { "required": "rack" }, "tomorrow": { "x": null } } })
}

fn rack_of_set() -> Value {
    json!({ "spec": { "template": rack() } })
}

/// A graph on Grove with a fragment at every place where one is allowed.
fn everywhere() -> Value {
    edited(&grove_graph(), |g| {
        g["spec"]["providerOverride"] = fragment(Some("PodCliqueSet"), rack_of_set());
        g["spec"]["components"][0]["providerOverride"] = fragment(Some("PodCliqueTemplateSpec"), rack());
        g["spec"]["components"][1]["providerOverride"] = fragment(Some("PodCliqueScalingGroupConfig"), rack());
        g["spec"]["components"][1]["multinode"] = json!({
            "nodeCount": 2,
            "leader": { "providerOverride": fragment(Some("PodCliqueTemplateSpec"), rack()) },
            "worker": { "providerOverride": fragment(Some("PodCliqueTemplateSpec"), rack()) },
        });
    })
}

#[test]
fn fragments_say_what_they_are_fragments_of() {
    creates(
        &everywhere(),
        &grove(),
        &[
            (
                "no target",
                |g| g["spec"]["components"][0]["providerOverride"]["target"] = json!(null),
                &["Required spec.components[0].providerOverride.target"],
            ),
            (
                "target",
                |g| g["spec"]["components"][1]["providerOverride"]["target"] = json!("PodCliqueTemplateSpec"),
                &["Invalid spec.components[1].providerOverride.target"],
            ),
            (
                "roles of one node",
                |g| {
                    g["spec"]["components"][1]["multinode"]["nodeCount"] = json!(1);
                    g["spec"]["components"][1]["providerOverride"] = json!(null);
                },
                &[
                    "Forbidden spec.components[1].multinode.leader.providerOverride",
                    "Forbidden spec.components[1].multinode.worker.providerOverride",
                ],
            ),
            (
                "roles with memory between pods",
                |g| g["spec"]["components"][1]["experimental"] = json!({ "gpuMemoryService": { "mode": "InterPod" } }),
                &[
                    "Forbidden spec.components[1].multinode.leader.providerOverride",
                    "Forbidden spec.components[1].multinode.worker.providerOverride",
                ],
            ),
        ],
    );
}

#[test]
fn fragments_write_only_what_is_left_to_them() {
    creates(
        &everywhere(),
        &grove(),
        &[
            (
                "more",
                |g| {
                    g["spec"]["providerOverride"]["value"]["metadata"] = json!({});
                    g["spec"]["providerOverride"]["value"]["spec"]["replicas"] = json!(2);
                    g["spec"]["components"][0]["providerOverride"]["value"]["name"] = json!("x");
                },
                &[
                    "Forbidden spec.providerOverride.value.metadata",
                    "Forbidden spec.providerOverride.value.spec.replicas",
                    "Forbidden spec.components[0].providerOverride.value.name",
                ],
            ),
            (
                "nothing",
                |g| g["spec"]["components"][0]["providerOverride"]["value"] = json!({}),
                &["Required spec.components[0].providerOverride.value.topologyConstraint"],
            ),
            (
                "list",
                |g| g["spec"]["providerOverride"]["value"]["spec"]["template"] = json!([]),
                &["Invalid spec.providerOverride.value.spec.template"],
            ),
            (
                "types",
                |g| {
                    g["spec"]["components"][0]["providerOverride"]["value"]["topologyConstraint"]["pack"] =
                        json!("rack");
                    g["spec"]["components"][1]["providerOverride"]["value"]["topologyConstraint"]["topologyName"] =
                        json!(1);
                },
                &[
                    "Invalid spec.components[0].providerOverride.value.topologyConstraint.pack",
                    "Invalid spec.components[1].providerOverride.value.topologyConstraint.topologyName",
                ],
            ),
        ],
    );
}

#[test]
fn placement_is_said_in_one_way() {
    let both = edited(&everywhere(), |g| {
        g["spec"]["topologyConstraint"] = json!({ "clusterTopologyName": "t", "packDomain": "rack" });
    });
    let at = |path: &str| format!("Forbidden {path}providerOverride.value");
    let expected = [
        at("spec."),
        at("spec.components[0]."),
        at("spec.components[1]."),
        at("spec.components[1].multinode.leader."),
        at("spec.components[1].multinode.worker."),
    ];
    let mut found = violations(&create(&both, &grove()));
    found.retain(|violation| violation.starts_with("Forbidden"));
    assert_eq!(found, expected);
}

#[test]
fn fragments_need_grove() {
    let graph = |provider: Option<&str>| {
        edited(&graph(), |g| {
            g["spec"]["providerOverride"] = fragment(None, rack_of_set());
            match provider {
                Some(provider) => g["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!(provider),
                None => g["metadata"]["annotations"] = json!({}),
            }
        })
    };
    for provider in [Some("component"), None] {
        assert_eq!(
            violations(&create(&graph(provider), &grove())),
            ["Forbidden spec.providerOverride"],
            "{provider:?}"
        );
    }
}
