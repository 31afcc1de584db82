//! Rejections by the API server, which block only the objects that need the rejected one.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use api_types::{
    grove::{PodCliqueScalingGroup, PodCliqueSet},
    names,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use controller_kit::{
    apply::Applier,
    failure::Class,
    metrics::Metrics,
    store::{Packed, Store},
};
use graph_controller::{NAME, graph::apply::write_binding};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{ResourceQuota, ServiceAccount},
    networking::v1::Ingress,
    rbac::v1::RoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
    runtime::watcher::Event,
};
use serde_json::{Value, json};
use test_cluster::{
    assets::{Assets, Tool},
    wait,
};

use crate::{
    grove::{DECODE, make_children, serve, served, spanning, until_set},
    harness::{Harness, LIMIT, condition, graph, is_ready},
};

impl Harness {
    /// Allows none of these objects in the namespace, and waits until that counts.
    async fn allow_no(&self, kind: &str) {
        let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": { format!("count/{kind}"): "0" } } });
        let quotas = self.api::<ResourceQuota>();
        quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
        let counts = |quota: &ResourceQuota| quota.status.as_ref().is_some_and(|status| status.used.is_some());
        self.until("none", "counting", counts).await;
    }

    /// Lets the API server call a webhook that does not answer before it takes objects of a kind in this namespace.
    async fn hang_webhook_on(&self, group: &str, plural: &str) {
        let name = format!("{}.example.com", self.namespace);
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": name },
            "webhooks": [{
                "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
                "timeoutSeconds": 2,
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": self.namespace } },
                "clientConfig": { "service": { "namespace": self.namespace, "name": "no-server" } },
                "rules": [{ "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                    "resources": [plural] }],
            }],
        });
        self.access().await.apply(&[configuration]).await.unwrap();
    }

    async fn remove_webhook(&self) {
        let all: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        all.delete(&format!("{}.example.com", self.namespace), &DeleteParams::default()).await.unwrap();
    }

    /// Waits until `Reconciling` has this reason and these words, at the graph's generation.
    async fn until_reported(&self, name: &str, reason: &str, words: &str) -> DynamoGraphDeployment {
        let reported = |graph: &DynamoGraphDeployment| {
            let observed = graph.status.as_ref().and_then(|status| status.observed_generation);
            let says = |type_, status| condition(graph, type_, status).is_some_and(|c| c.message.contains(words));
            let working = condition(graph, "Reconciling", "True").is_some_and(|c| c.reason == reason);
            working && says("Reconciling", "True") && says("Ready", "False") && observed == graph.metadata.generation
        };
        self.until(name, reason, reported).await
    }

    async fn scale_decode(&self, expected: i32) {
        let mut scaled = spanning();
        scaled["spec"]["components"][1]["replicas"] = json!(expected);
        self.apply(&scaled).await;
    }
}

/// Found defect: the set came after everything else, and was never written.
#[tokio::test]
async fn a_refused_ingress_holds_up_neither_the_set_nor_its_scaling() {
    let Some(harness) = Harness::on_grove("refused-ingress").await else { return };
    harness.allow_no("ingresses.networking.k8s.io").await;
    harness.start();
    harness.apply(&spanning()).await;
    harness.until_reported("chat", "Forbidden", "exceeded quota: none").await;
    let set = until_set(&harness, "made", |_| true).await;
    make_children(&harness, &set).await;
    harness.scale_decode(3).await;
    harness.until(DECODE, "scaled", |group: &PodCliqueScalingGroup| group.spec.replicas == 3).await;
    serve(&harness).await;
    let counted = |graph: &DynamoGraphDeployment| {
        graph.status.as_ref().and_then(|status| status.components.get("Decode")).is_some_and(|c| c.replicas == 3)
    };
    harness.until("chat", "counted", counted).await;
    harness.until_reported("chat", "Forbidden", "exceeded quota: none").await;
    harness.api::<ResourceQuota>().delete("none", &DeleteParams::default()).await.unwrap();
    harness.until("chat", "ready", is_ready).await;
}

/// Found defect: a webhook that does not answer was taken for an API server that is away, and the status said nothing.
#[tokio::test]
async fn a_webhook_that_does_not_answer_is_reported_at_once_and_retried_every_15_seconds() {
    let Some(harness) = Harness::on_grove("webhook").await else { return };
    harness.hang_webhook_on("networking.k8s.io", "ingresses").await;
    harness.start();
    harness.apply(&spanning()).await;
    let reported = harness.until_reported("chat", "WebhookUnavailable", "failed calling webhook").await;
    assert!(condition(&reported, "Stalled", "True").is_none());
    until_set(&harness, "made", |_| true).await;
    harness.remove_webhook().await;
    harness.until("chat-frontend", "made", |_: &Ingress| true).await;
}

