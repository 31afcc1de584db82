//! Programs are upgraded, configured and disabled alone: pods of the others stay as they are.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{RESTRICTED, find, render};

/// Pod templates of the programs, by the program's name.
fn templates(values: &[&str]) -> BTreeMap<String, Value> {
    let objects = render(values).unwrap();
    let deployments = objects.iter().filter(|o| o["kind"] == "Deployment");
    let named = deployments.map(|o| {
        let name = o["metadata"]["name"].as_str().unwrap().trim_start_matches("rel-dynamo-operator-");
        (name.to_owned(), o["spec"]["template"].clone())
    });
    named.collect()
}

/// Programs whose pods another value restarts.
fn restarted(value: &str) -> Vec<String> {
    let (before, mut after) = (templates(&[]), templates(&[value]));
    assert_eq!(before.len(), 5);
    let changed = before.into_iter().filter(|(name, template)| after.remove(name).as_ref() != Some(template));
    changed.map(|(name, _)| name).collect()
}

#[test]
fn another_version_of_the_chart_restarts_no_pod_by_itself() {
    for values in [&[][..], &RESTRICTED] {
        for (name, template) in templates(values) {
            let labels = template["metadata"]["labels"].as_object().unwrap();
            assert!(!labels.contains_key("helm.sh/chart"), "{name}");
            assert!(!labels.contains_key("app.kubernetes.io/version"), "{name}");
        }
    }
}

#[test]
fn a_program_is_upgraded_configured_and_disabled_alone() {
    for program in ["graph-controller", "component-controller", "model-controller", "webhook-server"] {
        for setting in ["image.tag=2.0.0", "args={--log-level=debug}", "resources.limits.memory=1Gi", "enabled=false"] {
            assert_eq!(restarted(&format!("dynamo-operator.{program}.{setting}")), [program], "{setting}");
        }
    }
    assert_eq!(restarted("dynamo-operator.crds.image.tag=2.0.0"), ["crds"]);
    assert_eq!(restarted("dynamo-operator.graph-controller.infrastructure.secretName=s"), ["graph-controller"]);
}

const CONTROLLERS: [&str; 3] = ["component-controller", "graph-controller", "model-controller"];

#[test]
fn a_setting_restarts_the_programs_that_read_it() {
    for (value, programs) in [
        ("dynamo-operator.dynamo.ingressHostSuffix=example.com", &["component-controller", "graph-controller"][..]),
        ("dynamo-operator.natsAddr=nats://x:4222", &["component-controller", "graph-controller"]),
        ("dynamo-operator.discoveryBackend=etcd", &["component-controller", "graph-controller", "webhook-server"]),
        ("dynamo-operator.webhook.certificateSecret.name=other", &["webhook-server"]),
        ("dynamo-operator.dynamo.metrics.prometheusEndpoint=http://p", &["component-controller", "graph-controller"]),
        ("dynamo-operator.notifications.receivers[0].name=a", &CONTROLLERS),
        ("dynamo-operator.notifications.secretName=a", &CONTROLLERS),
    ] {
        assert_eq!(restarted(value), programs, "{value}");
    }
}

/// The holder of the marker says which version runs.
#[test]
fn the_marker_names_the_version_that_runs() {
    for (tag, version) in [(None, "0.1.0"), (Some("v2.0.0-beta"), "v2.0.0-beta")] {
        let tag = tag.map(|tag| format!("dynamo-operator.controllerManager.manager.image.tag={tag}"));
        let values: Vec<&str> = RESTRICTED.into_iter().chain(tag.as_deref()).collect();
        let objects = render(&values).unwrap();
        let program = find(&objects, "Deployment", "rel-dynamo-operator-lease-scope");
        let args = program["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        assert!(args.contains(&format!("--operator-version={version}").into()), "{args:?}");
    }
}
