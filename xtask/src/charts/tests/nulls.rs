//! Values that are null, which Helm takes away before templates see them.

use std::collections::BTreeSet;

use repository::chart::platform;
use serde_json::{Value, json};

use super::{WITH_WEBHOOKS, find, render};
use crate::charts::values;

/// Settings that make templates read values that they otherwise ignore.
const EVERYTHING: [&str; 22] = [
    "global.nats.install=true",
    "global.etcd.install=true",
    "dynamo-operator.checkpoint.enabled=true",
    "dynamo-operator.component-controller.imageBuilds.registry.secretName=a",
    "dynamo-operator.component-controller.networkPolicy.enabled=true",
    "dynamo-operator.controllerManager.replicas=2",
    "dynamo-operator.dynamo.dockerRegistry.server=a",
    "dynamo-operator.dynamo.dockerRegistry.useKubernetesSecret=true",
    "dynamo-operator.dynamo.ingress.enabled=true",
    "dynamo-operator.dynamo.istio.enabled=true",
    "dynamo-operator.dynamo.istio.gateway=a",
    "dynamo-operator.dynamo.metrics.podMonitors.enabled=true",
    "dynamo-operator.dynamo.serviceMesh.enabled=true",
    "dynamo-operator.gpuDiscovery.enabled=true",
    "dynamo-operator.graph-controller.infrastructure.secretName=a",
    "dynamo-operator.graph-controller.networkPolicy.enabled=true",
    "dynamo-operator.metricsService.enabled=true",
    "dynamo-operator.model-controller.networkPolicy.enabled=true",
    "dynamo-operator.namespaceRestriction.clusterReads=true",
    "dynamo-operator.planner.powerAwareness.enabled=true",
    "dynamo-operator.webhook-server.networkPolicy.enabled=true",
    "dynamo-operator.webhook.certManager.enabled=true",
];

/// Renders an install in which these values are null.
fn with_null(install: &[&str], keys: &BTreeSet<String>) -> Vec<Value> {
    let nulls: Vec<String> = keys.iter().map(|key| format!("{key}=null")).collect();
    let values: Vec<&str> = install.iter().copied().chain(nulls.iter().map(String::as_str)).collect();
    let objects = render(&values).unwrap_or_else(|error| panic!("{keys:?}: {error}"));
    let text = json!(objects).to_string();
    let blank = ["<nil>", "<no value>", "%!"].into_iter().find(|blank| text.contains(blank));
    assert_eq!(blank, None, "{keys:?}: {text}");
    let config = find(&objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].clone();
    let (_, warnings) = controller_kit::settings::parse(config.as_str().unwrap()).unwrap();
    assert!(warnings.is_empty(), "{keys:?}: {warnings:?}");
    objects
}

/// A switch that Helm itself looks at, and refuses to be null.
const SWITCH: &str = "dynamo-operator.enabled";

/// Maps in the values, and values, that many names deep. Charts are none of them: Helm refuses null there.
fn keys(depth: usize) -> BTreeSet<String> {
    let charts = values::prefixes(&platform()).unwrap();
    let all = values::defaults(&platform()).unwrap();
    let names = all.iter().filter_map(|(name, _)| {
        let parts: Vec<&str> = name.split('.').take(depth).collect();
        (parts.len() == depth).then(|| parts.join("."))
    });
    names.filter(|name| !charts.contains(name) && name != SWITCH).collect()
}

/// Of an install that sets a value, neither this value nor a map around it.
fn not_set_by(keys: BTreeSet<String>, install: &[&str]) -> BTreeSet<String> {
    let sets = |key: &str| {
        install.iter().any(|value| value.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', '='])))
    };
    keys.into_iter().filter(|key| !sets(key)).collect()
}

#[test]
fn any_value_and_any_map_of_values_may_be_null() {
    let cluster_wide = [&EVERYTHING[..], &["global.kai-scheduler.enabled=true"]].concat();
    let restricted =
        [&EVERYTHING[..], &WITH_WEBHOOKS, &["dynamo-operator.lease-scope.networkPolicy.enabled=true"]].concat();
    let deepest = (1..).take_while(|depth| !keys(*depth).is_empty()).last().unwrap();
    assert!(deepest > 4, "{deepest}");
    for install in [&cluster_wide, &restricted] {
        for depth in 1..=deepest {
            with_null(install, &not_set_by(keys(depth), install));
        }
    }
    // What turns something on, and the maps around it.
    for depth in 1..=deepest {
        with_null(&[], &keys(depth));
    }
}

#[test]
fn null_is_what_is_not_set() {
    // Null has a meaning of its own.
    let own = ["dynamo-operator.dynamo.ingress.tlsSecretName", "dynamo-operator.dynamo.serviceMesh.enabled", SWITCH];
    let all = values::defaults(&platform()).unwrap();
    let scalars = all
        .into_iter()
        .filter(|(name, default)| !default.is_array() && !default.is_object() && !own.contains(&name.as_str()));
    assert_eq!(with_null(&[], &scalars.map(|(name, _)| name).collect()), render(&[]).unwrap());
}

#[test]
fn a_list_or_a_map_that_is_null_is_empty() {
    let manager = "dynamo-operator.controllerManager.manager";
    let keys = [
        format!("{manager}.resources"),
        format!("{manager}.containerSecurityContext"),
        "dynamo-operator.metricsService.labels".to_owned(),
        "dynamo-operator.metricsService.ports".to_owned(),
    ];
    let objects = with_null(&["dynamo-operator.metricsService.enabled=true"], &keys.into());
    let container = &find(&objects, "Deployment", "rel-dynamo-operator-model-controller")["spec"]["template"]["spec"]["containers"]
        [0];
    assert_eq!((&container["resources"], &container["securityContext"]), (&json!({}), &json!({})));
    let metrics = objects
        .iter()
        .filter(|object| object["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-metrics")));
    assert_eq!(metrics.count(), 0, "a Service has ports");
}
