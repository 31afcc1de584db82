//! Changes around a running server: namespaces that another operator takes over, APIs that are installed later.

use controller_kit::scope::{HOLDER_PREFIX, MARKER_LEASE};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use test_cluster::{TestNamespace, wait};

use crate::{
    common::{LIMIT, graphs},
    harness, namespace,
};

/// The mark of another operator on a namespace.
pub struct Mark(Api<Lease>);

impl Mark {
    pub async fn set(namespace: &TestNamespace) -> Self {
        let leases = Api::namespaced(namespace.client(), namespace.name());
        // Far in the past: its validity depends on when it was seen, not on clocks.
        let marker = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": MARKER_LEASE },
            "spec": {
                "holderIdentity": format!("{HOLDER_PREFIX}1.5.0"), "leaseDurationSeconds": 3600,
                "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z",
            },
        });
        leases.patch(MARKER_LEASE, &PatchParams::apply("another"), &Patch::Apply(&marker)).await.unwrap();
        Self(leases)
    }

    pub async fn remove(self) {
        self.0.delete(MARKER_LEASE, &DeleteParams::default()).await.unwrap();
    }
}

/// Returns the server's answer to a graph of these components; nothing is stored.
async fn admission(namespace: &TestNamespace, components: &Value) -> Result<(), String> {
    let (api, mut graph): (Api<DynamicObject>, _) = graphs(namespace.client(), namespace.name(), "v1beta1");
    graph.metadata.name = Some("chat".to_owned());
    graph.data = json!({ "spec": { "components": components } });
    let params = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&params, &graph).await.map(drop).map_err(|error| error.to_string())
}

fn component(kind: &str, tag: &str) -> Value {
    let main = json!({ "name": "main", "image": format!("nvcr.io/nvidia/ai-dynamo/vllm-runtime:{tag}") });
    json!({ "name": "c", "type": kind, "podTemplate": { "spec": { "containers": [main] } } })
}

/// The settings of the operator of that namespace are its own: what only they forbid is left to it. What no install
/// admits is refused there, too: users of the namespace can write such a mark. Conversion stays with the install of the
/// cluster.
#[tokio::test]
async fn a_mark_on_a_namespace_switches_off_settings_and_no_rules() {
    let namespace = namespace("marked").await;
    let wrong = json!([component("worker", "no-version")]);
    let mut captured = component("worker", "1.5.0");
    captured["experimental"] = json!({ "checkpoint": { "enabled": true } });
    let captured = json!([captured]);
    let refused = admission(&namespace, &captured).await.unwrap_err();
    assert!(refused.contains("checkpoint"), "{refused}");
    assert!(admission(&namespace, &wrong).await.unwrap_err().contains("runtimeVersionOverride"));

    let mark = Mark::set(&namespace).await;
    let judged = wait::until("the settings to be skipped", LIMIT, async || admission(&namespace, &captured).await);
    judged.await.unwrap();
    let refused = admission(&namespace, &wrong).await.unwrap_err();
    assert!(refused.contains("runtimeVersionOverride"), "{refused}");
    let (alpha, mut graph) = graphs(namespace.client(), namespace.name(), "v1alpha1");
    graph.metadata.name = Some("converted".to_owned());
    graph.data = json!({ "spec": { "services": { "c": {
        "componentType": "worker", "extraPodSpec": { "mainContainer": { "image": "nvcr.io/vllm-runtime:1.5.0" } },
    } } } });
    let created = alpha.create(&PostParams::default(), &graph).await.unwrap();
    assert_eq!(created.data["spec"]["services"]["c"].get("replicas"), None, "defaults are left to the other operator");

    mark.remove().await;
    let back = async || admission(&namespace, &captured).await.err();
    wait::until("the settings to count again", LIMIT, back).await.unwrap();
}

#[tokio::test]
async fn an_api_that_is_installed_later_can_be_used_without_a_restart() {
    let namespace = namespace("later").await;
    let mut picker = component("epp", "1.5.0");
    picker["eppConfig"] = json!({ "configMapRef": { "name": "epp", "key": "config" } });
    let graph =
        json!([picker, { "name": "w", "type": "worker", "podTemplate": component("worker", "1.5.0")["podTemplate"] }]);
    let error = admission(&namespace, &graph).await.unwrap_err();
    assert!(error.contains("inference.networking.k8s.io"), "{error}");
    let pools = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "inferencepools.inference.networking.k8s.io",
            "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" },
        },
        "spec": {
            "group": "inference.networking.k8s.io", "scope": "Namespaced",
            "names": { "plural": "inferencepools", "singular": "inferencepool", "kind": "InferencePool" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    harness().await.install.cluster.apply(&[pools]).await.unwrap();
    wait::until("the graph to be admitted", LIMIT, async || admission(&namespace, &graph).await).await.unwrap();
}
