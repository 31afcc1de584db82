//! Certificates and CA bundles on a real API server.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use api_types::labels;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::ConfigMap,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use test_cluster::{Signal, wait};
use webhook_server::access::CA_CONFIG_MAP;

use crate::{
    common::{CERTIFICATES, Install, LIMIT, Replica, address, graphs},
    harness,
    manifests::graph,
    namespace, own_install,
};

/// Whether a replica serves a certificate that the Secret's CA has signed.
async fn serves(install: &Install, replica: &Replica) -> Result<(), String> {
    if install.stored("ca.crt").await.is_empty() {
        return Err("no CA".to_owned());
    }
    let client = install.client_of(replica).await;
    let request = http::Request::get("/").body(Vec::new().into()).unwrap();
    client.send(request).await.map(|_| ()).map_err(|error| format!("{error:?}"))
}

async fn until_serving(install: &Install, replica: &Replica) {
    wait::until("a certificate of the Secret's CA", LIMIT, async || serves(install, replica).await).await.unwrap();
}

/// Returns once each replica serves another certificate than its first.
async fn until_serving_another(install: &Install, replicas: &[Replica]) {
    for replica in replicas {
        let log = async || install.log(replica).matches("serving a new certificate").count().gt(&1).then_some(());
        wait::until("each replica to serve the new certificate", LIMIT, log).await.unwrap();
        until_serving(install, replica).await;
    }
}

/// Writes bytes over a key of the Secret; `None` removes it.
async fn overwrite(install: &Install, key: &str, value: Option<&str>) {
    let patch = match value {
        Some(value) => json!({ "stringData": { key: value } }),
        None => json!({ "data": { key: null } }),
    };
    install.secrets().patch(CERTIFICATES, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

#[tokio::test]
async fn replicas_that_start_at_once_agree_on_one_certificate() {
    let namespace = namespace("race").await;
    let install = own_install(&namespace).await;
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(install.start_at(address(test_cluster::free_port().unwrap()), None).await);
    }
    for replica in &replicas {
        install.until_ready(replica).await;
        until_serving(&install, replica).await;
    }
    let made: usize = replicas.iter().map(|replica| install.log(replica).matches("wrote certificates").count()).sum();
    assert_eq!(made, 1);
}

#[tokio::test]
async fn a_secret_that_is_deleted_or_damaged_is_repaired_and_no_call_fails_meanwhile() {
    let namespace = namespace("repaired").await;
    let install = own_install(&namespace).await;
    let replica = install.start().await;
    install.until_answering(namespace.name(), "v1beta1").await;
    let calls = Calls::start(&install, namespace.name());
    for key in ["ca.crt", "tls.crt", "tls.key", "ca.key"] {
        // The API server insists on this key, but not on a value.
        let garbage = if key == "tls.key" { "" } else { "garbage" };
        overwrite(&install, key, Some(garbage)).await;
        let repaired = async || {
            let stored = install.stored(key).await;
            (!stored.is_empty() && stored != b"garbage").then_some(())
        };
        wait::until(format!("{key} to be repaired"), LIMIT, repaired).await.unwrap();
        until_serving(&install, &replica).await;
    }
    let before = install.secrets().get(CERTIFICATES).await.unwrap().metadata.uid;
    install.secrets().delete(CERTIFICATES, &DeleteParams::default()).await.unwrap();
    let back = async || install.secrets().get_opt(CERTIFICATES).await.unwrap().filter(|s| s.metadata.uid != before);
    wait::until("the Secret to come back", LIMIT, back).await.unwrap();
    until_serving(&install, &replica).await;
    calls.assert_none_failed().await;
}

/// Defect of ours: with one bundle that could not be set, the Secret was never written again.
#[tokio::test]
async fn a_bundle_that_cannot_be_set_does_not_keep_the_secret_from_being_repaired() {
    let namespace = namespace("forbidden").await;
    let install = own_install(&namespace).await;
    // Ours by its labels and its Service, and by its name none that we may change.
    let service = json!({ "name": "webhook", "namespace": namespace.name(), "path": "/", "port": install.front });
    let stray = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": format!("{}-stray", namespace.name()),
            "labels": { (labels::PART_OF): labels::OPERATOR, (labels::OPERATOR_NAMESPACE): namespace.name() },
        },
        "webhooks": [{
            "name": "stray.kb.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "clientConfig": { "service": service }, "rules": [],
        }],
    });
    install.cluster.apply(&[stray]).await.unwrap();
    let replica = install.start_at(address(install.front), None).await;
    let refused = async || install.log(&replica).contains("cannot set the CA bundle").then_some(());
    wait::until("a bundle that cannot be set", LIMIT, refused).await.unwrap();
    overwrite(&install, "ca.key", None).await;
    let repaired = async || (!install.stored("ca.key").await.is_empty()).then_some(());
    wait::until("a CA that can sign", LIMIT, repaired).await.unwrap();
}

