//! The object that a command is about, as users name it, and the names that a user may type.
//!
//! A list of names that cannot be read is empty.

use std::{fmt, str::FromStr};

use api_types::{
    v1alpha1::{DynamoCheckpoint, DynamoModel},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentRequest},
};
use clap::ValueEnum;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    config::Kubeconfig,
    core::ApiResource,
};
use serde::de::DeserializeOwned;

use super::connection::ConnectionArgs;

/// A kind of the operator, by the names that users give it. The first is the one that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// DynamoGraphDeployment.
    #[value(name = "dgd", aliases = ["graph", "dynamographdeployment", "dynamographdeployments"])]
    Graph,
    /// DynamoComponentDeployment.
    #[value(name = "dcd", aliases = ["component", "dynamocomponentdeployment", "dynamocomponentdeployments"])]
    Component,
    /// DynamoModel.
    #[value(name = "dynamomodel", aliases = ["dm", "model", "dynamomodels"])]
    Model,
    /// DynamoGraphDeploymentRequest.
    #[value(name = "dgdr", aliases = ["request", "dynamographdeploymentrequest", "dynamographdeploymentrequests"])]
    Request,
    /// DynamoCheckpoint.
    #[value(name = "checkpoint", aliases = ["dckpt", "dynamocheckpoint", "dynamocheckpoints"])]
    Checkpoint,
}

impl Kind {
    /// The kind as the API server serves it.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::Graph => ApiResource::erase::<DynamoGraphDeployment>(&()),
            Self::Component => ApiResource::erase::<DynamoComponentDeployment>(&()),
            Self::Model => ApiResource::erase::<DynamoModel>(&()),
            Self::Request => ApiResource::erase::<DynamoGraphDeploymentRequest>(&()),
            Self::Checkpoint => ApiResource::erase::<DynamoCheckpoint>(&()),
        }
    }
}

/// An object: `NAME` of a graph, or `TYPE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetObject {
    /// Kind.
    pub kind: Kind,
    /// Name.
    pub name: String,
}

impl FromStr for TargetObject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            None => (Kind::Graph, text),
            Some((kind, name)) => (kind_of(kind)?, name),
        };
        if name.is_empty() || name.contains('/') {
            return Err("a name, or TYPE/NAME".to_owned());
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

fn kind_of(text: &str) -> Result<Kind, String> {
    let text = text.to_lowercase();
    let name = text.split('.').next().unwrap_or_default();
    Kind::from_str(name, false)
        .map_err(|_| format!("unknown type {name}; one of dgd, dcd, dynamomodel, dgdr, checkpoint"))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

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
        Names::Graphs => objects(args, Kind::Graph).await,
        Names::Components { graph, assigned } => components(args, graph, *assigned).await,
        Names::Objects(kind) => objects(args, *kind).await.into_iter().map(|name| format!("{kind}/{name}")).collect(),
        Names::Namespaces => namespaces(args).await,
        Names::Contexts => contexts(args),
    }
}

async fn objects(args: &ConnectionArgs, kind: Kind) -> Vec<String> {
    let Ok(connection) = args.connect().await else { return Vec::new() };
    let api: Api<DynamicObject> = Api::namespaced_with(connection.client, &connection.namespace, &kind.resource());
    listed(&api).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_graphs_unless_a_type_goes_before_it() {
        let table = [
            ("chat", Kind::Graph, "chat"),
            ("dgd/chat", Kind::Graph, "chat"),
            ("DynamoModel/lora", Kind::Model, "lora"),
            ("dynamocheckpoints.nvidia.com/c", Kind::Checkpoint, "c"),
            ("dgdr/r", Kind::Request, "r"),
            ("dcd/chat-decode", Kind::Component, "chat-decode"),
        ];
        for (text, kind, name) in table {
            assert_eq!(text.parse(), Ok(TargetObject { kind, name: name.to_owned() }), "{text}");
        }
        for text in ["", "dgd/", "pod/x", "dgd/a/b"] {
            assert!(text.parse::<TargetObject>().is_err(), "{text}");
        }
    }
}
