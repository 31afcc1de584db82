//! What `hardened` changes, and what holds without it.

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
    assert_eq!(names(&objects, "NetworkPolicy"), names(&objects, "Deployment"));
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
