//! Rejections by the API server: quotas, limits, policies and webhooks, all of them real.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::{free_port, wait};

use super::{
    fault::{Fault, Step, another_image, fault, main, pod},
    harness::{LIMIT, Team},
    server::{self, DENIAL},
};

const DEPLOYMENT: &str = "Deployment/chat-decode-";

/// Waits until the API server rejects a pod with these words: policies and webhooks count a moment after they are
/// written.
async fn until_rejected(team: &Team<'_>, words: &str) {
    let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "probe" },
        "spec": { "containers": [{ "name": "main", "image": "registry.example.com/engine:2" }] } }))
    .unwrap();
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let look = async || match team.api::<Pod>().create(&params, &pod).await {
        Err(error) if error.to_string().contains(words) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("it is accepted".to_owned()),
    };
    wait::until(format!("pods to be rejected: {words}"), LIMIT, look).await.unwrap();
}

/// Lets the API server call a webhook for new objects of a kind in this namespace.
pub async fn call_webhook(team: &Team<'_>, client: Value, group: &str, plural: &str) {
    let name = format!("{}.example.com", team.namespace);
    team.apply(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": name },
        "webhooks": [{
            "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "timeoutSeconds": 1, "clientConfig": client,
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "NAMESPACE" } },
            "rules": [{ "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [plural] }],
        }],
    }))
    .await;
}

/// The same for pods; waits until it counts.
async fn call_for_pods(team: &Team<'_>, client: Value, words: &str) {
    call_webhook(team, client, "", "pods").await;
    until_rejected(team, words).await;
}

fn at(port: u16, certificate: Option<&str>) -> Value {
    let bundle = certificate.map(|pem| k8s_openapi::ByteString(pem.as_bytes().to_vec()));
    json!({ "url": format!("https://127.0.0.1:{port}/"), "caBundle": bundle })
}

pub fn rows() -> Vec<Fault> {
    of_quotas().into_iter().chain(of_templates()).chain(of_webhooks()).collect()
}

fn of_quotas() -> Vec<Fault> {
    vec![
        fault("quota", "a ResourceQuota of one pod, and a rollout that needs two")
            .apply(json!({ "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": { "name": "few", "namespace": "NAMESPACE" }, "spec": { "hard": { "pods": "1" } } }))
            .step(Step::Do(|team| Box::pin(until_rejected(team, "exceeded quota"))))
            .edit(another_image)
            .is("QuotaExceeded", DEPLOYMENT, "exceeded quota: few", "raise the ResourceQuota"),
        fault("quota requires limits", "a ResourceQuota of CPUs, which the workers do not request")
            .graph(|graph| main(graph)["resources"] = json!({}))
            .apply(json!({ "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": { "name": "cpus", "namespace": "NAMESPACE" },
                "spec": { "hard": { "requests.cpu": "64" } } }))
            .step(Step::Do(|team| Box::pin(until_rejected(team, "failed quota"))))
            .edit(another_image)
            .is("QuotaNeedsRequests", DEPLOYMENT, "must specify requests.cpu", "set the requests and limits"),
        fault("limit range", "a LimitRange below the memory of the workers")
            .apply(json!({ "apiVersion": "v1", "kind": "LimitRange",
                "metadata": { "name": "small", "namespace": "NAMESPACE" },
                "spec": { "limits": [{ "type": "Container", "max": { "memory": "4Gi" } }] } }))
            .edit(another_image)
            .is("LimitRange", DEPLOYMENT, "maximum memory usage per Container is 4Gi", "within the LimitRange"),
    ]
}

