//! Defects of the Go operator's chart, which this one must not have.

use std::{fs, path::Path};

use controller_kit::settings::{self, OperatorConfiguration};
use repository::root;
use serde_json::{Value, json};

use super::tests::{RESTRICTED, containers, find, names, render};

fn configuration(objects: &[Value]) -> OperatorConfiguration {
    let file = &find(objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"];
    settings::parse(file.as_str().unwrap()).unwrap().0
}

/// In the reference, a `false` by default switches off what the operator would find by itself.
#[test]
fn what_is_not_set_is_the_default_of_the_programs() {
    let mut given = configuration(&render(&[]).unwrap());
    let by_itself = OperatorConfiguration::default().orchestrators;
    // What the chart says of its own accord; see below.
    given.orchestrators.grove.termination_delay = by_itself.grove.termination_delay;
    assert_eq!(given.orchestrators, by_itself);
    assert_eq!(given.orchestrators.grove.enabled, None, "Grove is found by itself");
    assert_eq!(given.orchestrators.kai_scheduler.enabled, None, "and so is the KAI scheduler");
}

/// In the reference, the chart ships four hours, and without the value the code takes fifteen minutes. Running
/// graphs have what the chart ships: another delay would rewrite the PodCliqueSet of each of them on takeover.
#[test]
fn the_configuration_always_says_how_long_grove_waits() {
    let delay = "dynamo-operator.dynamo.groveTerminationDelay";
    for (values, expected) in [(vec![], "4h0m0s"), (vec![format!("{delay}=15m")], "15m0s")] {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let objects = render(&values).unwrap();
        let text = find(&objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].to_string();
        assert!(text.contains("terminationDelay: "), "{text}");
        let given = configuration(&objects).orchestrators.grove.termination_delay;
        assert_eq!(given.to_string(), expected, "{values:?}");
    }
}

/// In the reference, no program reads a variable and some values.
#[test]
fn every_variable_that_the_chart_sets_is_read_by_a_program() {
    let mut sources = String::new();
    collect(&root().join("crates"), &mut sources);
    let values = ["dynamo-operator.component-controller.imageBuilds.engine=buildkit"];
    for (_, container) in containers(&render(&values).unwrap()) {
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().unwrap();
            assert!(sources.contains(&format!("\"{name}\"")), "no program reads {name} of {}", container["name"]);
        }
    }
}

fn collect(dir: &Path, sources: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            sources.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// In the reference, addresses end with `cluster.local` whatever the domain of the cluster is.
#[test]
fn the_domain_of_the_cluster_is_in_every_address() {
    let values = [
        "dynamo-operator.kubernetesClusterDomain=k8s.example",
        "dynamo-operator.webhook.certManager.enabled=true",
        "global.nats.install=true",
        "global.etcd.install=true",
    ];
    let objects = render(&values).unwrap();
    assert_eq!(configuration(&objects).dns.cluster_domain, "k8s.example");
    let given = configuration(&objects).infrastructure;
    assert!(given.nats_address.contains(".svc.k8s.example:"), "{}", given.nats_address);
    assert!(given.etcd_address.contains(".svc.k8s.example:"), "{}", given.etcd_address);
    assert!(!json!(objects).to_string().contains("cluster.local"));
}

/// In the reference, the manager may do everything.
#[test]
fn no_role_is_for_everything() {
    for values in [&[][..], &RESTRICTED, &["dynamo-operator.imagePullSecretDiscovery.enabled=true"]] {
        let objects = render(values).unwrap();
        let roles = objects.iter().filter(|o| o["kind"] == "ClusterRole" || o["kind"] == "Role");
        for role in roles {
            for rule in role["rules"].as_array().unwrap() {
                for part in ["apiGroups", "resources", "verbs"] {
                    let everything = rule[part].as_array().into_iter().flatten().any(|word| word == "*");
                    assert!(!everything, "{} has {rule}", role["metadata"]["name"]);
                }
            }
        }
    }
}

/// In the reference, one replica answers the API server, and nothing can be written while it is away.
#[test]
fn more_than_one_replica_answers_the_api_server() {
    let objects = render(&[]).unwrap();
    let name = "rel-dynamo-operator-webhook-server";
    let replicas = find(&objects, "Deployment", name)["spec"]["replicas"].as_u64().unwrap();
    assert!(replicas >= 2, "{replicas}");
    assert!(names(&objects, "PodDisruptionBudget").contains(&name));
}
