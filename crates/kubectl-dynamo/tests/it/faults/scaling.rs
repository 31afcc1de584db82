//! Scaling adapters.

use std::time::Duration;

use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use test_cluster::wait;

use super::{
    fault::{Fault, Step, fault},
    harness::{LIMIT, Team},
};

const SECOND: &str = "DynamoGraphDeploymentScalingAdapter/second";
const TOO_MANY: &str = "one worker is enough";

/// An adapter of the user for a component of the graph.
fn second(component: &str) -> Value {
    json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": { "name": "second", "namespace": "NAMESPACE" },
        "spec": { "replicas": 1, "dgdRef": { "name": "chat", "componentName": component } } })
}

fn scaled(graph: &mut Value) {
    graph["spec"]["components"][0]["scalingAdapter"] = json!({});
}

/// A policy that allows graphs one replica of each component.
fn policy() -> Value {
    json!([
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": "NAMESPACE" },
            "spec": {
                "matchConstraints": { "resourceRules": [{ "apiGroups": ["nvidia.com"], "apiVersions": ["*"],
                    "operations": ["UPDATE"], "resources": ["dynamographdeployments"] }] },
                "validations": [{ "message": TOO_MANY,
                    "expression": "object.spec.components.all(c, !has(c.replicas) || c.replicas < 2)" }],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": "NAMESPACE" },
            "spec": { "policyName": "NAMESPACE", "validationActions": ["Deny"], "matchResources": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "NAMESPACE" } } } },
        },
    ])
}

/// Waits until the policy counts.
async fn until_limited(team: &Team<'_>) {
    let operation = json!([{ "op": "add", "path": "/spec/components/0/replicas", "value": 2 }]);
    let patch = Patch::Json::<()>(serde_json::from_value(operation).unwrap());
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let look = async || match team.api::<DynamoGraphDeployment>().patch("chat", &params, &patch).await {
        Err(error) if error.to_string().contains(TOO_MANY) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("it is accepted".to_owned()),
    };
    wait::until("a graph to be rejected", LIMIT, look).await.unwrap();
}

/// Scales by the adapter that the controller has made.
async fn scale(team: &Team<'_>) {
    let adapters = team.api::<DynamoGraphDeploymentScalingAdapter>();
    let patch = Patch::Merge(json!({ "spec": { "replicas": 3 } }));
    let scale = async || adapters.patch("chat-decode", &PatchParams::default(), &patch).await.map(drop);
    wait::until("the adapter to be there", Duration::from_secs(30), scale).await.unwrap();
}

pub fn rows() -> Vec<Fault> {
    vec![
        fault("scaling adapter without a component", "an adapter for a component that the graph does not have")
            .apply(second("prefill"))
            .is("AdapterWithoutComponent", SECOND, "has no component prefill", "correct spec.dgdRef.componentName"),
        fault("component without scalingAdapter", "an adapter for a component that keeps its own replicas")
            .apply(second("decode"))
            .is("AdapterWithoutComponent", SECOND, "has no scalingAdapter", "set scalingAdapter of the component"),
        fault("two scaling adapters", "a second adapter for a component that has one")
            .graph(scaled)
            .apply(second("decode"))
            .is("AnotherAdapterScales", SECOND, "is scaled by", "delete one of the two"),
        fault("scaling rejected", "a policy against more than one worker, and an adapter of three replicas")
            .graph(scaled)
            .apply(policy())
            .step(Step::Do(|team| Box::pin(until_limited(team))))
            .step(Step::Do(|team| Box::pin(scale(team))))
            .is("PolicyDenied", "DynamoGraphDeploymentScalingAdapter/chat-decode", TOO_MANY, "the policy"),
    ]
}
