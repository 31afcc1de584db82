//! Readiness of a component, from Grove's status: whether it serves, and if not, the reason.

use api_types::{
    grove::{
        GroveReplicaStatus, PodClique, PodCliqueScalingGroup, UpdateProgress,
        conditions::{
            INSUFFICIENT_SCHEDULED_GROUP_REPLICAS, INSUFFICIENT_SCHEDULED_PODS, MIN_AVAILABLE_BREACHED,
            POD_CLIQUE_SCHEDULED,
        },
    },
    v1beta1::{ComponentKind, ComponentReplicaStatus},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A component on Grove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroveReadiness {
    /// Its counts, without the Dynamo namespace.
    pub replicas: ComponentReplicaStatus,
    /// Reason why it is not ready, in words, and its kind; `None` if there is none.
    pub not_ready: Option<(Classification, String)>,
    /// Whether fewer pods or replicas serve than are desired.
    pub lacks_pods: bool,
    /// Progress towards the PodCliqueSet's template.
    pub revision: TemplateProgress,
}

/// Kinds of things that keep a component from being ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classification {
    /// Grove has not reconciled it, or not made it yet.
    NotLookedAt,
    /// Pods have a scheduling gate.
    Gated,
    /// Pods find no place.
    Capacity,
    /// Pods are being replaced.
    Updating,
    /// Pods have a place and are not ready.
    Pods,
}

/// Progress of a component towards the PodCliqueSet's template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateProgress {
    /// The template that it follows, if all its pods do; `None` while they are being replaced, or before anything is
    /// known.
    pub complete: Option<String>,
    /// Whether there are pods to follow, and Grove says which template they follow. Older versions do not.
    pub is_reported: bool,
}

impl TemplateProgress {
    /// Whether pods are of another template than the one that Grove has accepted for the whole PodCliqueSet.
    #[must_use]
    pub fn is_behind(&self, accepted: &str) -> bool {
        self.is_reported && self.complete.as_deref() != Some(accepted)
    }
}

/// A live object of either kind.
struct ScaledObject<'a> {
    kind: ComponentKind,
    desired: i32,
    generation: Option<i64>,
    status: &'a GroveReplicaStatus,
}

/// A component that is a clique by itself; `None` if Grove has not made it yet.
pub fn clique_readiness(name: &str, live: Option<&PodClique>) -> GroveReadiness {
    let Some(live) = live else { return missing(ComponentKind::PodClique, name) };
    let status = &live.status.clone().unwrap_or_default();
    let (desired, generation) = (live.spec.replicas, live.metadata.generation);
    let object = ScaledObject { kind: ComponentKind::PodClique, desired, generation, status };
    let blocked = match status.schedule_gated_replicas {
        0 => unscheduled(&status.conditions, POD_CLIQUE_SCHEDULED, INSUFFICIENT_SCHEDULED_PODS),
        gated => Some((
            Classification::Gated,
            format!(
                "{gated} pods have a scheduling gate, which Grove removes when their whole gang can be placed; \
                 with room on the nodes that takes a few seconds"
            ),
        )),
    };
    object.judge(name, blocked)
}

/// A component that is a scaling group; `None` if Grove has not made it yet.
pub fn group_readiness(name: &str, live: Option<&PodCliqueScalingGroup>) -> GroveReadiness {
    let Some(live) = live else { return missing(ComponentKind::PodCliqueScalingGroup, name) };
    let status = &live.status.clone().unwrap_or_default();
    let (desired, generation) = (live.spec.replicas, live.metadata.generation);
    let object = ScaledObject { kind: ComponentKind::PodCliqueScalingGroup, desired, generation, status };
    let blocked = unscheduled(&status.conditions, MIN_AVAILABLE_BREACHED, INSUFFICIENT_SCHEDULED_GROUP_REPLICAS);
    object.judge(name, blocked)
}

/// Message of a condition that is false for this reason: pods find no place.
fn unscheduled(conditions: &[Condition], type_: &str, reason: &str) -> Option<(Classification, String)> {
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    let is_so = found.status == "False" && found.reason == reason;
    is_so.then(|| (Classification::Capacity, format!("{reason}: {}", found.message)))
}