/// A replica dies at its first steps, and another one finishes what it began.
#[tokio::test]
async fn what_a_killed_replica_began_another_one_finishes() {
    let namespace = namespace("killed").await;
    let install = own_install(&namespace).await;
    for begun in ["starting", "wrote certificates", "set the CA bundle"] {
        let replica = install.start_at(address(install.front), None).await;
        let seen = async || install.log(&replica).contains(begun).then_some(());
        wait::until(format!("a replica that has got to: {begun}"), LIMIT, seen).await.unwrap();
        install.stop(&replica, Signal::Kill).await;
        if begun == "wrote certificates" {
            // What the dead one did is undone, for the next one to do again.
            overwrite(&install, "ca.key", None).await;
            set_bundles(&install, "").await;
        }
    }
    let replica = install.start().await;
    until_serving(&install, &replica).await;
    install.until_answering(namespace.name(), "v1beta1").await;
}

async fn set_bundles(install: &Install, bundle: &str) {
    let client = || install.cluster.client().unwrap();
    let name = |kind: &str| format!("{0}-{kind}-{0}", install.namespace);
    let patch = json!([{ "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle }]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(patch).unwrap());
    let (params, validating, mutating) = (PatchParams::default(), Api::all(client()), Api::all(client()));
    let validating: Api<ValidatingWebhookConfiguration> = validating;
    let mutating: Api<MutatingWebhookConfiguration> = mutating;
    validating.patch_metadata(&name("validating"), &params, &patch).await.unwrap();
    mutating.patch_metadata(&name("mutating"), &params, &patch).await.unwrap();
}

#[tokio::test]
async fn a_ca_bundle_that_another_client_changes_is_set_again() {
    let namespace = namespace("bundles").await;
    let install = own_install(&namespace).await;
    install.start().await;
    set_bundles(&install, "").await;
    let ca = install.stored("ca.crt").await;
    let client = install.cluster.client().unwrap();
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let name = format!("{0}-validating-{0}", namespace.name());
    let set = async || {
        let webhooks = configurations.get(&name).await.unwrap().webhooks.unwrap();
        let holds = |webhook: &k8s_openapi::api::admissionregistration::v1::ValidatingWebhook| {
            webhook.client_config.ca_bundle.as_ref().is_some_and(|bundle| bundle.0 == ca)
        };
        webhooks.iter().all(holds).then_some(())
    };
    wait::until("all bundles", LIMIT, set).await.unwrap();

    // Of the CRDs, no other test uses this one.
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    let name = "dynamographdeploymentscalingadapters.nvidia.com";
    let patch = json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": null } } } } });
    crds.patch_metadata(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let ca = harness().await.install.stored("ca.crt").await;
    let set = async || {
        let crd = crds.get(name).await.unwrap();
        let bundle = crd.spec.conversion?.webhook?.client_config?.ca_bundle?;
        (bundle.0 == ca).then_some(())
    };
    wait::until("the bundle of the CRD", LIMIT, set).await.unwrap();
}

/// Left by another release: the program `crds` would set it in the definitions.
#[tokio::test]
async fn an_outdated_bundle_in_the_config_map_is_replaced_though_no_definition_differs() {
    let namespace = namespace("outdated").await;
    let install = own_install(&namespace).await;
    let outdated = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "ca.crt": "outdated" },
        "metadata": { "name": CA_CONFIG_MAP, "namespace": namespace.name() },
    });
    install.cluster.apply(&[outdated]).await.unwrap();
    install.start().await;
    let ca = install.stored("ca.crt").await;
    let config_maps: Api<ConfigMap> = Api::namespaced(install.cluster.client().unwrap(), namespace.name());
    let replaced = async || {
        let data = config_maps.get(CA_CONFIG_MAP).await.unwrap().data?;
        (data["ca.crt"].as_bytes() == ca).then_some(())
    };
    wait::until("the bundle of the Secret", LIMIT, replaced).await.unwrap();
}

/// Write access to a definition determines who reads the objects of all namespaces in another version.
#[tokio::test]
async fn the_server_cannot_write_a_definition_nor_another_config_map() {
    let install = &harness().await.install;
    let client = install.impersonated().await;
    let forbidden = |error: kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams { dry_run: true, ..PatchParams::apply("webhook-server").force() };
    for plural in webhook_server::configurations::CONVERTED {
        let name = format!("{plural}.nvidia.com");
        let definition = definitions.get(&name).await.unwrap();
        let note = Patch::Merge(json!({ "metadata": { "annotations": { "a": "b" } } }));
        let merge = PatchParams { dry_run: true, ..PatchParams::default() };
        assert!(forbidden(definitions.patch_metadata(&name, &merge, &note).await.unwrap_err()), "{name}");
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        assert!(forbidden(definitions.replace(&name, &dry_run, &definition).await.unwrap_err()), "{name}");
    }
    let config_maps: Api<ConfigMap> = Api::namespaced(client, &install.namespace);
    let apply = async |name: &str| {
        let config_map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        config_maps.patch(name, &params, &Patch::Apply(config_map)).await
    };
    apply(CA_CONFIG_MAP).await.unwrap();
    assert!(forbidden(apply("another").await.unwrap_err()));
}

/// Without a key that can sign, a new CA is made: the way to get one.
#[tokio::test]
async fn a_new_ca_comes_into_use_while_requests_run_and_none_fails() {
    let namespace = namespace("rotation").await;
    let install = own_install(&namespace).await;
    let replicas = [install.start().await, install.start_beside().await];
    install.until_answering(namespace.name(), "v1beta1").await;
    let (old_ca, old) = (install.stored("ca.crt").await, install.stored("tls.crt").await);
    let calls = Calls::start(&install, namespace.name());
    overwrite(&install, "ca.key", None).await;
    let replaced = async || {
        let new = install.stored("tls.crt").await;
        (new != old).then_some(())
    };
    wait::until("the new certificate", LIMIT, replaced).await.unwrap();
    let bundle = install.stored("ca.crt").await;
    assert!(bundle.len() > old_ca.len() && bundle.ends_with(&old_ca), "the old CA stays for a while");
    until_serving_another(&install, &replicas).await;
    calls.assert_none_failed().await;
}

/// A restored backup, or another program: the Secret holds another CA and a certificate of it, both as good as ours.
#[tokio::test]
async fn a_secret_that_another_client_overwrites_comes_into_use_while_requests_run_and_none_fails() {
    let namespace = namespace("restored").await;
    let install = own_install(&namespace).await;
    let replicas = [install.start().await, install.start_beside().await];
    install.until_answering(namespace.name(), "v1beta1").await;
    let old_ca = install.stored("ca.crt").await;
    let calls = Calls::start(&install, namespace.name());
    let foreign = issued(namespace.name());
    let patch = Patch::Merge(json!({ "stringData": foreign }));
    install.secrets().patch(CERTIFICATES, &PatchParams::default(), &patch).await.unwrap();
    until_serving_another(&install, &replicas).await;
    let bundle = String::from_utf8(install.stored("ca.crt").await).unwrap().replace("\r\n", "\n");
    let both = foreign["ca.crt"].as_str().unwrap().replace("\r\n", "\n") + std::str::from_utf8(&old_ca).unwrap();
    assert_eq!(bundle, both, "the old CA stays for a while");
    assert_eq!(install.stored("tls.crt").await, foreign["tls.crt"].as_str().unwrap().as_bytes());
    calls.assert_none_failed().await;
}

/// cert-manager, or another issuer: the Secret is theirs, and so are the bundles of webhook configurations. An install
/// for one namespace needs no right in the cluster then.
#[tokio::test]
async fn certificates_of_another_issuer_are_served_and_followed() {
    let namespace = namespace("manual").await;
    let front = test_cluster::free_port().unwrap();
    let install = Install::of_its_namespace(harness().await.install.cluster, namespace.name(), front).await;
    let configuration = json!({
        "namespace": { "restricted": namespace.name() }, "server": { "webhook": { "certProvisionMode": "manual" } },
    });
    let replica = install.start_at(address(install.front), Some(&configuration)).await;
    let waits = async || replica.ready().await.err().filter(|error| error.contains("certificate"));
    wait::until("the replica to wait for a certificate", LIMIT, waits).await.unwrap();
    for _ in 0..2 {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": { "name": CERTIFICATES, "namespace": namespace.name() },
            "stringData": issued(namespace.name()),
        });
        install.cluster.apply(&[secret]).await.unwrap();
        until_serving(&install, &replica).await;
    }
    install.until_ready(&replica).await;
    assert!(!install.log(&replica).contains("wrote certificates"));
    assert!(!install.log(&replica).contains("set the CA bundle"));
}

