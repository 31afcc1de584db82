//! Reads logs of the pods of a graph, and the objects of a support archive. Secrets and ConfigMaps are not among them.

use api_types::{
    v1alpha1::{DynamoCheckpoint, DynamoModel},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use futures::{AsyncBufReadExt, Stream, StreamExt, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Event, PersistentVolumeClaim, Pod, ResourceQuota, Service},
    },
};
use kube::{Api, Resource, api::LogParams};
use rendering::LeaderWorkerSet;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    connection::{Connection, LIMIT, Read, words},
    family::of_graph,
};

/// A container whose log is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
}

/// Part of a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Number of lines from the end; all if unset.
    pub tail: Option<i64>,
    /// Seconds before now; all if unset.
    pub since: Option<i64>,
    /// The run before the last restart.
    pub previous: bool,
}

impl Part {
    fn params(self, container: &str, follow: bool) -> LogParams {
        LogParams {
            container: Some(container.to_owned()),
            follow,
            previous: self.previous,
            tail_lines: self.tail,
            since_seconds: self.since,
            ..LogParams::default()
        }
    }
}

/// The log of a container as it is now.
///
/// # Errors
/// It cannot be read; why.
pub async fn log(connection: &Connection, source: &Source, part: Part) -> Result<String, String> {
    let api: Api<Pod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let params = part.params(&source.container, false);
    match tokio::time::timeout(LIMIT, api.logs(&source.pod, &params)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(words(&error)),
        Err(_) => Err(format!("the kubelet has not answered within {} s", LIMIT.as_secs())),
    }
}

/// The lines of several containers as they are written, each with the index of its source; an error is a line, too.
pub async fn follow(
    connection: &Connection,
    sources: &[Source],
    part: Part,
) -> impl Stream<Item = (usize, Result<String, String>)> + Unpin + use<> {
    let api: Api<Pod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let mut streams = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let lines = match api.log_stream(&source.pod, &part.params(&source.container, true)).await {
            Ok(reader) => reader.lines().map(move |line| (index, line.map_err(|error| error.to_string()))).boxed(),
            Err(error) => stream::iter([(index, Err(words(&error)))]).boxed(),
        };
        streams.push(lines);
    }
    stream::select_all(streams)
}

/// Objects by the name of their file. What cannot be read is a text that says why.
pub async fn bundle(connection: &Connection, graph: &str) -> Vec<(&'static str, Result<Value, String>)> {
    let of_graph = of_graph(graph);
    let (graphs, components, deployments, sets, replica_sets, pods, services) = tokio::join!(
        all::<DynamoGraphDeployment>(connection, ""),
        all::<DynamoComponentDeployment>(connection, &of_graph),
        all::<Deployment>(connection, &of_graph),
        all::<LeaderWorkerSet>(connection, &of_graph),
        all::<ReplicaSet>(connection, &of_graph),
        all::<Pod>(connection, &of_graph),
        all::<Service>(connection, &of_graph),
    );
    let (adapters, checkpoints, models, claims, quotas, events) = tokio::join!(
        all::<DynamoGraphDeploymentScalingAdapter>(connection, ""),
        all::<DynamoCheckpoint>(connection, ""),
        all::<DynamoModel>(connection, ""),
        all::<PersistentVolumeClaim>(connection, ""),
        all::<ResourceQuota>(connection, ""),
        all::<Event>(connection, ""),
    );
    vec![
        ("dynamographdeployments", graphs),
        ("dynamocomponentdeployments", components),
        ("deployments", deployments),
        ("leaderworkersets", sets),
        ("replicasets", replica_sets),
        ("pods", pods),
        ("services", services),
        ("dynamographdeploymentscalingadapters", adapters),
        ("dynamocheckpoints", checkpoints),
        ("dynamomodels", models),
        ("persistentvolumeclaims", claims),
        ("resourcequotas", quotas),
        ("events", events),
    ]
}

async fn all<K>(connection: &Connection, labels: &str) -> Result<Value, String>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    K::DynamicType: Default,
{
    match connection.list::<K>(labels).await {
        Read::Found(found) => serde_json::to_value(found).map_err(|error| error.to_string()),
        Read::Missing => Err("the cluster does not serve this kind".to_owned()),
        Read::Unknown(why) => Err(why),
    }
}
