//! Rights to read the metrics of the programs.

use controller_kit::access;
use serde_json::{Value, json};

use super::{RESTRICTED, find, names, render};

const PROGRAMS: [&str; 4] = ["graph-controller", "component-controller", "model-controller", "webhook-server"];
/// Of an install for one namespace.
const OF_NAMESPACE: [&str; 4] = ["graph-controller", "component-controller", "model-controller", "lease-scope"];
const MONITORS: &str = "dynamo-operator.metricsService.enabled=true";
const PLAIN: &str = "dynamo-operator.metricsService.secure=false";

fn name(program: &str) -> String {
    format!("rel-dynamo-operator-{program}")
}

/// Whether a role has each of the rights to review clients, or none.
fn reviews(role: &Value) -> bool {
    let rules = role["rules"].as_array().unwrap();
    let has = |access: &access::Access| {
        let grants = |rule: &Value| {
            let resources = rule["resources"].as_array().unwrap();
            rule["apiGroups"] == json!([access.group]) && resources.contains(&json!(access.resource))
        };
        rules.iter().any(|rule| grants(rule) && rule["verbs"] == json!(["create"]))
    };
    let found: Vec<bool> = access::METRICS.iter().map(has).collect();
    assert!(found.iter().all(|has| *has == found[0]), "{role}");
    found[0]
}

fn config(objects: &[Value]) -> &str {
    find(objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].as_str().unwrap()
}

fn peers(objects: &[Value], program: &str) -> Value {
    find(objects, "NetworkPolicy", &name(program))["spec"]["ingress"][0]["from"].clone()
}

#[test]
fn metrics_need_a_token_or_are_closed_to_all_but_the_named_peers() {
    let installs = [
        (render(&[MONITORS]).unwrap(), "ClusterRole", PROGRAMS, true),
        (render(&[MONITORS, PLAIN]).unwrap(), "ClusterRole", PROGRAMS, false),
        (render(&[&RESTRICTED[..], &[MONITORS]].concat()).unwrap(), "Role", OF_NAMESPACE, false),
    ];
    for (objects, role, programs, secure) in installs {
        assert!(
            config(&objects).contains(&format!("server:\n  metrics:\n    secure: {secure}\n")),
            "{}",
            config(&objects)
        );
        for program in programs {
            assert_eq!(reviews(find(&objects, role, &name(program))), secure, "{program}");
            assert_eq!(peers(&objects, program).is_null(), secure, "{program}");
            let endpoint = &find(&objects, "ServiceMonitor", &name(program))["spec"]["endpoints"][0];
            let read_by = if secure {
                json!({
                    "port": "metrics", "path": "/metrics", "interval": "15s", "scheme": "https",
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                    "tlsConfig": { "insecureSkipVerify": true },
                })
            } else {
                json!({ "port": "metrics", "path": "/metrics", "interval": "15s" })
            };
            assert_eq!(endpoint, &read_by, "{program}");
        }
        let reader = "rel-dynamo-operator-metrics-reader";
        assert_eq!(names(&objects, "ClusterRole").contains(&reader), secure);
        if secure {
            let rules = &find(&objects, "ClusterRole", reader)["rules"];
            assert_eq!(rules, &json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]));
        }
    }
}

#[test]
fn an_install_for_one_namespace_reviews_no_tokens() {
    let secure = ["dynamo-operator.metricsService.secure=true"];
    let refused = render(&[&RESTRICTED[..], &secure].concat()).unwrap_err();
    assert!(refused.contains("no right to review tokens"), "{refused}");
    assert!(render(&secure).is_ok());
}

/// Programs read the setting when they start.
#[test]
fn pods_restart_when_the_setting_changes() {
    let (secure, plain) = (render(&[]).unwrap(), render(&[PLAIN]).unwrap());
    for program in PROGRAMS {
        let annotations = |objects: &[Value]| {
            find(objects, "Deployment", &name(program))["spec"]["template"]["metadata"]["annotations"].clone()
        };
        assert_ne!(annotations(&secure), annotations(&plain), "{program}");
    }
}

#[test]
fn the_webhook_server_verifies_clients_where_it_has_their_ca() {
    let pod = |values: &[&str]| {
        let objects = render(values).unwrap();
        find(&objects, "Deployment", &name("webhook-server"))["spec"]["template"]["spec"].clone()
    };
    let (without, with) = (pod(&[]), pod(&["dynamo-operator.webhook.clientCAConfigMap=clients"]));
    assert!(!without.to_string().contains("client-ca"), "{without}");
    let arguments = with["containers"][0]["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--client-ca-file=/etc/dynamo-client-ca/ca.crt")), "{with}");
    let mounts = with["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = json!({ "name": "dynamo-client-ca", "mountPath": "/etc/dynamo-client-ca", "readOnly": true });
    assert!(mounts.contains(&mount), "{with}");
    let volumes = with["volumes"].as_array().unwrap();
    assert!(volumes.contains(&json!({ "name": "dynamo-client-ca", "configMap": { "name": "clients" } })), "{with}");
}