/// A CA and a certificate as others would write them.
fn issued(namespace: &str) -> Value {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![format!("webhook.{namespace}.svc")]).unwrap();
    let certificate = certificate.signed_by(&key, &ca).unwrap();
    json!({
        "ca.crt": ca.pem(), "ca.key": ca.key().serialize_pem(),
        "tls.crt": certificate.pem(), "tls.key": key.serialize_pem(),
    })
}

/// Calls that go through admission, one after the other, on connections of the API server's own choice.
struct Calls {
    task: tokio::task::JoinHandle<Vec<String>>,
    stop: std::sync::Arc<AtomicBool>,
    count: std::sync::Arc<AtomicUsize>,
}

impl Calls {
    fn start(install: &Install, namespace: &str) -> Self {
        let (api, _) = graphs(install.cluster.client().unwrap(), namespace, "v1beta1");
        let object: DynamicObject = serde_json::from_value(graph("v1beta1", 1, None)).unwrap();
        let (stop, count) = (std::sync::Arc::<AtomicBool>::default(), std::sync::Arc::<AtomicUsize>::default());
        let (stopped, counted) = (stop.clone(), count.clone());
        let task = tokio::spawn(async move {
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let mut failed = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                if let Err(error) = api.create(&params, &object).await {
                    failed.push(error.to_string());
                }
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            failed
        });
        Self { task, stop, count }
    }

    async fn assert_none_failed(self) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.task.await.unwrap();
        assert!(self.count.load(Ordering::Relaxed) > 10);
        assert_eq!(failed, [""; 0]);
    }
}
