//! `crds serve` on clusters of its own, with the rights of the chart.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Child,
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client, ResourceExt,
    api::{Api, DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_cluster::{Cluster, Controllers, Options, free_port, open_definition};

use crate::{apply::wait, converter::Converter, crds, migration};

pub const GRAPHS: &str = "dynamographdeployments.nvidia.com";
pub const MODELS: &str = "dynamomodels.nvidia.com";
pub const NAMESPACE: &str = "operator";
pub const CONFIG_MAP: &str = "webhook-ca";
/// Longer than a change takes to cause a request.
pub const QUIET: Duration = Duration::from_secs(4);

/// Ends with the test.
pub struct Served {
    process: Child,
    log: PathBuf,
    /// Address at which it answers probes.
    pub health: SocketAddr,
}

impl Served {
    pub fn runs(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Returns the text that it has printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub struct Harness {
    pub cluster: Cluster,
    kubeconfig: PathBuf,
    pub definitions: Api<CustomResourceDefinition>,
    config_maps: Api<ConfigMap>,
}

impl Harness {
    pub async fn start(crds: Vec<Value>) -> Self {
        let options = Options { controllers: Controllers::Off, audit: true, crds, ..Options::default() };
        let cluster = Cluster::start(options).await.unwrap();
        let kubeconfig = account(&cluster).await;
        let client: Client = cluster.client().unwrap();
        let config_maps = Api::namespaced(client.clone(), NAMESPACE);
        Self { cluster, kubeconfig, definitions: Api::all(client), config_maps }
    }

    pub fn serve(&self, converter: &Converter, more: &[&str]) -> Served {
        let mut command = crds();
        command.arg("serve").arg("--kubeconfig").arg(&self.kubeconfig).args(more);
        command.args(["--webhook-service", &converter.service().to_string()]);
        command.args(["--ca-config-map", &format!("{NAMESPACE}/{CONFIG_MAP}")]);
        let port = free_port().unwrap();
        command.args(["--health-address", &format!("127.0.0.1:{port}")]);
        let log = self.cluster.dir().join(format!("crds-{port}.log"));
        let output = File::create(&log).unwrap();
        let process = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        Served { process, log, health: ([127, 0, 0, 1], port).into() }
    }

    pub async fn publish(&self, bundle: &str) {
        let config_map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": CONFIG_MAP, "namespace": NAMESPACE },
            "data": { "ca.crt": bundle },
        });
        self.cluster.apply(&[config_map]).await.unwrap();
    }

    /// Returns when all converted definitions hold a bundle.
    pub async fn until_held(&self, bundle: &str) {
        wait(async || {
            let all = self.definitions.list(&ListParams::default()).await.unwrap();
            let held: Vec<_> = all.iter().filter(|crd| crd.spec.conversion.is_some()).map(held).collect();
            let converted = held.iter().flatten().count();
            converted == migration::PLURALS.len() && held.iter().flatten().all(|held| held == bundle)
        })
        .await;
    }

    /// Counts the program's requests other than its watches.
    pub fn requests(&self) -> usize {
        let log = std::fs::read_to_string(self.cluster.audit_log().unwrap()).unwrap();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let user = format!("system:serviceaccount:{NAMESPACE}:crds");
        events.filter(|event| event["user"]["username"] == user && event["verb"] != "watch").count()
    }

    /// Returns when the program sends no request any more.
    async fn until_quiet(&self) -> usize {
        let mut before = self.requests();
        loop {
            tokio::time::sleep(QUIET).await;
            let now = self.requests();
            if now == before {
                return now;
            }
            before = now;
        }
    }

    async fn versions(&self) -> Vec<Option<String>> {
        self.definitions.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::resource_version).collect()
    }

    pub async fn change(&self, name: &str, patch: Value) {
        let params = PatchParams { field_manager: Some("another".to_owned()), ..PatchParams::default() };
        self.definitions.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }
}

/// A ServiceAccount with the roles of the chart.
async fn account(cluster: &Cluster) -> PathBuf {
    let chart = "../../deploy/helm/dynamo-platform/charts/dynamo-operator/charts/crds/files/role.yaml";
    let role = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(chart)).unwrap();
    let role: Value = serde_saphyr::from_str(&role).unwrap();
    let own = json!([{
        "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIG_MAP], "verbs": ["list", "watch"],
    }]);
    let group = "rbac.authorization.k8s.io";
    let subjects = json!([{ "kind": "ServiceAccount", "name": "crds", "namespace": NAMESPACE }]);
    let rules = [
        ("ClusterRole", json!({ "name": "crds" }), &role["rules"]),
        ("Role", json!({ "name": "crds", "namespace": NAMESPACE }), &own),
    ];
    let rules = rules.map(|(kind, metadata, rules)| {
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": { "apiGroup": group, "kind": kind, "name": "crds" }, "subjects": subjects,
        });
        [json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "rules": rules }), binding]
    });
    cluster.service_account_kubeconfig(NAMESPACE, "crds", &rules.concat()).await.unwrap()
}

