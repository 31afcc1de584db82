//! Tests of `hardened`: its changes, and the guarantees without it.

use serde_json::{Value, json};

use super::{RESTRICTED, find, names, render};

const HARDENED: &str = "dynamo-operator.hardened=true";

fn metrics_rule(objects: &[Value], program: &str) -> Value {
    let policy = find(objects, "NetworkPolicy", &format!("rel-dynamo-operator-{program}"));
    policy["spec"]["ingress"][0].clone()
}

#[test]
fn each_program_has_a_network_policy_with_its_ports() {
    let objects = render(&[]).unwrap();
    // `crds` listens on no port.
    let mut programs = names(&objects, "Deployment");
    programs.retain(|name| *name != "rel-dynamo-operator-crds");
    assert_eq!(names(&objects, "NetworkPolicy"), programs);
    assert_eq!(metrics_rule(&objects, "graph-controller")["from"], Value::Null);
    let webhook = find(&objects, "NetworkPolicy", "rel-dynamo-operator-webhook-server");
    assert_eq!(webhook["spec"]["ingress"][1]["ports"], json!([{ "port": "webhook", "protocol": "TCP" }]));
}

#[test]
fn a_hardened_install_serves_metrics_to_the_named_peers() {
    let rule = metrics_rule(&render(&[HARDENED]).unwrap(), "graph-controller");
    assert_eq!(rule["ports"], json!([{ "port": "metrics", "protocol": "TCP" }]));
    assert_eq!(rule["from"][0]["podSelector"]["matchLabels"], json!({ "app.kubernetes.io/name": "prometheus" }));
}

#[test]
fn only_an_install_for_the_whole_cluster_makes_admission_policies() {
    let of = |values: &[&str]| names(&render(values).unwrap(), "ValidatingAdmissionPolicy").len();
    assert_eq!((of(&[]), of(&[HARDENED])), (1, 2));
    assert_eq!(of(&["dynamo-operator.admissionPolicies.enabled=false"]), 0);
    assert_eq!(of(&[&RESTRICTED[..], &[HARDENED]].concat()), 0, "a restricted install makes no object of the cluster");
}

#[test]
fn a_hardened_install_for_one_namespace_may_mark_it() {
    let objects = render(&[&RESTRICTED[..], &[HARDENED]].concat()).unwrap();
    let role = find(&objects, "Role", "rel-dynamo-operator-lease-scope-mark");
    assert_eq!(role["rules"][0]["verbs"], json!(["mark"]));
    assert_eq!(role["rules"][0]["resourceNames"], json!(["dyn"]));
}

const SERVERS: [&str; 2] = ["global.nats.install=true", "global.etcd.install=true"];

/// The servers of the chart have no login: tenants would read and delete what others keep there.
#[test]
fn tenants_that_are_not_trusted_do_not_share_a_server_without_login() {
    for server in SERVERS {
        let refused = render(&[HARDENED, server]).unwrap_err();
        assert!(refused.contains("this server has no login"), "{refused}");
        assert!(render(&[server]).is_ok(), "an install for trusted users has it");
        assert!(render(&[&RESTRICTED[..], &[HARDENED, server]].concat()).is_ok(), "there is one tenant");
    }
}

#[test]
fn the_servers_of_an_install_for_one_namespace_let_in_that_namespace_only() {
    let target = ["dynamo-operator.namespaceRestriction.targetNamespace=team"];
    let objects = render(&[&RESTRICTED[..], &SERVERS, &target].concat()).unwrap();
    for (name, port) in [("rel-nats", 4222), ("rel-etcd", 2379)] {
        let policy = find(&objects, "NetworkPolicy", name);
        let pods = find(&objects, "StatefulSet", name)["spec"]["template"]["metadata"]["labels"].clone();
        assert_eq!(policy["spec"]["podSelector"]["matchLabels"], pods);
        let from =
            policy["spec"]["ingress"][0]["from"][0]["namespaceSelector"]["matchExpressions"][0]["values"].clone();
        assert_eq!(from, json!(["dyn", "team"]));
        assert_eq!(policy["spec"]["ingress"][0]["ports"], json!([{ "port": port, "protocol": "TCP" }]));
    }
    let policies = names(&render(&SERVERS).unwrap(), "NetworkPolicy").len();
    assert_eq!(policies, names(&render(&[]).unwrap(), "NetworkPolicy").len(), "every namespace is served");
}
