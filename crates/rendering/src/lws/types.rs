//! The part of the API of LeaderWorkerSets that matters here, and whether the status of one is that of its present
//! spec. Objects that others made may hold more.

use api_types::annotations;
use k8s_openapi::{
    Metadata, NamespaceResourceScope, Resource,
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{WorkloadObject, carried_digest, digest::digest_of};

/// Groups of pods: in each, a leader and the workers that follow it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaderWorkerSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    pub spec: LeaderWorkerSetSpec,
    /// Observed state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<LeaderWorkerSetStatus>,
}

/// Desired state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerSetSpec {
    /// Groups; 1 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// A group.
    pub leader_worker_template: LeaderWorkerTemplate,
    /// Event after which the workers of a group are created: `LeaderCreated` or `LeaderReady`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_policy: Option<String>,
    /// DNS names of pods; opaque, because it is only written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_config: Option<Value>,
    /// Strategy by which groups change to another template; opaque.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<Value>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerTemplate {
    /// Its leader; like a worker if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_template: Option<PodTemplateSpec>,
    /// Its workers.
    pub worker_template: PodTemplateSpec,
    /// Pods of a group, the leader included; 1 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
}

/// Observed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerSetStatus {
    /// Conditions; `Available`, `Progressing` and `UpdateInProgress` among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Groups that serve.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Groups of the present template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Groups.
    #[serde(default)]
    pub replicas: i32,
    /// Observed generation; older versions of the API lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Resource for LeaderWorkerSet {
    const API_VERSION: &'static str = "leaderworkerset.x-k8s.io/v1";
    const GROUP: &'static str = "leaderworkerset.x-k8s.io";
    const KIND: &'static str = "LeaderWorkerSet";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "leaderworkersets";
    type Scope = NamespaceResourceScope;
}

impl Metadata for LeaderWorkerSet {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A status that is that of an earlier template.
///
/// Only the newest API has `status.observedGeneration`. With an older one, the status that was there when the template
/// changed is noted on the set, in the same write, and does not count until it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StatusBefore {
    /// Generation of the set before the template changed.
    generation: i64,
    /// Digest of the status.
    status: String,
    /// Digest of the template that the status describes; empty if unknown.
    template: String,
}

impl StatusBefore {
    fn read(set: &LeaderWorkerSet) -> Option<Self> {
        let text = set.metadata.annotations.as_ref()?.get(annotations::STATUS_BEFORE)?;
        let mut parts = text.split('/').map(str::to_owned);
        let generation = parts.next()?.parse().ok()?;
        Some(Self { generation, status: parts.next()?, template: parts.next()? })
    }

    fn write(&self) -> String {
        format!("{}/{}/{}", self.generation, self.status, self.template)
    }

    /// Whether the set still has that status, and a later spec.
    fn is_of(&self, set: &LeaderWorkerSet) -> bool {
        set.metadata.generation.unwrap_or(0) > self.generation && digest_of(&set.status) == self.status
    }
}

/// Whether the status describes the present spec. Of a set without groups, there is nothing to wait for.
pub(super) fn is_observed(set: &LeaderWorkerSet) -> bool {
    if let Some(observed) = set.observed_generation() {
        return observed >= set.metadata.generation.unwrap_or(0);
    }
    let is_empty = set.desired_replicas() == 0 && set.status.as_ref().is_none_or(|status| status.replicas == 0);
    is_empty || StatusBefore::read(set).is_none_or(|before| !before.is_of(set))
}

