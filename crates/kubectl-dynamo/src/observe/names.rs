//! Reads names that a user may type. Nothing is found where something cannot be read.

use api_types::{
    v1alpha1::{DynamoCheckpoint, DynamoModel},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentRequest},
};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Namespace};
use kube::{Api, Resource, api::ListParams, config::Kubeconfig};
use serde::de::DeserializeOwned;

use super::{connection::ConnectionArgs, target::Kind};

/// Most names of a list.
const MOST: u32 = 500;

/// Objects whose names are candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// Graphs of the namespace.
    Graphs,
    /// Components of a graph.
    Components {
        /// Name of the graph.
        graph: String,
        /// As `COMPONENT=`, for a value that follows.
        assigned: bool,
    },
    /// Objects of a kind, as `TYPE/NAME`.
    Objects(Kind),
    /// Namespaces of the cluster.
    Namespaces,
    /// Contexts of the kubeconfig.
    Contexts,
}

/// Reads the names.
pub async fn names(args: &ConnectionArgs, names: &Names) -> Vec<String> {
    match names {
        Names::Graphs => of::<DynamoGraphDeployment>(args).await,
        Names::Components { graph, assigned } => components(args, graph, *assigned).await,
        Names::Objects(kind) => {
            let names = match kind {
                Kind::Graph => of::<DynamoGraphDeployment>(args).await,
                Kind::Component => of::<DynamoComponentDeployment>(args).await,
                Kind::Model => of::<DynamoModel>(args).await,
                Kind::Request => of::<DynamoGraphDeploymentRequest>(args).await,
                Kind::Checkpoint => of::<DynamoCheckpoint>(args).await,
            };
            names.into_iter().map(|name| format!("{kind}/{name}")).collect()
        }
        Names::Namespaces => namespaces(args).await,
        Names::Contexts => contexts(args),
    }
}

async fn of<K>(args: &ConnectionArgs) -> Vec<String>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    let Ok(connection) = args.connect().await else { return Vec::new() };
    listed(&Api::<K>::namespaced(connection.client, &connection.namespace)).await
}

async fn namespaces(args: &ConnectionArgs) -> Vec<String> {
    let Ok(connection) = args.connect().await else { return Vec::new() };
    listed(&Api::<Namespace>::all(connection.client)).await
}

async fn listed<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>) -> Vec<String> {
    let found = api.list_metadata(&ListParams::default().limit(MOST)).await;
    found.map(|found| found.items.into_iter().filter_map(|one| one.metadata.name).collect()).unwrap_or_default()
}

async fn components(args: &ConnectionArgs, graph: &str, assigned: bool) -> Vec<String> {
    let Ok(connection) = args.connect().await else { return Vec::new() };
    let Some(graph) = connection.get::<DynamoGraphDeployment>(graph).await.found() else { return Vec::new() };
    let end = if assigned { "=" } else { "" };
    graph.spec.components.iter().map(|component| format!("{}{end}", component.name)).collect()
}

fn contexts(args: &ConnectionArgs) -> Vec<String> {
    let kubeconfig = args.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    kubeconfig.map(|found| found.contexts.into_iter().map(|one| one.name).collect()).unwrap_or_default()
}
