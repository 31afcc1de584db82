//! Reads the objects of a support archive. Secrets and ConfigMaps are not among them.

use api_types::{
    v1alpha1::{DynamoCheckpoint, DynamoModel},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Event, PersistentVolumeClaim, Pod, ResourceQuota, Service},
    },
};
use kube::Resource;
use rendering::LeaderWorkerSet;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    connection::{Connection, Read},
    family::of_graph,
};

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