/// Found defect: the scale of what Grove had made came after the set, which Grove's webhook refused or did not answer
/// for.
#[tokio::test]
async fn live_cliques_are_scaled_while_the_set_cannot_be_written() {
    let Some(harness) = Harness::on_grove("webhook-set").await else { return };
    harness.start();
    let set = served(&harness).await;
    harness.hang_webhook_on("grove.io", "podcliquesets").await;
    let mut changed = spanning();
    let decode = &mut changed["spec"]["components"][1];
    decode["replicas"] = json!(2);
    decode["podTemplate"]["spec"]["containers"][0]["image"] = json!("registry.example.com/other:1.6.0");
    harness.apply(&changed).await;
    harness.until(DECODE, "scaled", |group: &PodCliqueScalingGroup| group.spec.replicas == 2).await;
    harness.until_reported("chat", "WebhookUnavailable", "PodCliqueSet").await;
    assert_eq!(harness.api::<PodCliqueSet>().get("chat").await.unwrap().metadata.generation, set.metadata.generation);
    harness.remove_webhook().await;
    until_set(&harness, "changed", |now| now.metadata.generation > set.metadata.generation).await;
}

/// Found defect: old revisions never shrank, and removed components stayed.
#[tokio::test]
async fn refused_rights_hold_up_no_rollout_and_no_removal() {
    let harness = Harness::new("refused-role").await;
    let three = |image: &str| {
        graph("chat", |g| {
            let mut more = g["spec"]["components"][0].clone();
            more["name"] = json!("More");
            more.as_object_mut().unwrap().remove("type");
            g["metadata"]["annotations"] = json!({ "nvidia.com/dynamo-discovery-backend": "kubernetes" });
            g["spec"]["components"].as_array_mut().unwrap().push(more);
            g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] = json!(image);
        })
    };
    harness.apply(&three("registry.example.com/decode:1.5.0")).await;
    harness.ready("chat").await;
    let old = harness.component("chat", "Decode").await;
    harness.allow_no("rolebindings.rbac.authorization.k8s.io").await;
    let binding = names::discovery_role_binding("chat");
    harness.api::<RoleBinding>().delete(&binding, &DeleteParams::default()).await.unwrap();
    let mut changed = three("registry.example.com/decode:1.6.0");
    changed["spec"]["components"].as_array_mut().unwrap().pop();
    harness.apply(&changed).await;
    let gone = |name: String| {
        let api = harness.api::<DynamoComponentDeployment>();
        async move { api.get_opt(&name).await.unwrap().is_none() }
    };
    let look = async || {
        for d in harness.components("chat").await {
            if d.status.as_ref().and_then(|status| status.observed_generation) != d.metadata.generation {
                harness.serve(&d).await;
            }
        }
        let (old, more) = (gone(old.metadata.name.clone().unwrap()).await, gone("chat-more".to_owned()).await);
        if old && more { Ok(()) } else { Err(format!("old gone: {old}, removed gone: {more}")) }
    };
    wait::until("the old revision and the removed component to be gone", LIMIT, look).await.unwrap();
    harness.until_reported("chat", "Forbidden", "exceeded quota: none").await;
}

