//! Scaling adapters without effect, and the conversion webhook.

use serde_json::json;

use super::{Row, fixtures::warn, row};
use crate::diagnosis::{DiagnosisInputs, Program};

const KIND: &str = "DynamoGraphDeploymentScalingAdapter";

/// Adds an adapter for a component of the graph.
fn adapter(observed: &mut DiagnosisInputs, name: &str, component: &str, replicas: i32) {
    let adapter = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": KIND, "metadata": { "name": name, "namespace": "team" },
        "spec": { "replicas": replicas, "dgdRef": { "name": "chat", "componentName": component } },
    });
    observed.adapters.push(serde_json::from_value(adapter).unwrap());
}

/// The decode component has an adapter.
fn scaled(observed: &mut DiagnosisInputs, replicas: i32) {
    let graph = observed.graph.as_mut().unwrap();
    graph.spec.components[1].scaling_adapter = Some(Default::default());
    adapter(observed, "chat-decode", "decode", replicas);
}

/// The rows.
pub fn rows() -> Vec<Row> {
    vec![
        row(
            "scaling adapter without a component",
            |o| adapter(o, "second", "prefill", 1),
            "AdapterWithoutComponent",
            "DynamoGraphDeploymentScalingAdapter/second",
            "componentName",
        ),
        row(
            "scaling adapter of a component that has none",
            |o| adapter(o, "second", "decode", 1),
            "AdapterWithoutComponent",
            "DynamoGraphDeploymentScalingAdapter/second",
            "set scalingAdapter",
        ),
        row(
            "two scaling adapters",
            |o| {
                scaled(o, 1);
                adapter(o, "second", "decode", 3);
            },
            "AnotherAdapterScales",
            "DynamoGraphDeploymentScalingAdapter/second",
            "delete one of the two",
        ),
        row(
            "scaling rejected by a webhook",
            |o| {
                scaled(o, 3);
                let message = "component decode cannot go from 1 to 3 replicas: admission webhook \"cost.example.com\" \
                               denied the request: too many";
                warn(o, KIND, "chat-decode", "UpdateFailed", message);
            },
            "PolicyDenied",
            "DynamoGraphDeploymentScalingAdapter/chat-decode",
            "the policy",
        ),
        row(
            "scaling rejected in unknown words",
            |o| {
                scaled(o, 3);
                warn(o, KIND, "chat-decode", "UpdateFailed", "component decode cannot go from 1 to 3 replicas: no");
            },
            "ScalingRejected",
            "DynamoGraphDeploymentScalingAdapter/chat-decode",
            "change the replicas",
        ),
        row(
            "conversion webhook unreachable",
            |o| {
                let message = "DynamoComponentDeployments: conversion webhook for nvidia.com/v1alpha1, \
                               Kind=DynamoComponentDeployment failed: connection refused";
                o.not_read.push(message.to_owned());
                let program = |name: &str| Program { name: name.to_owned(), desired: 1, ..Program::default() };
                o.programs = Some(vec![program("webhook-server")]);
            },
            "ConversionDown",
            "DynamoGraphDeployment/chat",
            "webhook server",
        ),
    ]
}

#[test]
fn an_adapter_that_scales_is_no_cause() {
    let mut observed = super::fixtures::graph();
    scaled(&mut observed, 1);
    warn(&mut observed, KIND, "chat-decode", "UpdateFailed", "of an earlier change");
    assert_eq!(crate::diagnosis::adapters::causes(&observed), Vec::new());
}
