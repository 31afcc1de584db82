//! Reads all that a diagnosis is made from: the object, then its children and the cluster, then what they name.

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    labels, names,
    v1alpha1::{DynamoCheckpoint, DynamoModel},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentRequest},
};
use futures::future::join_all;
use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ResourceQuota, Secret},
    resource::v1::ResourceClaim,
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use rendering::LeaderWorkerSet;

use super::{
    cluster,
    connection::{Connection, Read, ReadableKind, exists, list},
    family::{adapters, of_deployment, of_graph, of_job, of_leader_worker_set},
    logs::log,
    target::{Kind, TargetObject},
};
use crate::diagnosis::{CONVERSION, DiagnosisInputs, ObservedWorkload, Subject, needs};

/// Most endpoints of a model whose pods are read, and most containers whose logs are.
const MOST: usize = 20;
const MOST_LOGS: usize = 5;
/// Longest line of a log, and how many lines and bytes of its end are read.
const LONGEST: usize = 300;
const LINES: i64 = 60;
const BYTES: i64 = 64 * 1024;

/// Observes an object.
///
/// # Errors
/// The object does not exist or cannot be read. What else cannot be read is in `not_read`.
pub async fn observe(connection: &Connection, target: &TargetObject) -> anyhow::Result<DiagnosisInputs> {
    let mut observed = DiagnosisInputs::default();
    let children = match target.kind {
        Kind::Graph => graph(connection, &target.name, &mut observed).await,
        Kind::Component => component(connection, &target.name, &mut observed).await,
        Kind::Model => model(connection, &target.name, &mut observed).await,
        Kind::Request => request(connection, &target.name, &mut observed).await,
        Kind::Checkpoint => checkpoint(connection, &target.name, &mut observed).await,
    };
    let children = children.or_else(|error| unconverted(error, connection, target, &mut observed))?;
    children_of(connection, children, &mut observed).await;
    named(connection, &mut observed).await;
    Ok(observed)
}

/// An object that the API server has and cannot convert: of it, only the name is known.
fn unconverted(
    error: anyhow::Error,
    connection: &Connection,
    target: &TargetObject,
    observed: &mut DiagnosisInputs,
) -> anyhow::Result<Children> {
    let why = error.to_string();
    if !why.contains(CONVERSION) {
        return Err(error);
    }
    observed.root = Subject {
        kind: target.kind.resource().kind,
        name: target.name.clone(),
        namespace: connection.namespace.clone(),
        ..Subject::default()
    };
    observed.not_read.push(why);
    Ok(Children::default())
}

/// Reads of the children of an object.
#[derive(Default)]
struct Children {
    /// Label selectors of its pods.
    pods: Vec<String>,
    /// Names of single pods.
    single_pods: Vec<String>,
    /// Label selector of its workloads.
    workloads: Option<String>,
    /// Names of a Deployment and a LeaderWorkerSet.
    own_workloads: Option<(String, String)>,
    /// Name of its Job.
    job: Option<String>,
}

async fn graph(connection: &Connection, name: &str, observed: &mut DiagnosisInputs) -> anyhow::Result<Children> {
    let graph: DynamoGraphDeployment = connection.require(name).await?;
    let of_graph = of_graph(name);
    let status = graph.status.clone().unwrap_or_default();
    let checkpoints = status.checkpoints.values().filter_map(|one| one.checkpoint_name.clone());
    let reads = join_all(checkpoints.map(|name| async move { connection.get::<DynamoCheckpoint>(&name).await }));
    let (components, checkpoints, adapters) =
        tokio::join!(connection.list::<DynamoComponentDeployment>(&of_graph), reads, adapters(connection, name));
    observed.root = Subject::of_graph(&graph);
    observed.graph = Some(graph);
    observed.components = kept(components, "DynamoComponentDeployments", &mut observed.not_read);
    observed.adapters = kept(adapters, "DynamoGraphDeploymentScalingAdapters", &mut observed.not_read);
    observed.checkpoints = checkpoints.into_iter().filter_map(Read::found).collect();
    Ok(Children { pods: vec![of_graph.clone()], workloads: Some(of_graph), ..Children::default() })
}

