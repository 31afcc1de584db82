//! Components whose replicas span nodes, as LeaderWorkerSets, and their readiness.
//!
//! A LeaderWorkerSet has a group of pods for each replica of a component, so the readiness counts groups. Violations
//! that only show when replicas span nodes are in this file.

mod types;

use api_types::{
    annotations, labels, names,
    v1beta1::{ComponentKind, ComponentReplicaStatus, ComponentType, MAIN_CONTAINER},
    violations::Violation,
};
use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde_json::json;
pub use types::{
    LeaderWorkerSet, LeaderWorkerSetSpec, LeaderWorkerSetStatus, LeaderWorkerTemplate, note_status_before,
};

use self::types::is_observed;
use crate::{
    RenderInput, ValidatedComponent, WorkloadObject,
    digest::digest_of,
    frameworks::{MultinodePod, NodeRole, Peers},
    metadata::{Pairs, pod_template},
    pod,
};

/// Workers start with their leader: they wait for it by themselves where they have to.
const STARTUP: &str = "LeaderCreated";

/// The LeaderWorkerSet that runs a component whose replicas span nodes.
///
/// It carries the digest of its templates, see [`keep_live_pull_secrets`](crate::keep_live_pull_secrets()).
pub fn render_leader_worker_set(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> LeaderWorkerSet {
    let mut leader = template(input, valid, NodeRole::Leader);
    let mut worker = template(input, valid, NodeRole::Worker);
    let digest = digest_of(&[&leader, &worker]);
    for template in [&mut leader, &mut worker] {
        pod::add_pull_secrets(template.spec.get_or_insert_default(), input, valid);
    }
    let marks = Pairs::from([(annotations::TEMPLATE_DIGEST.to_owned(), digest)]);
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
            // One headless Service for all groups.
            network_config: Some(json!({ "subdomainPolicy": "Shared" })),
            // Changes of what engines run make a new set; this is for the rest, a restart for example. Without room for
            // more groups, one at a time goes.
            rollout_strategy: Some(json!({
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": { "maxSurge": 0, "maxUnavailable": 1, "partition": 0 },
            })),
        },
        status: None,
    }
}

fn template(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>, role: NodeRole) -> PodTemplateSpec {
    let multinode = MultinodePod { role, nodes: valid.spec().node_count(), peers: Peers::LeaderWorkerSet };
    let mut all_labels = valid.pod_labels(input);
    // The set selects its pods itself.
    all_labels.remove(labels::SELECTOR);
    all_labels.insert(labels::ROLE.to_owned(), role.as_str().to_owned());
    let mut pod = pod::render(input, valid, Some(multinode));
    // A pod template within a custom resource is stored as it was sent, and other clients send this field always.
    // Without it, the template of a set that another operator made would count as changed.
    for container in pod.containers.iter_mut().chain(pod.init_containers.iter_mut().flatten()) {
        container.resources.get_or_insert_default();
    }
    pod_template(all_labels, valid.pod_annotations(input), pod)
}

/// Most characters of the name of a StatefulSet. Its pods carry a label with this name, a hyphen and a hash of at most
/// ten characters; names of pods, which are host names too, add less. (kubernetes/kubernetes#64023,
/// kubernetes-sigs/lws#410)
const STATEFUL_SET_MAX: usize = names::LABEL_MAX - 11;

/// Looks for every violation that keeps a LeaderWorkerSet from running the component. One that `serves` has proved its
/// name: hashes of fewer than ten characters leave room for some more.
///
/// # Errors
/// All of them at once.
pub fn validate_leader_worker_set(valid: &ValidatedComponent<'_>, serves: bool) -> Result<(), Vec<Violation>> {
    let name = name_too_long(valid).filter(|_| !serves);
    let violations: Vec<Violation> = name.into_iter().chain(nothing_to_run(valid)).collect();
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// The longest name of a StatefulSet that a LeaderWorkerSet of this component needs, and how many characters it has too
/// many; `None` if it fits.
pub fn excess_of_names(component_deployment: &str, replicas: i64) -> Option<(String, usize)> {
    let longest = format!("{}-{}", names::leader_worker_set(component_deployment), (replicas - 1).max(0));
    let excess = longest.len().checked_sub(STATEFUL_SET_MAX).filter(|excess| *excess > 0)?;
    Some((longest, excess))
}

/// The workers of a group are a StatefulSet that is called after the set and the group. One with a longer name is made,
/// but each of its pods is refused.
fn name_too_long(valid: &ValidatedComponent<'_>) -> Option<Violation> {
    let (longest, excess) = excess_of_names(valid.name, valid.spec().desired_replicas().into())?;
    let problem = format!(
        "gives StatefulSets such as {longest}, and with more than {STATEFUL_SET_MAX} characters in its name none of \
         their pods can be created"
    );
    let remedy = format!("shorten the name of the component or of its graph, by {excess} at least");
    Some(Violation::invalid("metadata.name", valid.name, problem, remedy))
}

/// A shell that is given nothing to do ends at once. Frontends bring their own arguments along.
fn nothing_to_run(valid: &ValidatedComponent<'_>) -> Option<Violation> {
    let is_empty = |words: &Option<Vec<String>>| words.as_ref().is_none_or(Vec::is_empty);
    let nothing = is_empty(&valid.main.command) && is_empty(&valid.main.args);
    (nothing && valid.spec().type_ != Some(ComponentType::Frontend)).then(|| {
        let path = format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}].args");
        let problem = "is empty, and so is command: the nodes have nothing to run";
        Violation::required(path, problem, "give the command line that starts the engine")
    })
}

