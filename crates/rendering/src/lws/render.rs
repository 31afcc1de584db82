//! The LeaderWorkerSet of a component: a group of pods for each replica.

use api_types::{annotations, labels, names};
use k8s_openapi::{
    api::core::v1::{PodSpec, PodTemplateSpec},
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{
    GroupRollingUpdate, GroupRollout, LeaderWorkerSet, LeaderWorkerSetSpec, LeaderWorkerTemplate, NetworkConfig,
};
use crate::{
    RenderInput, TemplateDigest, ValidatedComponent, deployment,
    frameworks::{Multinode, NodeRole, Peers},
    metadata::{Pairs, some},
    pod,
};

/// Workers start with their leader: they wait for it by themselves where they have to.
const STARTUP: &str = "LeaderCreated";
const SUBDOMAIN: &str = "Shared";

/// The LeaderWorkerSet that runs a component whose replicas span nodes.
///
/// It carries the digest of its templates, see [`keep_live_pull_secrets`](crate::keep_live_pull_secrets()).
pub fn render_leader_worker_set(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> LeaderWorkerSet {
    let mut leader = template(input, valid, NodeRole::Leader);
    let mut worker = template(input, valid, NodeRole::Worker);
    let digest = TemplateDigest::of(&[&leader, &worker]);
    deployment::add_pull_secrets(&mut leader, input, valid);
    deployment::add_pull_secrets(&mut worker, input, valid);
    let marks = Pairs::from([(annotations::TEMPLATE_DIGEST.to_owned(), digest.to_string())]);
    LeaderWorkerSet {
        metadata: valid.object_meta(names::leader_worker_set(valid.name), valid.workload_labels(), marks),
        spec: LeaderWorkerSetSpec {
            replicas: Some(valid.replicas(input)),
            leader_worker_template: LeaderWorkerTemplate {
                leader_template: Some(leader),
                worker_template: worker,
                size: Some(valid.spec().node_count()),
            },
            startup_policy: Some(STARTUP.to_owned()),
            network_config: Some(NetworkConfig { subdomain_policy: SUBDOMAIN.to_owned() }),
            rollout_strategy: Some(rollout()),
        },
        status: None,
    }
}

/// Changes of what engines run make a new set; this is for the rest, a restart for example. Without room for more
/// groups, one at a time goes.
fn rollout() -> GroupRollout {
    let measure =
        GroupRollingUpdate { max_surge: IntOrString::Int(0), max_unavailable: IntOrString::Int(1), partition: 0 };
    GroupRollout { type_: "RollingUpdate".to_owned(), rolling_update_configuration: Some(measure) }
}

fn template(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>, role: NodeRole) -> PodTemplateSpec {
    let multinode = Multinode { role, nodes: valid.spec().node_count(), peers: Peers::LeaderWorkerSet };
    let mut all_labels = valid.pod_labels(input);
    // The set selects its pods itself.
    all_labels.remove(labels::SELECTOR);
    all_labels.insert(labels::ROLE.to_owned(), role.as_str().to_owned());
    let mut spec = pod::render(input, valid, Some(multinode));
    state_resources(&mut spec);
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: some(all_labels),
            annotations: some(valid.pod_annotations(input)),
            ..ObjectMeta::default()
        }),
        spec: Some(spec),
    }
}

/// A pod template within a custom resource is stored as it was sent, and other clients send this field always. Without
/// it, the template of a set that another operator made would count as changed.
fn state_resources(pod: &mut PodSpec) {
    for container in pod.containers.iter_mut().chain(pod.init_containers.iter_mut().flatten()) {
        container.resources.get_or_insert_default();
    }
}
