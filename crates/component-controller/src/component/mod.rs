//! Reconciles `DynamoComponentDeployment`: a Deployment or a LeaderWorkerSet, and a Service.
//!
//! The next pass comes after a pause where no watch shows the awaited change. This file computes the pause.

pub mod apply;
pub mod events;
pub mod legacy;
pub mod model;
pub mod observe;
pub mod plan;
pub mod status;
pub mod validate;

use std::time::Duration;

use api_types::{
    LEGACY_FINALIZER,
    v1beta1::{DynamoComponentDeployment, DynamoComponentDeploymentStatus},
};
use controller_kit::{
    claims::claimed_gpus,
    conditions::age,
    controller::{Action, Conclusion, Outputs, Pace, Reconcile},
    pods::PodDiagnostics,
    request::Interruption,
    store::{Packed, UnpackError, controller_owner},
};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};
use rendering::{Diagnosis, PodSettings};

use self::{
    model::{Applied, Blocked, NamedPullSecrets, Observed, Plan, WorkloadKind},
    observe::{Observer, pods},
    status::StatusInputs,
};

/// Reconciles components.
pub struct Reconciler {
    /// Reads.
    pub observer: Observer,
    /// Diagnoses pods that do not become ready.
    pub pods: PodDiagnostics<Diagnosis>,
    /// Writes.
    pub outputs: Outputs,
    /// Settings of the operator that reach pods.
    pub settings: PodSettings,
}

impl Reconcile for Reconciler {
    type Object = DynamoComponentDeployment;
    type Observed = Observed;
    /// The error is an object that cannot be written as JSON; never for a valid component.
    type Plan = Result<Result<Plan, Blocked>, Interruption>;
    type Applied = Result<Applied, Blocked>;
    type Status = DynamoComponentDeploymentStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Removes the finalizer of the upstream operator. Children are deleted by their owner references.
    async fn finalize(&self, packed: &Packed<DynamoComponentDeployment>) -> Result<Action, Interruption> {
        self.outputs.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::await_change())
    }

    fn unreadable(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        _: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<DynamoComponentDeploymentStatus>> {
        // An unreadable child is no violation of the component's.
        let blocked = validate::invalid_spec(packed.unpack().err()?.to_string());
        let live: Option<DynamoComponentDeploymentStatus> = serde_json::from_value(packed.status()).ok();
        let inputs = StatusInputs::from_unreadable(packed.metadata.generation, live.as_ref(), &blocked);
        let status = Some(status::status(live.as_ref(), &inputs, now));
        Some(Conclusion { status, status_events: vec![events::blocked(&blocked)], ..Conclusion::default() })
    }

    async fn observe(
        &self,
        _: &Packed<DynamoComponentDeployment>,
        component: DynamoComponentDeployment,
    ) -> Result<Observed, Interruption> {
        let mut observed = self.observer.observe(component).await?;
        observed.legacy_needs = legacy::convert(&mut observed.component, &observed.legacy);
        plan::autoscaler::keep_replicas(&mut observed);
        let claims = validate::gpu_claims(&observed);
        observed.claimed_gpus = claimed_gpus(&self.outputs.applier, &observed.namespace, &claims).await?;
        Ok(observed)
    }

    fn plan(&self, observed: &Observed, _: Timestamp) -> Result<Result<Plan, Blocked>, Interruption> {
        let valid = match validate::validate(observed) {
            Ok(valid) => valid,
            Err(blocked) => return Ok(Err(blocked)),
        };
        let gpus = observed.claimed_gpus.as_ref().ok().copied();
        plan::plan(observed, &valid.component, &self.settings, &valid.start, gpus).map(Ok)
    }

    async fn apply(
        &self,
        observed: &Observed,
        plan: Result<Result<Plan, Blocked>, Interruption>,
    ) -> Result<Result<Applied, Blocked>, Interruption> {
        let plan = plan?;
        let lacks_api = plan.as_ref().is_ok_and(|plan| plan.lacks_api);
        self.observer.need(WorkloadKind::of(&observed.component), lacks_api);
        let plan = match plan {
            Ok(plan) => plan,
            Err(blocked) => return Ok(Err(blocked)),
        };
        let mut applied = apply::apply(&self.outputs.applier, observed, &plan).await?;
        self.diagnose(observed, &mut applied).await;
        Ok(Ok(applied))
    }

    fn conclude(
        &self,
        observed: &Observed,
        applied: &Result<Applied, Blocked>,
        now: Timestamp,
    ) -> Conclusion<DynamoComponentDeploymentStatus> {
        let live = observed.component.status.as_ref();
        match applied {
            Ok(applied) => {
                let status = status::status(live, &StatusInputs::from_applied(observed, applied), now);
                let is_new_part = live.is_none() && controller_owner(&observed.component).is_some();
                Conclusion {
                    pace: Pace::Limited,
                    events: events::changes(applied, is_new_part).into_iter().collect(),
                    status_events: events::of_status(applied, live, &status),
                    next: next(observed, applied, &status.conditions, now),
                    status: Some(status),
                }
            }
            Err(blocked) => Conclusion {
                status: Some(status::status(live, &StatusInputs::from_blocked(observed, blocked), now)),
                status_events: vec![events::blocked(blocked)],
                next: blocked.retry.map_or_else(Action::await_change, Action::requeue),
                ..Conclusion::default()
            },
        }
    }
}

