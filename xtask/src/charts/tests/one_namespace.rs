//! Installs for one namespace.

use serde_json::{Value, json};

use super::{RESTRICTED, WITH_WEBHOOKS, find, names, render};

fn restricted(more: &[&str]) -> Vec<Value> {
    render(&[&RESTRICTED[..], more].concat()).unwrap()
}

fn with_webhooks(more: &[&str]) -> Vec<Value> {
    render(&[&WITH_WEBHOOKS[..], more].concat()).unwrap()
}

fn config(objects: &[Value]) -> &str {
    find(objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].as_str().unwrap()
}

const CONTROLLER: &str = "rel-dynamo-operator-graph-controller";

/// Returns the verbs that a role allows for a resource.
fn verbs(role: &Value, resource: &str) -> Vec<Value> {
    let rules = role["rules"].as_array().unwrap().iter();
    let about = rules.filter(|rule| rule["resources"].as_array().unwrap().contains(&json!(resource)));
    about.flat_map(|rule| rule["verbs"].as_array().unwrap().clone()).collect()
}

/// A user who may create objects of one namespace only can install such a release; no Role can grant a right to
/// cluster-scoped objects.
#[test]
fn an_install_for_one_namespace_has_no_object_of_the_cluster() {
    let values = [
        "dynamo-operator.controllerManager.replicas=2",
        "dynamo-operator.metricsService.enabled=true",
        "dynamo-operator.dynamo.metrics.podMonitors.enabled=true",
        "global.nats.install=true",
        "global.etcd.install=true",
    ];
    for more in [&[][..], &["dynamo-operator.hardened=true"], &values] {
        for object in restricted(more) {
            assert_eq!(object["metadata"]["namespace"], "dyn", "{} {}", object["kind"], object["metadata"]["name"]);
            for resource in ["nodes", "clustertopologybindings", "queues", "deviceclasses"] {
                let named = object["rules"].to_string().contains(&format!("\"{resource}\""));
                assert!(!named, "{} has {resource}", object["metadata"]["name"]);
            }
        }
    }
}

/// The right to look at nodes is one in the cluster: an install for one namespace has it when values enable it.
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
        let kind = if names(&values, "ClusterRole").contains(&CONTROLLER) { "ClusterRole" } else { "Role" };
        let nodes = verbs(find(&values, kind, CONTROLLER), "nodes");
        let of_cluster = kind == "ClusterRole";
        assert_eq!(nodes.contains(&json!("get")), of_cluster, "labels of nodes are another matter: {nodes:?}");
        assert_eq!(nodes.contains(&json!("list")), of_cluster && looks, "{kind}: {nodes:?}");
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

#[test]
fn what_belongs_to_the_cluster_is_read_where_values_enable_it() {
    let objects = with_webhooks(&["dynamo-operator.namespaceRestriction.clusterReads=true"]);
    for (program, resources) in [
        ("graph-controller", &["nodes", "clustertopologybindings", "queues"][..]),
        ("webhook-server", &["clustertopologybindings"]),
    ] {
        let name = format!("rel-dynamo-operator-{program}-dyn-cluster-reader");
        let rules = find(&objects, "ClusterRole", &name)["rules"].as_array().unwrap();
        let found: Vec<_> = rules.iter().map(|rule| rule["resources"][0].as_str().unwrap()).collect();
        assert_eq!(found, resources, "{program}");
        assert!(rules.iter().all(|rule| rule["verbs"] == json!(["get"])), "{program}: {rules:?}");
        let subject = &find(&objects, "ClusterRoleBinding", &name)["subjects"][0];
        assert_eq!(subject["name"], format!("rel-dynamo-operator-{program}"));
    }
    assert!(!names(&with_webhooks(&[]), "ClusterRole").iter().any(|name| name.ends_with("-cluster-reader")));
}

/// Pods run in the namespace that is served: what they refer to has to be there.
#[test]
fn what_pods_refer_to_is_in_the_namespace_that_is_served() {
    let registry = "dynamo-operator.dynamo.dockerRegistry";
    let values = [
        "dynamo-operator.namespaceRestriction.targetNamespace=team".to_owned(),
        format!("{registry}.useKubernetesSecret=true"),
        format!("{registry}.server=registry.example.com"),
    ];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for (objects, namespace) in [(restricted(&values), "team"), (render(&values).unwrap(), "dyn")] {
        for (kind, name) in
            [("ServiceAccount", "rel-dynamo-operator-component"), ("Secret", "rel-dynamo-operator-regcred")]
        {
            assert_eq!(find(&objects, kind, name)["metadata"]["namespace"], namespace, "{kind}");
        }
    }
}

/// Returns the names, if there are any, and verbs of a role's rights to Secrets.
fn secrets(role: &Value) -> Vec<(Value, Value)> {
    let rules = role["rules"].as_array().unwrap().iter().filter(|rule| rule["resources"] == json!(["secrets"]));
    rules.map(|rule| (rule["resourceNames"].clone(), rule["verbs"].clone())).collect()
}

/// The webhook server has its certificate where it is itself, and may make the MPI key where graphs are.
#[test]
fn the_mpi_key_is_made_where_graphs_are_and_read_nowhere() {
    let objects = with_webhooks(&[
        "dynamo-operator.namespaceRestriction.targetNamespace=team",
        "dynamo-operator.webhook.certificateSecret.name=cert",
        "dynamo-operator.dynamo.mpiRun.secretName=key",
    ]);
    let own = find(&objects, "Role", "rel-dynamo-operator-webhook-server-own");
    assert_eq!(own["metadata"]["namespace"], "dyn");
    let expected = [(json!(["cert"]), json!(["get", "list", "watch", "create", "patch", "update"]))];
    assert_eq!(secrets(own), expected);
    let there = find(&objects, "Role", "rel-dynamo-operator-webhook-server");
    assert_eq!(there["metadata"]["namespace"], "team");
    assert_eq!(secrets(there), [(json!(["key"]), json!(["create", "patch"]))]);
    let graphs = find(&objects, "Role", "rel-dynamo-operator-graph-controller");
    assert_eq!(graphs["metadata"]["namespace"], "team");
    assert_eq!(secrets(graphs), [(json!(["key"]), json!(["get", "list", "watch"]))]);
    assert!(config(&objects).contains("sshSecretName: key\n  sshSecretNamespace: dyn\n"), "{}", config(&objects));
}
