//! Values of the Go operator's chart: each has its effect here, too, or is refused with what to use instead.

use std::collections::BTreeMap;

use repository::chart::platform;
use serde_json::{Value, json};

use super::{containers, find, render};

#[test]
fn values_that_have_another_name_here_are_refused_with_it() {
    for (value, name) in [
        ("nats.enabled=true", "global.nats.install"),
        ("etcd.enabled=false", "global.etcd.install"),
        ("grove.enabled=true", "global.grove.enabled"),
        ("kai-scheduler.enabled=true", "global.kai-scheduler.enabled"),
        ("dynamo-operator.webhook.enabled=true", "dynamo-operator.webhook-server.enabled"),
        ("nats.config.jetstream.fileStore.pvc.size=20Gi", "nats.persistence.size"),
        ("nats.config.jetstream.fileStore.pvc.storageClassName=fast", "nats.persistence.storageClassName"),
        ("nats.config.merge.max_payload=1", "nats.maxPayload"),
        ("nats.config.cluster.enabled=true", "dynamo-operator.natsAddr"),
        ("etcd.persistence.storageClass=fast", "etcd.persistence.storageClassName"),
        ("etcd.replicaCount=3", "dynamo-operator.etcdAddr"),
    ] {
        let rejection = render(&[value]).err().unwrap_or_else(|| panic!("{value} is accepted"));
        assert!(rejection.contains(&format!("use {name}")), "{value}: {rejection}");
    }
}

/// A user who keeps the whole `values.yaml` of the Go operator's chart, with one change, has to consider that change
/// only.
#[test]
fn its_defaults_are_taken() {
    let list = std::fs::read_to_string(platform().join("files/reference-values.yaml")).unwrap();
    let list: BTreeMap<String, Vec<Value>> = serde_saphyr::from_str(&list).unwrap();
    let mut values = vec!["global.nats.install=true".to_owned(), "global.etcd.install=true".to_owned()];
    for entry in &list["taken"] {
        let name = entry["value"].as_str().unwrap();
        match &entry["to"] {
            Value::Null if !name.contains('.') => values.push(format!("{name}.tolerations[0].key=x")),
            Value::Null => values.push(format!("{name}=anything")),
            to if to[0].is_null() => values.push(format!("{name}=")),
            to => values.push(format!("{name}={}", to[0].to_string().trim_matches('"'))),
        }
    }
    assert!(values.len() > 60, "{values:?}");
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    render(&values).unwrap();
}

#[test]
fn resources_and_ports_of_the_manager_are_those_of_its_programs() {
    let resources = "dynamo-operator.controllerManager.manager.resources";
    let memory = format!("{resources}.limits.memory=2Gi");
    let values = [
        memory.as_str(),
        "dynamo-operator.model-controller.resources.limits.memory=1Gi",
        "dynamo-operator.metricsService.ports[0].name=http-metrics",
        "dynamo-operator.metricsService.ports[0].port=9090",
        "dynamo-operator.metricsService.ports[0].targetPort=metrics",
        "dynamo-operator.metricsService.enabled=true",
    ];
    let objects = render(&values).unwrap();
    for (_, container) in containers(&objects) {
        let expected = if container["name"] == "model-controller" { "1Gi" } else { "2Gi" };
        assert_eq!(container["resources"]["limits"]["memory"], expected, "{}", container["name"]);
    }
    let ports = &find(&objects, "Service", "rel-dynamo-operator-model-controller-metrics")["spec"]["ports"];
    assert_eq!(ports, &json!([{ "name": "http-metrics", "port": 9090, "targetPort": "metrics" }]));
    let monitor = find(&objects, "ServiceMonitor", "rel-dynamo-operator-model-controller");
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], "http-metrics");
    let by_default = render(&[]).unwrap();
    let found: Vec<_> =
        containers(&by_default).map(|(_, container)| &container["resources"]["limits"]["memory"]).collect();
    assert!(found.iter().all(|memory| **memory == "512Mi"), "{found:?}");
}

#[test]
fn servers_for_development_keep_what_they_store_unless_values_turn_it_off() {
    for (keeps, value) in [(true, "true"), (false, "false")] {
        let values = [
            "global.nats.install=true".to_owned(),
            "global.etcd.install=true".to_owned(),
            format!("etcd.persistence.enabled={value}"),
            format!("nats.persistence.enabled={value}"),
        ];
        let objects = render(&values.each_ref().map(String::as_str)).unwrap();
        for name in ["rel-nats", "rel-etcd"] {
            let spec = &find(&objects, "StatefulSet", name)["spec"];
            let volumes = spec["template"]["spec"]["volumes"].as_array().cloned().unwrap_or_default();
            assert_eq!(spec["volumeClaimTemplates"].is_array(), keeps, "{name}");
            assert_eq!(volumes.iter().any(|volume| volume["emptyDir"].is_object()), !keeps, "{name}: {volumes:?}");
        }
    }
}

/// A name that is not spelled as it should be has no effect, and a wrong prefix makes an install for one namespace one
/// for all.
#[test]
fn unknown_values_are_rejected() {
    for value in [
        "dynamo-operator.upgradeCRDs=false",
        "dynamo-operator.namespaceRestriction.enable=true",
        "dynamo-operator.graph-controller.replica=2",
        "namespaceRestriction.enabled=true",
    ] {
        let rejection = render(&[value]).err().unwrap_or_else(|| panic!("{value} is accepted"));
        assert!(rejection.contains("additional properties"), "{value}: {rejection}");
    }
    render(&["global.another.chart=1"]).unwrap();
}

/// Unset, a provider switches the mesh on.
#[test]
fn the_service_mesh_is_off_where_it_is_said_to_be() {
    for (value, expected) in [
        ("false", "serviceMesh:\n  enabled: false\nrbac"),
        ("null", "serviceMesh:\n  provider: \"istio\"\n  istio:\n    tlsMode: SIMPLE\n"),
        ("true", "serviceMesh:\n  enabled: true\n  provider: \"istio\"\n"),
    ] {
        let objects = render(&[&format!("dynamo-operator.dynamo.serviceMesh.enabled={value}")]).unwrap();
        let config = find(&objects, "ConfigMap", "rel-dynamo-operator-config")["data"]["config.yaml"].as_str().unwrap();
        assert!(config.contains(expected), "{value}: {config}");
    }
}
