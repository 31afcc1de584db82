//! Installs for one namespace.

use serde_json::{Value, json};

use super::{RESTRICTED, find, names, render};

fn restricted(more: &[&str]) -> Vec<Value> {
    render(&[&RESTRICTED[..], more].concat()).unwrap()
}

fn config(objects: &[Value]) -> &str {
    find(objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].as_str().unwrap()
}

/// The right to look at nodes is one in the cluster: an install for one namespace has it when it is asked for.
#[test]
fn gpus_are_looked_for_where_nodes_may_be_read() {
    let (on, off) = ("dynamo-operator.gpuDiscovery.enabled=true", "dynamo-operator.gpuDiscovery.enabled=false");
    for (values, looks, role) in [
        (render(&[]).unwrap(), true, false),
        (render(&[off]).unwrap(), false, false),
        (restricted(&[]), false, false),
        (restricted(&[off]), false, false),
        (restricted(&[on]), true, true),
    ] {
        assert!(config(&values).contains(&format!("discoveryEnabled: {looks}\n")), "{}", config(&values));
        let name = "rel-dynamo-operator-dyn-gpu-discovery";
        assert_eq!(names(&values, "ClusterRole").contains(&name), role);
        assert_eq!(names(&values, "ClusterRoleBinding").contains(&name), role);
        if role {
            let rules = find(&values, "ClusterRole", name)["rules"].as_array().unwrap();
            assert!(rules.iter().any(|rule| rule["resources"] == json!(["nodes"])), "{rules:?}");
            let subject = &find(&values, "ClusterRoleBinding", name)["subjects"][0];
            assert_eq!(subject["name"], "rel-dynamo-operator-graph-controller");
            assert_eq!(subject["namespace"], "dyn");
        }
    }
}
