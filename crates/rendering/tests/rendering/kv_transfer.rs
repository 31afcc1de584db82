//! The policy for exchanging key-value caches, in a worker's template.

use api_types::v1beta1::KvTransferPolicy;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use rendering::{apply_kv_transfer_policy, kv_transfer_annotations};
use serde_json::{Value, json};

use crate::fixture::json_of;

fn template(main: Value) -> PodTemplateSpec {
    serde_json::from_value(json!({"spec": {"containers": [{"name": "side"}, main]}})).unwrap()
}

fn applied(policy: Value, domains: &[&str], main: Value) -> Value {
    let policy: KvTransferPolicy = serde_json::from_value(policy).unwrap();
    let domains: Vec<String> = domains.iter().map(|domain| (*domain).to_owned()).collect();
    let mut template = template(main);
    apply_kv_transfer_policy(&mut template, &policy, &domains);
    let once = template.clone();
    apply_kv_transfer_policy(&mut template, &policy, &domains);
    assert_eq!(template, once, "twice is once");
    json_of(&template)
}

#[test]
fn a_node_label_gives_one_file_and_the_policy_beats_the_author() {
    let policy = json!({"labelKey": "topology.kubernetes.io/zone", "domain": "zone"});
    let main = json!({"name": "main",
        "env": [{"name": "Z"}, {"name": "DYN_KV_TRANSFER_DOMAIN", "value": "rack"},
            {"name": "DYN_KV_TRANSFER_PREFERRED_WEIGHT", "value": "1"}],
        "volumeMounts": [{"name": "other", "mountPath": "/etc/dynamo/topology"}, {"name": "own", "mountPath": "/own"}]});
    let template = applied(policy, &[], main);
    let main = &template["spec"]["containers"][1];
    assert_eq!(
        main["env"],
        json!([
            {"name": "DYN_KV_TRANSFER_DOMAIN", "value": "zone"},
            {"name": "DYN_KV_TRANSFER_ENFORCEMENT", "value": "required"},
            {"name": "DYN_TOPOLOGY_ENABLED", "value": "true"},
            {"name": "DYN_TOPOLOGY_MOUNT_PATH", "value": "/etc/dynamo/topology"},
            {"name": "Z"},
        ])
    );
    let mounts = json!([{"name": "own", "mountPath": "/own"},
        {"name": "topology-labels", "mountPath": "/etc/dynamo/topology", "readOnly": true}]);
    assert_eq!(main["volumeMounts"], mounts);
    let field = json!({"fieldPath": "metadata.labels['topology.kubernetes.io/zone']"});
    assert_eq!(template["spec"]["volumes"][0]["downwardAPI"]["items"], json!([{"path": "zone", "fieldRef": field}]));
    assert_eq!(template["spec"]["containers"][0], json!({"name": "side"}));
}

#[test]
fn a_cluster_topology_gives_a_file_for_each_of_its_domains() {
    let policy =
        json!({"clusterTopologyName": "dc", "domain": "rack", "enforcement": "preferred", "preferredWeight": 0.85});
    let template = applied(policy.clone(), &["zone", "rack"], json!({"name": "main"}));
    let field = |domain: &str| json!({"fieldPath": format!("metadata.labels['nvidia.com/dynamo-topology.{domain}']")});
    assert_eq!(
        template["spec"]["volumes"][0]["downwardAPI"]["items"],
        json!([{"path": "zone", "fieldRef": field("zone")}, {"path": "rack", "fieldRef": field("rack")}])
    );
    let env = template["spec"]["containers"][1]["env"].as_array().unwrap().clone();
    assert!(env.contains(&json!({"name": "DYN_KV_TRANSFER_PREFERRED_WEIGHT", "value": "0.85"})), "{env:?}");
    let annotations = kv_transfer_annotations(&serde_json::from_value(policy).unwrap());
    assert_eq!(json!(annotations), json!({"nvidia.com/topology-cluster-topology-name": "dc"}));
}