fn of_templates() -> Vec<Fault> {
    vec![
        fault("pod security", "a namespace that enforces restricted pods")
            .step(Step::Do(|team| {
                Box::pin(async move {
                    let namespaces: Api<Namespace> = Api::all(team.client.clone());
                    let label =
                        json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
                    let patch = Patch::Merge(&label);
                    namespaces.patch(&team.namespace, &PatchParams::default(), &patch).await.unwrap();
                    until_rejected(team, "violates PodSecurity").await;
                })
            }))
            .edit(another_image)
            .is("PodSecurity", DEPLOYMENT, "violates PodSecurity", "correct the security context"),
        fault("service account missing", "a ServiceAccount that does not exist")
            .edit(|graph| pod(graph)["serviceAccountName"] = json!("engine"))
            .is("ServiceAccountMissing", DEPLOYMENT, "engine", "create the ServiceAccount"),
        fault("priority class missing", "a PriorityClass that does not exist")
            .edit(|graph| pod(graph)["priorityClassName"] = json!("high"))
            .is("PriorityClassMissing", DEPLOYMENT, "no PriorityClass with name high", "create the PriorityClass"),
        fault("runtime class missing", "a RuntimeClass that does not exist")
            .edit(|graph| pod(graph)["runtimeClassName"] = json!("nvidia"))
            .is("RuntimeClassMissing", DEPLOYMENT, "RuntimeClass \"nvidia\" not found", "create the RuntimeClass"),
        fault("admission policy", "a ValidatingAdmissionPolicy against the image of the workers")
            .apply(json!([
                {
                    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                    "metadata": { "name": "NAMESPACE" },
                    "spec": {
                        "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                            "operations": ["CREATE"], "resources": ["pods"] }] },
                        "validations": [{ "expression": "object.spec.containers.all(c, !c.image.endsWith(':2'))",
                            "message": "version 2 is not approved" }],
                    },
                },
                {
                    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                    "metadata": { "name": "NAMESPACE" },
                    "spec": { "policyName": "NAMESPACE", "validationActions": ["Deny"], "matchResources": {
                        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "NAMESPACE" } } } },
                },
            ]))
            .step(Step::Do(|team| Box::pin(until_rejected(team, "version 2 is not approved"))))
            .edit(another_image)
            .is("PolicyDenied", DEPLOYMENT, "version 2 is not approved", "the policy"),
    ]
}

fn of_webhooks() -> Vec<Fault> {
    vec![
        fault("webhook denies", "an admission webhook that denies the pods")
            .step(Step::Do(|team| {
                let server = &team.harness.server;
                Box::pin(call_for_pods(team, at(server.port, Some(&server.certificate)), DENIAL))
            }))
            .edit(another_image)
            .is("PolicyDenied", DEPLOYMENT, DENIAL, "the policy"),
        fault("webhook without a Service", "an admission webhook whose Service does not exist")
            .step(Step::Do(|team| {
                let client = json!({ "service": { "namespace": team.namespace, "name": "no-server" } });
                Box::pin(call_for_pods(team, client, "not found"))
            }))
            .edit(another_image)
            .is(
                "WebhookServiceMissing",
                DEPLOYMENT,
                "service \"no-server\" not found",
                "delete its webhook configuration",
            ),
        fault("webhook down", "an admission webhook that refuses connections")
            .step(Step::Do(|team| Box::pin(call_for_pods(team, at(free_port().unwrap(), None), "connection refused"))))
            .edit(another_image)
            .is("WebhookDown", DEPLOYMENT, "connection refused", "mend the Deployment of the webhook"),
        fault("webhook hangs", "an admission webhook that accepts connections and never answers")
            .step(Step::Do(|team| {
                Box::pin(async move { call_for_pods(team, at(server::mute().await, None), "deadline exceeded").await })
            }))
            .edit(another_image)
            .is("WebhookUnreachable", DEPLOYMENT, "deadline exceeded", "let the API server reach"),
        fault("certificate of a webhook expired", "an admission webhook whose certificate expired in 2025")
            .step(Step::Do(|team| {
                let server = &team.harness.expired;
                Box::pin(call_for_pods(team, at(server.port, Some(&server.certificate)), "certificate has expired"))
            }))
            .edit(another_image)
            .is("WebhookCertificate", DEPLOYMENT, "certificate has expired", "renew the certificate"),
        fault("webhook for workloads down", "an admission webhook for Deployments that refuses connections")
            .step(Step::Do(|team| Box::pin(call_webhook(team, at(free_port().unwrap(), None), "apps", "deployments"))))
            .edit(another_image)
            .is("WebhookDown", "DynamoComponentDeployment/chat-decode-", "connection refused", "webhook configuration"),
    ]
}
