//! Reads a graph and its children, all graphs, and workloads as a diagnosis needs them.

use api_types::{
    labels, names,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, core::v1::Pod};
use kube::{Api, Resource, ResourceExt, api::ListParams};
use rendering::LeaderWorkerSet;

use super::connection::{Connection, Read, list};
use crate::{diagnosis::ObservedWorkload, view::Family};

/// Label selector of what belongs to a graph.
pub fn of_graph(name: &str) -> String {
    format!("{}={}", labels::GRAPH, names::label_value(name))
}

/// Reads a graph and its children.
///
/// # Errors
/// The graph does not exist, or it or its pods and components cannot be read.
pub async fn family(connection: &Connection, name: &str) -> anyhow::Result<Family> {
    let selector = of_graph(name);
    let (graph, components, deployments, sets, adapters, pods) = tokio::join!(
        connection.require::<DynamoGraphDeployment>(name),
        connection.list::<DynamoComponentDeployment>(&selector),
        connection.list::<Deployment>(&selector),
        connection.list::<LeaderWorkerSet>(&selector),
        adapters(connection, name),
        connection.list::<Pod>(&selector),
    );
    let mut workloads: Vec<_> = deployments.found().unwrap_or_default().iter().map(of_deployment).collect();
    workloads.extend(sets.found().unwrap_or_default().iter().map(of_leader_worker_set));
    let mut components = components.or_error("DynamoComponentDeployments")?;
    components
        .sort_by_key(|one| (one.spec.component.name.clone(), one.metadata.creation_timestamp.as_ref().map(|t| t.0)));
    let mut pods = pods.or_error("Pods")?;
    pods.sort_by_key(ResourceExt::name_any);
    Ok(Family { graph: graph?, components, workloads, adapters: adapters.found().unwrap_or_default(), pods })
}

/// The scaling adapters of a graph.
pub async fn adapters(connection: &Connection, graph: &str) -> Read<Vec<DynamoGraphDeploymentScalingAdapter>> {
    let all = connection.list::<DynamoGraphDeploymentScalingAdapter>("").await;
    all.map(|mut all| {
        all.retain(|adapter| adapter.spec.dgd_ref.name == graph);
        all
    })
}

/// All graphs of the namespace, or of all namespaces.
///
/// # Errors
/// They cannot be read, or the cluster does not serve them.
pub async fn graphs(connection: &Connection, all_namespaces: bool) -> anyhow::Result<Vec<DynamoGraphDeployment>> {
    let api: Api<DynamoGraphDeployment> = match all_namespaces {
        true => Api::all(connection.client.clone()),
        false => Api::namespaced(connection.client.clone(), &connection.namespace),
    };
    match list(&api, &ListParams::default()).await {
        Read::Missing => {
            anyhow::bail!("the cluster does not serve DynamoGraphDeployments; install the operator's CRDs")
        }
        read => read.or_error("DynamoGraphDeployments"),
    }
}

/// Of a Deployment.
pub fn of_deployment(deployment: &Deployment) -> ObservedWorkload {
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failed = conditions.into_iter().filter(|one| one.type_ == "ReplicaFailure" && one.status == "True");
    let failures = failed.filter_map(|one| one.message.clone());
    ObservedWorkload {
        kind: "Deployment".to_owned(),
        name: deployment.name_any(),
        component: owner(deployment),
        paused: deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true),
        desired: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        failures: failures.collect(),
    }
}

/// Of a LeaderWorkerSet.
pub fn of_leader_worker_set(set: &LeaderWorkerSet) -> ObservedWorkload {
    ObservedWorkload {
        kind: "LeaderWorkerSet".to_owned(),
        name: set.name_any(),
        component: owner(set),
        desired: set.spec.replicas.unwrap_or(1),
        ..ObservedWorkload::default()
    }
}

/// Of a Job.
pub fn of_job(job: &Job) -> ObservedWorkload {
    ObservedWorkload {
        kind: "Job".to_owned(),
        name: job.name_any(),
        paused: job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true),
        desired: 1,
        ..ObservedWorkload::default()
    }
}

fn owner(object: &impl Resource) -> Option<String> {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    Some(owner.name.clone())
}