impl WorkloadObject for LeaderWorkerSet {
    fn object_meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn templates(&self) -> Vec<&PodTemplateSpec> {
        let template = &self.spec.leader_worker_template;
        template.leader_template.iter().chain([&template.worker_template]).collect()
    }

    fn templates_mut(&mut self) -> Vec<&mut PodTemplateSpec> {
        let template = &mut self.spec.leader_worker_template;
        template.leader_template.iter_mut().chain([&mut template.worker_template]).collect()
    }

    fn desired_replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn observed_generation(&self) -> Option<i64> {
        self.status.as_ref().and_then(|status| status.observed_generation)
    }

    fn has_served(&self) -> bool {
        self.is_available() || self.status.as_ref().is_some_and(|status| status.ready_replicas > 0)
    }

    fn is_observed(&self) -> bool {
        is_observed(self)
    }

    fn is_available(&self) -> bool {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.type_ == "Available" && condition.status == "True")
    }

    /// A set does not count available groups.
    fn replica_status(&self, runtime_namespace: String) -> ComponentReplicaStatus {
        let none = LeaderWorkerSetStatus::default();
        let status = self.status.as_ref().unwrap_or(&none);
        ComponentReplicaStatus {
            component_kind: ComponentKind::LeaderWorkerSet,
            component_names: self.metadata.name.iter().cloned().collect(),
            runtime_namespace: Some(runtime_namespace),
            replicas: status.replicas,
            updated_replicas: status.updated_replicas,
            ready_replicas: Some(status.ready_replicas),
            available_replicas: None,
            scheduled_replicas: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NotReady;

    /// 2 desired at generation 3, and everything in order but for `status`.
    fn with(replicas: i32, status: serde_json::Value) -> Option<NotReady> {
        let mut all = json!({
            "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas, "observedGeneration": 3,
            "conditions": [{
                "type": "Available", "status": "True", "reason": "AllGroupsReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        all.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
        let set = json!({
            "metadata": {"generation": 3},
            "spec": {"replicas": replicas, "leaderWorkerTemplate": {"workerTemplate": {}, "size": 2}},
            "status": all,
        });
        serde_json::from_value::<LeaderWorkerSet>(set).unwrap().why_not_ready()
    }

    #[test]
    fn every_way_of_not_being_ready_has_its_reason() {
        assert_eq!(with(2, json!({})), None);
        assert_eq!(with(2, json!({"observedGeneration": 2})), Some(NotReady::NotObserved));
        assert_eq!(with(2, json!({"updatedReplicas": 1})), Some(NotReady::Updating { updated: 1, desired: 2 }));
        assert_eq!(with(2, json!({"readyReplicas": 1})), Some(NotReady::Unavailable { available: 1, desired: 2 }));
        assert_eq!(with(2, json!({"replicas": 3})), Some(NotReady::Surplus { extra: 1 }));
        assert_eq!(with(2, json!({"conditions": []})), Some(NotReady::NoAvailableCondition));
    }

    #[test]
    fn zero_groups_are_ready_when_none_is_left() {
        assert_eq!(with(0, json!({"conditions": []})), None);
        assert_eq!(with(0, json!({"replicas": 1})), Some(NotReady::Surplus { extra: 1 }));
    }

    #[test]
    fn an_api_without_observed_generation_is_believed_while_no_template_changes() {
        assert_eq!(with(2, json!({"observedGeneration": null})), None);
    }
}
