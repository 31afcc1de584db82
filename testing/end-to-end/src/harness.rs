//! One namespace of the shared control plane, and what tests do in it.

use std::time::Duration;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Client, ResourceExt,
    api::{Api, DynamicObject, ListParams, Patch, PatchParams},
    core::ApiResource,
};
use serde_json::Value;
use test_cluster::{
    Cluster, Options, TestNamespace,
    assets::{Assets, ForeignApi},
    wait,
};
use tokio::sync::OnceCell;

/// Any error of a test.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Time limit of a graph; generous, because a whole test run may share two cores.
const PATIENCE: Duration = Duration::from_secs(300);

/// Enough for every graph that is alive at the same time.
const NODES: u16 = 8;

async fn start_cluster() -> Result<Cluster, BoxError> {
    let mut crds = api_types::crds::all()?.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    match Assets::from_env()?.definitions(ForeignApi::LeaderWorkerSet) {
        Ok(files) => {
            for file in files {
                crds.push(serde_saphyr::from_str(&std::fs::read_to_string(file)?)?);
            }
        }
        // Tests that need them say so.
        Err(error) => println!("no definition of LeaderWorkerSets: {error}"),
    }
    Ok(Cluster::start(Options { crds, audit: true, ..Options::with_nodes(NODES) }).await?)
}

/// A test's own corner of the harness.
pub struct Harness {
    /// The control plane.
    pub cluster: &'static Cluster,
    /// The namespace; deleted when dropped.
    pub namespace: TestNamespace,
    /// A client with all rights.
    pub client: Client,
}

/// A fresh namespace on the shared control plane.
///
/// # Errors
/// The control plane does not start or answer.
pub async fn harness(name: &str) -> Result<Harness, BoxError> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    Harness::on(CLUSTER.get_or_try_init(start_cluster).await?, name).await
}

/// A fresh namespace on a control plane of its own, to break. Like the shared one, it ends with the process.
///
/// # Errors
/// The control plane does not start or answer.
pub async fn private_harness(name: &str) -> Result<Harness, BoxError> {
    Harness::on(Box::leak(Box::new(start_cluster().await?)), name).await
}

impl Harness {
    /// A fresh namespace on a control plane.
    ///
    /// # Errors
    /// The control plane does not answer.
    pub async fn on(cluster: &'static Cluster, name: &str) -> Result<Self, BoxError> {
        let namespace = TestNamespace::new(cluster, name).await?;
        let client = namespace.client();
        Ok(Self { cluster, namespace, client })
    }

    /// Name of the namespace.
    #[must_use]
    pub fn ns(&self) -> &str {
        self.namespace.name()
    }

    /// The API of a kind in this namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), self.ns())
    }

    /// Applies a graph as `kubectl apply --server-side` does.
    ///
    /// # Errors
    /// The API server refuses it.
    pub async fn apply(&self, graph: &Value) -> Result<DynamoGraphDeployment, BoxError> {
        let name = graph["metadata"]["name"].as_str().unwrap_or_default();
        let api = self.api::<DynamoGraphDeployment>();
        Ok(api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(graph)).await?)
    }

    /// Waits until a graph says of its present generation that it is ready.
    ///
    /// # Errors
    /// It does not become ready in time; the error shows its status.
    pub async fn ready(&self, name: &str) -> Result<DynamoGraphDeployment, BoxError> {
        let api = self.api::<DynamoGraphDeployment>();
        let probe = async || match api.get(name).await {
            Ok(graph) if is_ready(&graph) => Ok(graph),
            Ok(graph) => Err(serde_json::to_string(&graph.status).unwrap_or_default()),
            Err(error) => Err(error.to_string()),
        };
        Ok(wait::until(format!("{name} to be ready"), PATIENCE, probe).await?)
    }

    /// Waits until a graph's condition has this status and reason, and returns its message.
    ///
    /// # Errors
    /// It does not come to that in time; the error shows its conditions.
    pub async fn condition(&self, name: &str, type_: &str, status: &str, reason: &str) -> Result<String, BoxError> {
        let api = self.api::<DynamoGraphDeployment>();
        let probe = async || {
            let graph = api.get(name).await.map_err(|e| e.to_string())?;
            let conditions = graph.status.map(|s| s.conditions).unwrap_or_default();
            let found = conditions.iter().find(|c| c.type_ == type_ && c.status == status && c.reason == reason);
            found.map(|c| c.message.clone()).ok_or_else(|| serde_json::to_string(&conditions).unwrap_or_default())
        };
        Ok(wait::until(format!("{name}: {type_}={status}/{reason}"), PATIENCE, probe).await?)
    }

    /// Names of all components of the namespace.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn components(&self) -> Result<Vec<DynamoComponentDeployment>, BoxError> {
        Ok(self.api::<DynamoComponentDeployment>().list(&ListParams::default()).await?.items)
    }

    /// Everything that the controllers made here, as sorted lines `Kind name image replicas`.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn inventory(&self) -> Result<Vec<String>, BoxError> {
        let all = ListParams::default();
        let mut lines = Vec::new();
        for d in self.components().await? {
            lines.push(format!("Component {} {:?}", d.name_any(), d.spec.component.replicas));
        }
        for d in self.api::<Deployment>().list(&all).await? {
            let spec = d.spec.clone().unwrap_or_default();
            let image = spec.template.spec.and_then(|s| s.containers.into_iter().next()).and_then(|c| c.image);
            lines.push(format!("Deployment {} {image:?} {:?}", d.name_any(), spec.replicas));
        }
        lines.extend(self.api::<Service>().list(&all).await?.iter().map(|s| format!("Service {}", s.name_any())));
        lines.sort();
        Ok(lines)
    }

    /// Uid and resourceVersion of every object of a kind whose name begins with `prefix`, to see whether anything was
    /// written.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn versions(&self, resource: &ApiResource, prefix: &str) -> Result<Vec<String>, BoxError> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), self.ns(), resource);
        let objects = api.list(&ListParams::default()).await?;
        let mut versions: Vec<_> = objects
            .iter()
            .filter(|o| o.name_any().starts_with(prefix))
            .map(|o| format!("{} {:?} {:?}", o.name_any(), o.metadata.uid, o.metadata.resource_version))
            .collect();
        versions.sort();
        Ok(versions)
    }
}

fn is_ready(graph: &DynamoGraphDeployment) -> bool {
    let Some(status) = &graph.status else { return false };
    let current = status.observed_generation == graph.metadata.generation;
    current && status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
}
