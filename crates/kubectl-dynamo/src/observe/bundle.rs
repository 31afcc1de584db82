//! Reads the objects of a support archive. Secrets and ConfigMaps are not among them.

use api_types::{
    v1alpha1::{DynamoCheckpoint, DynamoModel},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use futures::{FutureExt, future::join_all};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{Event, PersistentVolumeClaim, Pod, ResourceQuota, Service},
};
use rendering::LeaderWorkerSet;
use serde::Serialize;
use serde_json::Value;

use super::{
    connection::{Connection, Read, ReadableKind},
    family::of_graph,
};

/// Objects by the plural name of their kind. What cannot be read is a text that says why.
pub async fn bundle(connection: &Connection, graph: &str) -> Vec<(String, Result<Value, String>)> {
    let of_graph = of_graph(graph);
    let reads = [
        all::<DynamoGraphDeployment>(connection, "").boxed_local(),
        all::<DynamoComponentDeployment>(connection, &of_graph).boxed_local(),
        all::<Deployment>(connection, &of_graph).boxed_local(),
        all::<LeaderWorkerSet>(connection, &of_graph).boxed_local(),
        all::<ReplicaSet>(connection, &of_graph).boxed_local(),
        all::<Pod>(connection, &of_graph).boxed_local(),
        all::<Service>(connection, &of_graph).boxed_local(),
        all::<DynamoGraphDeploymentScalingAdapter>(connection, "").boxed_local(),
        all::<DynamoCheckpoint>(connection, "").boxed_local(),
        all::<DynamoModel>(connection, "").boxed_local(),
        all::<PersistentVolumeClaim>(connection, "").boxed_local(),
        all::<ResourceQuota>(connection, "").boxed_local(),
        all::<Event>(connection, "").boxed_local(),
    ];
    join_all(reads).await
}

async fn all<K: ReadableKind + Serialize>(connection: &Connection, labels: &str) -> (String, Result<Value, String>) {
    let objects = match connection.list::<K>(labels).await {
        Read::Found(found) => serde_json::to_value(found).map_err(|error| error.to_string()),
        Read::Missing => Err("the cluster does not serve this kind".to_owned()),
        Read::Unknown(why) => Err(why),
    };
    (K::plural(&()).into_owned(), objects)
}