fn missing(kind: ComponentKind, name: &str) -> GroveReadiness {
    GroveReadiness {
        replicas: empty(kind, name),
        not_ready: Some((Classification::NotLookedAt, format!("Grove has not made {kind:?} {name} yet"))),
        lacks_pods: false,
        revision: TemplateProgress::default(),
    }
}

fn empty(kind: ComponentKind, name: &str) -> ComponentReplicaStatus {
    ComponentReplicaStatus {
        component_kind: kind,
        component_names: vec![name.to_owned()],
        runtime_namespace: None,
        replicas: 0,
        updated_replicas: 0,
        ready_replicas: None,
        available_replicas: None,
        scheduled_replicas: None,
    }
}

impl ScaledObject<'_> {
    fn is_observed(&self) -> bool {
        self.status.observed_generation.is_some_and(|observed| observed >= self.generation.unwrap_or(0))
    }

    /// Grove counts ready pods of a clique, and available replicas of a scaling group.
    fn serving(&self) -> i32 {
        if self.kind == ComponentKind::PodClique { self.status.ready_replicas } else { self.status.available_replicas }
    }

    /// Whether Grove replaces pods by those of a newer template. The observed generation lags until that has ended.
    fn is_updating(&self) -> bool {
        self.status.update_progress.as_ref().is_some_and(UpdateProgress::is_running)
    }

    fn judge(&self, name: &str, blocked: Option<(Classification, String)>) -> GroveReadiness {
        let GroveReplicaStatus { replicas, updated_replicas, scheduled_replicas, .. } = *self.status;
        let not_ready = self.obstacle(blocked).map(|(classification, mut message)| {
            for error in &self.status.last_errors {
                message = format!("{message}; {}: {}", error.code, error.description);
            }
            (classification, message)
        });
        let settled = self.is_observed() && replicas == self.desired && updated_replicas == self.desired;
        let hash = self.status.current_pod_clique_set_generation_hash.as_ref();
        let complete = hash.filter(|_| settled && !self.is_updating()).cloned();
        let is_clique = self.kind == ComponentKind::PodClique;
        let replicas = ComponentReplicaStatus {
            replicas,
            updated_replicas,
            ready_replicas: is_clique.then_some(self.serving()),
            available_replicas: (!is_clique).then_some(self.serving()),
            scheduled_replicas: self.is_observed().then_some(scheduled_replicas),
            ..empty(self.kind, name)
        };
        GroveReadiness {
            replicas,
            not_ready,
            lacks_pods: self.serving() < self.desired,
            revision: TemplateProgress { complete, is_reported: hash.is_some() && self.desired > 0 },
        }
    }

    /// The first thing that is not as it should be. Full counts come before what conditions say: those may be older.
    fn obstacle(&self, blocked: Option<(Classification, String)>) -> Option<(Classification, String)> {
        let GroveReplicaStatus { replicas, updated_replicas: updated, scheduled_replicas: scheduled, .. } =
            *self.status;
        let (desired, serving) = (self.desired, self.serving());
        let (unit, serving_word) =
            if self.kind == ComponentKind::PodClique { ("pods", "ready") } else { ("replicas", "available") };
        if !self.is_observed() && !self.is_updating() {
            return Some((Classification::NotLookedAt, "Grove has not reconciled the latest spec yet".to_owned()));
        }
        if self.is_observed() && replicas == desired && updated == desired && serving == desired {
            return None;
        }
        if desired == 0 {
            // Pods on their way out are no replicas any more; the other counts have them.
            let left = replicas.max(updated).max(serving);
            let text = format!("{left} {unit} that are no longer desired are still there");
            return Some((Classification::Updating, text));
        }
        let progress = || {
            let surplus = if replicas > desired { format!(", {replicas} exist") } else { String::new() };
            let text = format!(
                "{updated} of {desired} {unit} have the current template{surplus}, {serving} are {serving_word}"
            );
            (Classification::Updating, text)
        };
        if self.is_updating() {
            return Some(progress());
        }
        if blocked.is_some() {
            return blocked;
        }
        if scheduled > 0 && scheduled < desired {
            return Some((Classification::Capacity, format!("{scheduled} of {desired} have a place")));
        }
        if updated != desired || replicas != desired {
            return Some(progress());
        }
        Some((Classification::Pods, format!("{serving} of {desired} are {serving_word}")))
    }
}

#[cfg(test)]
mod tests;