async fn component(connection: &Connection, name: &str, observed: &mut DiagnosisInputs) -> anyhow::Result<Children> {
    let component: DynamoComponentDeployment = connection.require(name).await?;
    let set = names::leader_worker_set(name);
    observed.root = Subject::of_component(&component);
    observed.components = vec![component];
    Ok(Children {
        pods: vec![format!("{}={name}", labels::SELECTOR), format!("{}={set}", labels::LEADER_WORKER_SET)],
        own_workloads: Some((name.to_owned(), set)),
        ..Children::default()
    })
}

async fn model(connection: &Connection, name: &str, observed: &mut DiagnosisInputs) -> anyhow::Result<Children> {
    let model: DynamoModel = connection.require(name).await?;
    let endpoints = model.status.iter().flat_map(|status| &status.endpoints).filter(|endpoint| !endpoint.ready);
    let single_pods = endpoints.filter_map(|endpoint| endpoint.pod_name.clone()).take(MOST).collect();
    observed.root = Subject::of_model(&model);
    Ok(Children { single_pods, ..Children::default() })
}

async fn request(connection: &Connection, name: &str, observed: &mut DiagnosisInputs) -> anyhow::Result<Children> {
    let request: DynamoGraphDeploymentRequest = connection.require(name).await?;
    observed.root = Subject::of_request(&request);
    Ok(of_job_named(request.status.and_then(|status| status.profiling_job_name)))
}

async fn checkpoint(connection: &Connection, name: &str, observed: &mut DiagnosisInputs) -> anyhow::Result<Children> {
    let checkpoint: DynamoCheckpoint = connection.require(name).await?;
    observed.root = Subject::of_checkpoint(&checkpoint);
    let job = checkpoint.status.as_ref().and_then(|status| status.job_name.clone());
    observed.checkpoints = vec![checkpoint];
    Ok(of_job_named(job))
}

fn of_job_named(job: Option<String>) -> Children {
    let pods = job.iter().map(|job| format!("{}={job}", labels::JOB_NAME)).collect();
    Children { pods, job, ..Children::default() }
}

async fn children_of(connection: &Connection, children: Children, observed: &mut DiagnosisInputs) {
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    let pods = join_all(children.pods.iter().map(|labels| connection.list::<Pod>(labels)));
    let single = join_all(children.single_pods.iter().map(|name| connection.get::<Pod>(name)));
    let (pods, single, workloads, quotas, warnings, nodes, groups, programs, marker, terminating) = tokio::join!(
        pods,
        single,
        workloads(connection, &children),
        connection.list::<ResourceQuota>(""),
        cluster::warnings(client, namespace),
        cluster::nodes(client),
        cluster::groups(client),
        cluster::programs(client),
        cluster::marker(client, namespace),
        cluster::terminating(client, namespace),
    );
    let not_read = &mut observed.not_read;
    for read in pods {
        observed.pods.extend(kept(read, "Pods", not_read));
    }
    observed.pods.extend(single.into_iter().filter_map(Read::found));
    observed.workloads = workloads;
    observed.quotas = quotas.found().unwrap_or_default().iter().flat_map(cluster::quota).collect();
    observed.warnings = kept(warnings, "Events", not_read);
    // These are of the whole cluster; users of one namespace mostly may not read them.
    observed.nodes = nodes.found();
    observed.groups = groups;
    observed.programs = programs.found();
    observed.marker = marker.found();
    observed.terminating = terminating;
}

async fn workloads(connection: &Connection, children: &Children) -> Vec<ObservedWorkload> {
    let mut all = Vec::new();
    if let Some(labels) = &children.workloads {
        let (deployments, sets) =
            tokio::join!(connection.list::<Deployment>(labels), connection.list::<LeaderWorkerSet>(labels));
        all.extend(deployments.found().unwrap_or_default().iter().map(of_deployment));
        all.extend(sets.found().unwrap_or_default().iter().map(of_leader_worker_set));
    }
    if let Some((deployment, set)) = &children.own_workloads {
        let (deployment, set) =
            tokio::join!(connection.get::<Deployment>(deployment), connection.get::<LeaderWorkerSet>(set));
        all.extend(deployment.found().as_ref().map(of_deployment));
        all.extend(set.found().as_ref().map(of_leader_worker_set));
    }
    if let Some(job) = &children.job {
        all.extend(connection.get::<Job>(job).await.found().as_ref().map(of_job));
    }
    all
}