impl Reconciler {
    /// Reads pods, and events about them, while the workload lacks replicas for no other known reason.
    async fn diagnose(&self, observed: &Observed, applied: &mut Applied) {
        let component = &observed.component;
        let pods = pods::pods_of(component);
        if !applied.lacks_replicas() || !status::needs_diagnosis(applied) {
            self.pods.forget(pods.uid);
            return;
        }
        let replicas = applied.workload.as_ref().map_or(0, |live| live.get().desired_replicas());
        let diagnose = async |found: Vec<Pod>| pods::diagnose(&self.pods, component, replicas, &found).await;
        let conditions = component.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let (diagnosis, after) = self.pods.observe(&pods, age(conditions, Timestamp::now()), diagnose).await;
        (applied.diagnosis, applied.diagnose_after) = (diagnosis, Some(after));
    }
}

/// Shortest pause before a rejected write is tried again.
const SHORTEST: Duration = Duration::from_secs(2);
/// Longest pause before a rejected write is tried again.
const LONGEST: Duration = Duration::from_secs(15);

/// Interval of lookups of a missing pull secret.
const SECRETS: Duration = Duration::from_secs(60);

/// Interval of lookups of a missing API.
pub const API: Duration = Duration::from_secs(10);

/// Interval of lookups of a missing PersistentVolumeClaim or device claim; neither is watched.
const CLAIM: Duration = Duration::from_secs(15);

/// The pause before the next pass; `None` if a watch shows the awaited change.
///
/// A rejected write is tried again after as much time as it has been rejected for, within limits: the age of the
/// conditions is a backoff that needs no memory. A taken name is tried again because objects without our labels are not
/// watched; a missing pull secret because Secrets of the older type are not.
fn after(applied: &Applied, secrets: &NamedPullSecrets, conditions: &[Condition], now: Timestamp) -> Option<Duration> {
    if !applied.rejections.is_empty() {
        return Some(age(conditions, now).clamp(SHORTEST, LONGEST));
    }
    (!secrets.missing.is_empty()).then_some(SECRETS)
}

/// The pause before a missing claim or API is looked up again.
fn missing(lacks_claim: bool, lacks_api: bool) -> Option<Duration> {
    [lacks_claim.then_some(CLAIM), lacks_api.then_some(API)].into_iter().flatten().min()
}

/// Determines when the next pass over a component is due.
pub fn next(observed: &Observed, applied: &Applied, conditions: &[Condition], now: Timestamp) -> Action {
    let lacks_claim = observed.legacy_needs.as_ref().is_ok_and(|legacy| legacy.missing_volume.is_some())
        || observed.claimed_gpus.is_err();
    let after = after(applied, &observed.named_pull_secrets, conditions, now);
    let pauses = [after, missing(lacks_claim, applied.lacks_api), applied.diagnose_after];
    pauses.into_iter().flatten().fold(Action::await_change(), Action::no_later_than)
}

#[cfg(test)]
mod tests {
    use api_types::conditions;
    use controller_kit::{
        apply::ObjectId,
        conditions::{Status, set_condition},
    };

    use super::*;
    use crate::component::model::{Rejection, RejectionCause};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn rejected() -> Applied {
        let object = ObjectId { group: String::new(), kind: "Service".into(), namespace: "n".into(), name: "w".into() };
        let rejection = Rejection { cause: RejectionCause::NameTaken, object, message: String::new() };
        Applied { rejections: vec![rejection], ..Applied::default() }
    }

    #[test]
    fn a_rejected_write_backs_off_within_limits() {
        let mut all = Vec::new();
        set_condition(&mut all, conditions::READY, Status::False, "r", "", None, at(0));
        set_condition(&mut all, conditions::STALLED, Status::True, "r", "", None, at(100));
        let secrets = NamedPullSecrets::default();
        let waits: Vec<u64> = [100, 101, 110, 130, 5_000]
            .map(|now| after(&rejected(), &secrets, &all, at(now)).unwrap().as_secs())
            .to_vec();
        assert_eq!(waits, [2, 2, 10, 15, 15]);
        assert_eq!(after(&rejected(), &secrets, &all, at(50)).unwrap(), SHORTEST, "the clock was set back");
        assert_eq!(after(&rejected(), &secrets, &[], at(50)).unwrap(), SHORTEST);
    }

    #[test]
    fn only_a_missing_pull_secret_requeues_without_rejections() {
        let found = NamedPullSecrets::default();
        assert_eq!(after(&Applied::default(), &found, &[], at(0)), None);
        let missing = NamedPullSecrets { any: true, missing: vec!["s".into()] };
        assert_eq!(after(&Applied::default(), &missing, &[], at(0)), Some(SECRETS));
    }

    #[test]
    fn missing_claims_and_apis_are_looked_up_again() {
        let table = [(false, false, None), (true, false, Some(15)), (false, true, Some(10)), (true, true, Some(10))];
        for (claim, api, seconds) in table {
            assert_eq!(missing(claim, api).map(|wait| wait.as_secs()), seconds, "{claim} {api}");
        }
    }
}
