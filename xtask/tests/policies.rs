//! The chart's admission policies on a real API server.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{process::Command, time::Duration};

use kube::{
    Client, Config,
    api::{Api, DynamicObject, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use test_cluster::{
    Access, TestNamespace,
    assets::{Assets, Tool},
    wait::until,
};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm/dynamo-platform");
const LIMIT: Duration = Duration::from_secs(60);

/// The policies of a release, bound to one namespace, `kube-system` and that of the release, so that other tests on the
/// cluster are not affected.
fn policies(release: &str, namespace: &str, values: &[&str]) -> Vec<Value> {
    let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
    helm.args(["template", release, CHART, "--namespace", "dyn", "--kube-version", "1.36.0"]);
    values.iter().for_each(|value| {
        helm.args(["--set", value]);
    });
    let output = helm.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    let mut objects: Vec<Value> = objects
        .filter(|object| object["kind"].as_str().is_some_and(|kind| kind.starts_with("ValidatingAdmissionPolicy")))
        .collect();
    let named =
        json!({ "key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace, "kube-system", "dyn"] });
    for binding in objects.iter_mut().filter(|object| object["kind"] == "ValidatingAdmissionPolicyBinding") {
        binding["spec"]["matchResources"] = json!({ "namespaceSelector": { "matchExpressions": [named] } });
    }
    objects
}

/// A client of a user that RBAC lets do everything if it is in the group `system:masters`.
async fn client_of(access: &Access, user: &str, groups: &[&str]) -> Client {
    let kubeconfig = Kubeconfig::read_from(access.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.proxy_url = None;
    config.auth_info.impersonate = Some(user.to_owned());
    config.auth_info.impersonate_groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
    Client::try_from(config).unwrap()
}

fn api(client: &Client, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Creates an object in a dry run; returns the rejection.
async fn creation(client: &Client, namespace: &str, object: Value) -> Result<(), String> {
    let api = api(client, object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap(), namespace);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&params, &serde_json::from_value(object).unwrap()).await.map(drop).map_err(|error| error.to_string())
}

fn owner() -> Value {
    json!([{ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment", "name": "c", "uid": "u", "controller": true }])
}

fn job(metadata: Value, pod: Value) -> Value {
    let mut spec = json!({ "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] });
    spec.as_object_mut().unwrap().extend(pod.as_object().cloned().unwrap_or_default());
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": { "template": { "spec": spec } } })
}

fn secret(name: &str, kind: &str) -> Value {
    let annotations = json!({ "kubernetes.io/service-account.name": "default" });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "annotations": annotations }, "type": kind })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_of_the_operator_writes_only_what_belongs_to_graphs() {
    let access = test_cluster::shared(&[]).await.unwrap();
    let namespace = TestNamespace::new(access, "policies").await.unwrap();
    let namespace = namespace.name();
    access.apply(&policies("limits", namespace, &[])).await.unwrap();
    let account = |name: &str| format!("system:serviceaccount:dyn:limits-dynamo-operator-{name}");
    let operator = client_of(access, &account("component-controller"), &["system:masters"]).await;
    let webhook = client_of(access, &account("webhook-server"), &["system:masters"]).await;
    let other = client_of(access, "administrator", &["system:masters"]).await;

    let foreign = || job(json!({ "name": "j" }), json!({}));
    // A policy takes effect a moment after it was created.
    until("the policy refuses a Job without an owner", LIMIT, || async {
        match creation(&operator, namespace, foreign()).await {
            Err(rejection) if rejection.contains("belong to an object of nvidia.com only") => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    })
    .await
    .unwrap();

    let owned = || json!({ "name": "j", "ownerReferences": owner() });
    let checkpoint = || json!({ "name": "j", "labels": { "nvidia.com/snapshot-checkpoint-id": "id" } });
    let refused = |answer: Result<(), String>, words: &str| {
        assert!(answer.as_ref().is_err_and(|rejection| rejection.contains(words)), "{words}: {answer:?}");
    };
    refused(
        creation(&operator, "kube-system", job(owned(), json!({}))).await,
        "does not write into namespace kube-system",
    );
    let privileged = json!({ "hostNetwork": true });
    refused(
        creation(&operator, namespace, job(checkpoint(), privileged)).await,
        "belong to an object of nvidia.com only",
    );
    refused(
        creation(&webhook, namespace, secret("bootstrap-token-abcdef", "bootstrap.kubernetes.io/token")).await,
        "Secrets of its certificate",
    );
    refused(
        creation(&webhook, namespace, secret("mpi-run-ssh-secret", "kubernetes.io/service-account-token")).await,
        "Secrets of its certificate",
    );
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "ownerReferences": owner() },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    refused(creation(&operator, namespace, pod).await, "changes labels of pods");
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "a" } });
    refused(creation(&operator, namespace, account).await, "labelled app.kubernetes.io/managed-by");

    creation(&operator, namespace, job(owned(), json!({}))).await.unwrap();
    creation(&operator, namespace, job(checkpoint(), json!({}))).await.unwrap();
    creation(&webhook, namespace, secret("mpi-run-ssh-secret", "Opaque")).await.unwrap();
    let config_map =
        |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": {} });
    let ca = "limits-dynamo-operator-webhook-ca";
    access.apply(&[json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "dyn" } })]).await.unwrap();
    creation(&webhook, "dyn", config_map(ca)).await.unwrap();
    refused(creation(&operator, "dyn", config_map(ca)).await, "only the webhook server writes the CA");
    for (namespace, name) in [("dyn", "another"), (namespace, ca)] {
        refused(creation(&webhook, namespace, config_map(name)).await, "belong to an object of nvidia.com only");
    }
    creation(&other, namespace, foreign()).await.unwrap();
    creation(&other, "kube-system", foreign()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardened_cluster_takes_markers_only_from_who_may_mark_the_namespace() {
    let access = test_cluster::shared(&[]).await.unwrap();
    let namespace = TestNamespace::new(access, "markers").await.unwrap();
    let namespace = namespace.name();
    access.apply(&policies("hardened", namespace, &["dynamo-operator.hardened=true"])).await.unwrap();
    let rules = |verb: &str, resources: &str, group: &str| json!({ "apiGroups": [group], "resources": [resources], "verbs": [verb] });
    let grant = |user: &str, rules: Value| {
        [
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": { "name": user, "namespace": namespace }, "rules": rules }),
            json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": user, "namespace": namespace },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }] }),
        ]
    };
    let leases = rules("create", "leases", "coordination.k8s.io");
    access.apply(&grant("tenant", json!([leases]))).await.unwrap();
    access.apply(&grant("marker", json!([leases, rules("mark", "namespaces", "")]))).await.unwrap();
    let lease = |name: &str| {
        json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name },
        "spec": { "holderIdentity": "namespace-restricted-operator-x", "leaseDurationSeconds": 30 } })
    };
    let (tenant, marker) = (client_of(access, "tenant", &[]).await, client_of(access, "marker", &[]).await);

    until("a tenant's marker is refused", LIMIT, || async {
        match creation(&tenant, namespace, lease("dynamo-operator-namespace-scope")).await {
            Err(rejection) if rejection.contains("needs verb mark on namespace") => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    })
    .await
    .unwrap();
    creation(&tenant, namespace, lease("another")).await.unwrap();
    creation(&marker, namespace, lease("dynamo-operator-namespace-scope")).await.unwrap();
}