pub fn held(crd: &CustomResourceDefinition) -> Option<String> {
    let client = crd.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.as_ref()?;
    let bundle = client.ca_bundle.as_ref().map(|bundle| bundle.0.clone()).unwrap_or_default();
    Some(String::from_utf8(bundle).unwrap())
}

/// The life of an installation, from an empty cluster on.
#[tokio::test]
async fn definitions_and_their_bundle_are_kept_and_no_request_is_sent_while_nothing_changes() {
    let harness = Harness::start(Vec::new()).await;
    let (converter, next) = (Converter::start(), Converter::start());
    let mut served = harness.serve(&converter, &[]);
    wait(async || harness.definitions.get_opt(MODELS).await.unwrap().is_some()).await;
    harness.publish(&converter.bundle()).await;
    harness.until_held(&converter.bundle()).await;

    // What is none of its business causes no request, nor does a change of a definition beside its spec.
    let requests = harness.until_quiet().await;
    harness.cluster.apply(&[open_definition("example.com", "v1", "Other", "others")]).await.unwrap();
    harness.change(MODELS, json!({ "metadata": { "annotations": { "a/b": "c" } } })).await;
    let versions = harness.versions().await;
    assert_eq!(harness.until_quiet().await, requests);

    // One is changed by another, and one is deleted.
    harness.change(GRAPHS, json!({ "spec": { "names": { "shortNames": ["other"] }, "conversion": null } })).await;
    harness.definitions.delete(MODELS, &DeleteParams::default()).await.unwrap();
    let names = |crd: &CustomResourceDefinition| crd.spec.names.short_names.clone();
    let ours = api_types::crds::all().unwrap().iter().find(|crd| crd.name_any() == GRAPHS).map(names).unwrap();
    wait(async || {
        let graphs = harness.definitions.get(GRAPHS).await.unwrap();
        let is_repaired = names(&graphs) == ours && held(&graphs) == Some(converter.bundle());
        let models = harness.definitions.get_opt(MODELS).await.unwrap();
        is_repaired && models.is_some_and(|crd| crd.metadata.deletion_timestamp.is_none())
    })
    .await;
    assert_ne!(harness.versions().await, versions);

    // Another CA.
    harness.publish(&next.bundle()).await;
    harness.until_held(&next.bundle()).await;
    let requests = harness.until_quiet().await;
    let versions = harness.versions().await;
    harness.config_maps.delete(CONFIG_MAP, &DeleteParams::default()).await.unwrap();
    assert_eq!(harness.until_quiet().await, requests, "what was set stays");
    assert_eq!(harness.versions().await, versions);
    assert!(served.runs());
}

/// Git owns the definitions: absent definitions and fields stay absent, except for the bundle.
#[tokio::test]
async fn definitions_of_another_owner_get_their_bundle_only() {
    let converter = Converter::start();
    let mut crds = api_types::crds::all_converted_by(&converter.service()).unwrap();
    crds.retain(|crd| crd.name_any() != MODELS);
    let crds: Vec<Value> = crds.iter().map(|crd| json!(crd)).collect();
    let harness = Harness::start(crds.clone()).await;
    harness.publish(&converter.bundle()).await;
    let mut served = harness.serve(&converter, &["--bundle-only"]);
    harness.until_held(&converter.bundle()).await;
    let without = json!({ "webhook": { "clientConfig": { "caBundle": null } } });
    let strange = json!({ "names": { "shortNames": ["other"] }, "conversion": without });
    harness.change(GRAPHS, json!({ "spec": strange })).await;
    harness.until_held(&converter.bundle()).await;
    let requests = harness.until_quiet().await;
    let graphs = harness.definitions.get(GRAPHS).await.unwrap();
    assert_eq!(graphs.spec.names.short_names.unwrap(), ["other"]);
    assert!(harness.definitions.get_opt(MODELS).await.unwrap().is_none());
    assert_eq!(harness.until_quiet().await, requests);
    assert!(served.runs());
}

/// Objects that an older version stored are read through the webhook: the bundle comes while they wait for it.
#[tokio::test]
async fn objects_are_migrated_as_soon_as_the_bundle_comes() {
    let harness = Harness::start(migration::former().iter().map(|crd| json!(crd)).collect()).await;
    let client = harness.cluster.client().unwrap();
    let graph = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "g", "namespace": "default" }, "spec": { "services": {} },
    });
    harness.cluster.apply(&[graph]).await.unwrap();
    let converter = Converter::start();
    converter.expose(&client).await;
    let mut served = harness.serve(&converter, &[]);
    let stored = async || harness.definitions.get(GRAPHS).await.unwrap().status.unwrap().stored_versions.unwrap();
    wait(async || stored().await == ["v1alpha1", "v1beta1"]).await;
    harness.publish(&converter.bundle()).await;
    wait(async || stored().await == ["v1beta1"]).await;
    assert!(served.runs());
}