/// The pods of components that run are not the worse for it; those of new ones would be refused.
#[tokio::test]
async fn without_its_account_no_new_component_is_made_and_live_ones_are_scaled() {
    let harness = Harness::new("refused-account").await;
    let expected = |replicas: i32, more: bool| {
        graph("chat", |g| {
            let mut other = g["spec"]["components"][0].clone();
            other["name"] = json!("More");
            other.as_object_mut().unwrap().remove("type");
            g["metadata"]["annotations"] = json!({ "nvidia.com/dynamo-discovery-backend": "kubernetes" });
            g["spec"]["components"][0]["replicas"] = json!(replicas);
            if more {
                g["spec"]["components"].as_array_mut().unwrap().push(other);
            }
        })
    };
    harness.apply(&expected(1, false)).await;
    harness.ready("chat").await;
    harness.allow_no("serviceaccounts").await;
    for account in harness.api::<ServiceAccount>().list(&Default::default()).await.unwrap() {
        let name = account.metadata.name.unwrap();
        if name.starts_with("chat") {
            harness.api::<ServiceAccount>().delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }
    harness.until_reported("chat", "Forbidden", "exceeded quota: none").await;
    harness.apply(&expected(3, true)).await;
    let scaled = |d: &DynamoComponentDeployment| d.spec.component.replicas == Some(3);
    harness.until("chat-frontend", "scaled", scaled).await;
    harness.until_reported("chat", "Forbidden", "exceeded quota: none").await;
    assert!(harness.api::<DynamoComponentDeployment>().get_opt("chat-more").await.unwrap().is_none());
    harness.api::<ResourceQuota>().delete("none", &DeleteParams::default()).await.unwrap();
    harness.until("chat-more", "made", |_: &DynamoComponentDeployment| true).await;
}

/// Found defect: without the right to bind the new role, the old binding was deleted and none came in its place.
#[tokio::test]
async fn a_binding_stays_until_the_one_in_its_place_may_be_made() {
    let harness = Harness::without_controller("binding", false).await;
    let roles = ["old", "new"].map(|role| format!("{}-{role}", harness.namespace));
    let role = |name: &String| {
        let rules = json!([{ "apiGroups": ["example.com"], "resources": ["others"], "verbs": ["get"] }]);
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name },
            "rules": rules })
    };
    harness.access().await.apply(&[role(&roles[0]), role(&roles[1])]).await.unwrap();
    let binding = |role: &str| -> RoleBinding {
        let labels = json!({ "app.kubernetes.io/managed-by": "dynamo-operator", "app.kubernetes.io/name": "pods" });
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
        serde_json::from_value(json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "pods", "namespace": harness.namespace, "labels": labels }, "roleRef": role,
            "subjects": [{ "kind": "ServiceAccount", "name": "pods", "namespace": harness.namespace }] }))
        .unwrap()
    };
    let old = harness.api::<RoleBinding>().create(&PostParams::default(), &binding(&roles[0])).await.unwrap();
    let store = Store::<Packed<RoleBinding>>::new();
    let live = Packed::from_value(serde_json::to_value(&old).unwrap()).unwrap();
    for event in [Event::Init, Event::InitApply(live), Event::InitDone] {
        store.handle(event);
    }
    let write = async |client, role: &str| {
        let applier = Applier::new(client, NAME, Metrics::new(), Vec::new());
        write_binding(&applier, "of-a-graph", &store, &binding(role)).await
    };
    let live = async || harness.api::<RoleBinding>().get("pods").await.unwrap();
    let refused = write(harness.client_of_controller(), &roles[1]).await.unwrap_err();
    assert_eq!(refused.class(), Class::Forbidden, "{refused}");
    let missing = write(harness.client_of_controller(), "there-is-none").await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert_eq!(live().await.metadata.uid, old.metadata.uid);
    harness.grant_binding(&roles[1]).await;
    write(harness.client_of_controller(), &roles[1]).await.unwrap();
    assert_eq!(live().await.role_ref.name, roles[1]);
}

/// Found defect: notes on the graph took `kubectl`'s own away, and fields that left the manifest stayed for ever.
#[tokio::test]
async fn client_side_apply_goes_on_working_beside_the_notes_on_a_graph() {
    let harness = Harness::new("kubectl").await;
    let kubeconfig = harness.access().await.kubeconfig();
    let apply = async |manifest: Value| {
        let mut command = Command::new(Assets::from_env().unwrap().find(Tool::Kubectl).unwrap());
        command.arg("--kubeconfig").arg(kubeconfig).args([
            "--namespace",
            &harness.namespace,
            "apply",
            "--filename",
            "-",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The controller runs in this thread.
        let run = move || {
            let mut running = command.spawn().unwrap();
            running.stdin.take().unwrap().write_all(manifest.to_string().as_bytes()).unwrap();
            running.wait_with_output().unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !text.contains("Warning"), "{text}");
    };
    let manifest = |image: &str, more: bool| {
        graph("chat", |g| {
            g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] = json!(image);
            if more {
                g["metadata"]["labels"] = json!({ "team": "a" });
                g["spec"]["env"] = json!([{ "name": "A", "value": "1" }]);
            }
        })
    };
    let noted = async || {
        let reported = |g: &DynamoGraphDeployment| {
            let notes = g.metadata.annotations.clone().unwrap_or_default();
            notes.contains_key("nvidia.com/current-worker-hash") && notes.contains_key("nvidia.com/workload-provider")
        };
        harness.ready("chat").await;
        harness.until("chat", "noted on", reported).await
    };
    let applied = "kubectl.kubernetes.io/last-applied-configuration";
    apply(manifest("registry.example.com/decode:1.5.0", true)).await;
    let first = noted().await;
    assert!(first.metadata.annotations.as_ref().unwrap().contains_key(applied), "{:?}", first.metadata.annotations);
    apply(manifest("registry.example.com/decode:1.6.0", false)).await;
    let hash =
        |g: &DynamoGraphDeployment| g.metadata.annotations.as_ref()?.get("nvidia.com/current-worker-hash").cloned();
    harness.ready("chat").await;
    let second = harness.until("chat", "noted on anew", |g| hash(g) != hash(&first)).await;
    assert!(second.metadata.annotations.as_ref().unwrap().contains_key(applied));
    assert_eq!((second.metadata.labels, second.spec.env), (None, None));
}