/// Returns what was read, and notes a failed read.
fn kept<T: Default>(read: Read<T>, what: &str, not_read: &mut Vec<String>) -> T {
    if let Read::Unknown(why) = &read {
        not_read.push(format!("{what}: {why}"));
    }
    read.found().unwrap_or_default()
}

/// Reads logs, and what the pods name that are not ready. Of Secrets and ConfigMaps only the metadata is read.
async fn named(connection: &Connection, observed: &mut DiagnosisInputs) {
    let needs = needs(&observed.pods);
    let secrets = presence::<Secret>(connection, &needs.secrets);
    let config_maps = presence::<ConfigMap>(connection, &needs.config_maps);
    let device_claims = presence::<ResourceClaim>(connection, &needs.device_claims);
    let claims = async {
        let reads = needs.claims.iter().map(|name| async move {
            match connection.get::<PersistentVolumeClaim>(name).await {
                Read::Found(claim) => Some((name.clone(), Some(claim))),
                Read::Missing => Some((name.clone(), None)),
                Read::Unknown(_) => None,
            }
        });
        join_all(reads).await.into_iter().flatten().collect()
    };
    let classes = async {
        if needs.claims.is_empty() {
            return None;
        }
        let all = list::<StorageClass>(&Api::all(connection.client.clone()), &ListParams::default()).await.found()?;
        let is_default =
            |class: &StorageClass| class.annotations().get(DEFAULT_CLASS).is_some_and(|value| value == labels::TRUE);
        Some(all.iter().map(|class| (class.name_any(), is_default(class))).collect())
    };
    let logs = logs(connection, &observed.pods);
    (
        observed.secrets,
        observed.config_maps,
        observed.claims,
        observed.device_claims,
        observed.storage_classes,
        observed.logs,
    ) = tokio::join!(secrets, config_maps, claims, device_claims, classes, logs);
}

/// Annotation of the default storage class.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

async fn presence<K: ReadableKind>(connection: &Connection, names: &BTreeSet<String>) -> BTreeMap<String, bool> {
    let api: Api<K> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let api = &api;
    let reads = join_all(names.iter().map(|name| async move { (name.clone(), exists(api, name).await) })).await;
    reads.into_iter().filter_map(|(name, known)| Some((name, known?))).collect()
}

/// The ends of the logs of containers that ended badly.
async fn logs(connection: &Connection, pods: &[Pod]) -> BTreeMap<(String, String), String> {
    let ended = pods.iter().flat_map(ended_containers).take(MOST_LOGS);
    let reads = ended.map(|(pod, container, previous)| async move {
        let params = LogParams {
            container: Some(container.clone()),
            previous,
            tail_lines: Some(LINES),
            limit_bytes: Some(BYTES),
            ..LogParams::default()
        };
        let text = log(connection, &pod, &params).await.ok()?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let lines = lines.map(|line| status_view::one_line(&line.chars().take(LONGEST).collect::<String>()));
        let end = lines.collect::<Vec<_>>().join("\n");
        (!end.is_empty()).then_some(((pod, container), end))
    });
    join_all(reads).await.into_iter().flatten().collect()
}

/// Pod, container, and whether its previous run is the one that ended.
fn ended_containers(pod: &Pod) -> Vec<(String, String, bool)> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.filter_map(|container| {
        let bad = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
            state.as_ref().and_then(|state| state.terminated.as_ref()).is_some_and(|end| end.exit_code != 0)
        };
        let previous = match (bad(&container.state), bad(&container.last_state) && !container.ready) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => return None,
        };
        Some((pod.name_any(), container.name.clone(), previous))
    })
    .collect()
}
