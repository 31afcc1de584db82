//! State of the namespace or the cluster rather than of one object.

use api_types::{gpus::is_gpu, labels};
use controller_kit::scope::MARKER_LEASE;
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{Event, Namespace, Node, ResourceQuota},
};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::connection::{LIMIT, Read, get, list};
use crate::diagnosis::{InstallMarker, NamespaceWarning, NodeFacts, Program};

/// Label selector of what the operator's chart installs.
pub const OF_OPERATOR: &str = "app.kubernetes.io/part-of=dynamo-operator";

/// Warnings of a namespace, the latest first.
pub async fn warnings(client: &Client, namespace: &str) -> Read<Vec<NamespaceWarning>> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    list(&api, &ListParams::default().fields("type=Warning")).await.map(|events| {
        let mut all: Vec<_> = events.into_iter().map(warning).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.last));
        all
    })
}

fn warning(event: Event) -> NamespaceWarning {
    let series = event.series.as_ref();
    let times = [
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        series.and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0),
        event.metadata.creation_timestamp.as_ref().map(|time| time.0),
    ];
    NamespaceWarning {
        kind: event.involved_object.kind.unwrap_or_default(),
        name: event.involved_object.name.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
        last: times.into_iter().flatten().max(),
    }
}

/// The nodes.
pub async fn nodes(client: &Client) -> Read<Vec<NodeFacts>> {
    let api: Api<Node> = Api::all(client.clone());
    list(&api, &ListParams::default()).await.map(|nodes| nodes.iter().map(facts).collect())
}

fn facts(node: &Node) -> NodeFacts {
    let (spec, status) = (node.spec.clone().unwrap_or_default(), node.status.clone().unwrap_or_default());
    let conditions = status.conditions.unwrap_or_default();
    let pressures = conditions.iter().filter(|one| one.type_.ends_with("Pressure") && one.status == "True");
    NodeFacts {
        name: node.name_any(),
        labels: node.labels().clone(),
        taints: spec.taints.unwrap_or_default(),
        cordoned: spec.unschedulable == Some(true),
        pressures: pressures.map(|one| one.type_.clone()).collect(),
        not_ready: !conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"),
        has_gpus: status.allocatable.iter().flatten().any(|(name, amount)| is_gpu(name) && amount.0 != "0"),
        architecture: status.node_info.map(|info| info.architecture).unwrap_or_default(),
    }
}

/// Messages on why a namespace that is being deleted remains.
pub async fn terminating(client: &Client, namespace: &str) -> Option<Vec<String>> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = get(&api, namespace).await.found()?;
    found.metadata.deletion_timestamp.as_ref()?;
    let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
    Some(conditions.into_iter().filter(|one| one.status == "True").filter_map(|one| one.message).collect())
}

/// API groups that the cluster serves; none if it does not answer.
pub async fn groups(client: &Client) -> Option<Vec<String>> {
    let groups = tokio::time::timeout(LIMIT, client.list_api_groups()).await.ok()?.ok()?;
    Some(groups.groups.into_iter().map(|group| group.name).collect())
}

/// The programs of the operator, in all namespaces.
pub async fn programs(client: &Client) -> Read<Vec<Program>> {
    let api: Api<Deployment> = Api::all(client.clone());
    let all = list(&api, &ListParams::default().labels(OF_OPERATOR)).await;
    all.map(|deployments| deployments.iter().map(program).collect())
}

fn program(deployment: &Deployment) -> Program {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let image = pod.and_then(|pod| pod.containers.first()?.image.clone()).unwrap_or_default();
    // What follows the last slash: a port of the registry is no tag.
    let name = image.rsplit('/').next().unwrap_or_default();
    let version = name.split_once('@').or_else(|| name.split_once(':')).map_or("-", |(_, version)| version);
    Program {
        name: deployment.labels().get(labels::APP_COMPONENT).cloned().unwrap_or_else(|| deployment.name_any()),
        namespace: deployment.namespace().unwrap_or_default(),
        version: version.to_owned(),
        ready: deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default(),
        desired: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
    }
}

/// The marker of a namespace.
pub async fn marker(client: &Client, namespace: &str) -> Read<InstallMarker> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    get(&api, MARKER_LEASE).await.map(of_lease)
}

/// The markers of all namespaces.
pub async fn markers(client: &Client) -> Read<Vec<InstallMarker>> {
    let api: Api<Lease> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={MARKER_LEASE}"));
    list(&api, &named).await.map(|leases| leases.into_iter().map(of_lease).collect())
}

fn of_lease(lease: Lease) -> InstallMarker {
    let spec = lease.spec.unwrap_or_default();
    InstallMarker {
        namespace: lease.metadata.namespace.unwrap_or_default(),
        holder: spec.holder_identity.unwrap_or_default(),
        renewed: spec.renew_time.map(|time| time.0),
        seconds: i64::from(spec.lease_duration_seconds.unwrap_or_default()),
    }
}

/// Resources of a quota: its name, the resource, how much is used, and the limit.
pub fn quota(quota: &ResourceQuota) -> Vec<(String, String, String, String)> {
    let status = quota.status.clone().unwrap_or_default();
    let used = status.used.unwrap_or_default();
    let hard = status.hard.unwrap_or_default().into_iter();
    hard.map(|(resource, limit)| {
        let used = used.get(&resource).map(|used| used.0.clone()).unwrap_or_else(|| "0".to_owned());
        (quota.name_any(), resource, used, limit.0)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_program_is_the_tag_or_the_digest_of_its_image() {
        for (image, version) in [
            ("r.example:5000/team/graph-controller:1.2.3", "1.2.3"),
            ("r.example/graph-controller@sha256:ab", "sha256:ab"),
            ("r.example:5000/graph-controller", "-"),
        ] {
            let deployment = serde_json::json!({ "spec": { "selector": {}, "template": { "spec": { "containers": [
                { "name": "main", "image": image },
            ] } } } });
            assert_eq!(program(&serde_json::from_value(deployment).unwrap()).version, version);
        }
    }
}