/// Notes on a rendered set which status is about an earlier template, where the API does not say it. `same_templates`
/// is whether the live templates mean the same as the rendered ones. Returns whether the note is new: then it holds
/// only for the live object as it is, down to its status.
pub fn note_status_before(rendered: &mut LeaderWorkerSet, live: &LeaderWorkerSet, same_templates: bool) -> bool {
    if live.observed_generation().is_some() || live.status.is_none() {
        return false;
    }
    let template = |set: &LeaderWorkerSet| carried_digest(set).unwrap_or_default().to_owned();
    let known = StatusBefore::read(live);
    let desired = template(rendered);
    let changed = desired != template(live) && !same_templates;
    let noted = if !changed {
        known
    } else {
        // Of two changes, the controller of the set may have seen neither.
        let spoken_of = known.filter(|known| known.is_of(live)).map_or_else(|| template(live), |known| known.template);
        let generation = live.metadata.generation.unwrap_or(0);
        let before = StatusBefore { generation, status: digest_of(&live.status), template: spoken_of };
        // A revert to the template that the status describes.
        Some(before).filter(|before| before.template != desired)
    };
    if let Some(noted) = noted {
        let marks = rendered.metadata.annotations.get_or_insert_default();
        marks.insert(annotations::STATUS_BEFORE.to_owned(), noted.write());
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::NotReady;

    /// A set of two groups with this template, whose API has no observed generation.
    fn set(template: &str, generation: i64, status: &Value) -> LeaderWorkerSet {
        serde_json::from_value(json!({
            "metadata": { "generation": generation, "annotations": { "operator.dynamo/template-digest": template } },
            "spec": { "replicas": 2, "leaderWorkerTemplate": { "workerTemplate": {}, "size": 2 } },
            "status": status,
        }))
        .unwrap()
    }

    fn status(updated: i32, since: &str) -> Value {
        json!({ "replicas": 2, "readyReplicas": 2, "updatedReplicas": updated, "conditions": [{
            "type": "Available", "status": "True", "reason": "AllGroupsReady", "message": "", "lastTransitionTime": since }] })
    }

    /// The set after a write of this template: the API server leaves the status, and counts the generation.
    fn written(live: &LeaderWorkerSet, template: &str) -> LeaderWorkerSet {
        let same = carried_digest(live) == Some(template);
        let mut set = set(template, 0, &Value::Null);
        let _ = note_status_before(&mut set, live, same);
        set.metadata.generation = live.metadata.generation.map(|generation| generation + i64::from(!same));
        set.status.clone_from(&live.status);
        set
    }

    /// Defect: ready at once after an edit, with the counts of before, and so restarted before the first pod ended.
    #[test]
    fn the_status_of_an_earlier_template_does_not_count() {
        let first = set("a", 1, &status(2, "2026-01-01T00:00:00Z"));
        assert_eq!(first.why_not_ready(), None);
        let edited = written(&first, "b");
        assert_eq!(edited.why_not_ready(), Some(NotReady::NotObserved));
        assert_eq!(written(&edited, "b").why_not_ready(), Some(NotReady::NotObserved), "reconciled again");
        let mut rolling = edited.clone();
        rolling.status = serde_json::from_value(status(0, "2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(rolling.why_not_ready(), Some(NotReady::Updating { updated: 0, desired: 2 }));
        let mut done = written(&rolling, "b");
        done.status = serde_json::from_value(status(2, "2026-01-01T00:05:00Z")).unwrap();
        assert_eq!(done.why_not_ready(), None);
    }

    #[test]
    fn a_second_edit_and_a_revert_before_the_first_was_seen() {
        let first = set("a", 1, &status(2, "2026-01-01T00:00:00Z"));
        let edited = written(&written(&first, "b"), "c");
        assert_eq!(edited.why_not_ready(), Some(NotReady::NotObserved));
        let reverted = written(&edited, "a");
        assert_eq!(reverted.why_not_ready(), None, "the status is of this spec");
        let mut seen = written(&first, "b");
        seen.status = serde_json::from_value(status(1, "2026-01-01T00:00:00Z")).unwrap();
        let reverted = written(&seen, "a");
        assert_eq!(reverted.why_not_ready(), Some(NotReady::NotObserved), "groups of b may exist");
    }

    #[test]
    fn a_write_that_changes_no_template_takes_no_status_away() {
        let first = set("a", 1, &status(2, "2026-01-01T00:00:00Z"));
        let mut other_notation = set("b", 0, &Value::Null);
        assert!(!note_status_before(&mut other_notation, &first, true));
        assert!(StatusBefore::read(&other_notation).is_none());
        let mut newest = first.clone();
        newest.status.as_mut().unwrap().observed_generation = Some(1);
        let mut edited = set("b", 0, &Value::Null);
        assert!(!note_status_before(&mut edited, &newest, false), "the API says it itself");
        let mut empty = written(&first, "b");
        empty.spec.replicas = Some(0);
        empty.status.as_mut().unwrap().replicas = 0;
        assert!(is_observed(&empty), "there is no group whose template could be old");
    }
}
