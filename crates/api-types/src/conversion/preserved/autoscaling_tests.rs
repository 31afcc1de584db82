//! Tests of the preserved autoscaling.

use serde_json::{Value, json};

use super::*;
use crate::conversion::{ApiVersion, convert};

fn kept(kind: &str, spec: &Value) -> Value {
    let object = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    let beta = convert(object.clone(), ApiVersion::V1Beta1).unwrap();
    assert_eq!(convert(beta.clone(), ApiVersion::V1Alpha1).unwrap(), object, "comes back");
    beta
}

fn annotations(beta: &Value) -> Texts {
    serde_json::from_value(beta["metadata"]["annotations"].clone()).unwrap_or_default()
}

fn rules() -> Value {
    let metric = |target: Value| json!({ "type": "Pods", "pods": { "metric": { "name": "queue" }, "target": target } });
    json!({ "enabled": true, "minReplicas": 2, "maxReplicas": 5,
        "behavior": { "scaleDown": { "stabilizationWindowSeconds": 60,
            "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 60 }] } },
        "metrics": [metric(json!({ "type": "AverageValue", "averageValue": "30" })),
            metric(json!({ "type": "AverageValue", "averageValue": 30 })),
            metric(json!({ "type": "AverageValue", "averageValue": 0.5 }))] })
}

#[test]
fn rules_are_read_from_graphs_and_components_and_only_if_they_are_enabled() {
    let service = |autoscaling: Value| json!({ "componentType": "worker", "autoscaling": autoscaling });
    let mut off = rules();
    off["enabled"] = json!(false);
    let mut silent = rules();
    silent.as_object_mut().unwrap().remove("enabled");
    let services = json!({ "On": service(rules()), "Off": service(off), "Silent": service(silent),
        "Plain": { "componentType": "worker" } });
    let graph = kept(GRAPH, &json!({ "services": services }));
    let all = PreservedAutoscaling::of_graph(&annotations(&graph));
    assert_eq!(all.keys().collect::<Vec<_>>(), ["On"]);
    let on = &all["On"];
    assert_eq!((on.min_replicas, on.max_replicas, on.behavior.is_some()), (Some(2), 5, true));
    let values: Vec<_> = on.metrics.iter().flatten().map(|metric| serde_json::to_value(metric).unwrap()).collect();
    let value = |at: usize| values[at]["pods"]["target"]["averageValue"].clone();
    assert_eq!([value(0), value(1), value(2)], [json!("30"), json!("30"), json!("0.5")]);

    let component = annotations(&kept(COMPONENT_DEPLOYMENT, &service(rules())));
    assert_eq!(PreservedAutoscaling::of_component_deployment(&component).as_ref(), Some(on));
    assert_eq!(PreservedAutoscaling::of_component_deployment(&Texts::new()), None);

    let mut graph: DynamoGraphDeployment = serde_json::from_value(graph).unwrap();
    add_implied_adapters(&mut graph);
    let adapted = graph.spec.components.iter().filter(|component| component.scaling_adapter.is_some());
    assert_eq!(adapted.map(|component| component.name.as_str()).collect::<Vec<_>>(), ["On"]);
}
