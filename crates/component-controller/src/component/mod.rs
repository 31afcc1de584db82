//! A DynamoComponentDeployment becomes a Deployment or a LeaderWorkerSet, and a Service.

pub mod acted;
pub mod apply;
pub mod archive;
pub mod decide;
pub mod events;
pub mod forbidden;
pub mod leftover;
pub mod observe;
pub mod pull_secrets;
pub mod retry;
pub mod rollout;
pub mod status;
pub mod validate;
pub mod workload;

use std::{sync::Arc, time::Duration};

use ::workload::Diagnosis;
use acted::Acted;
use api_types::{
    LEGACY_FINALIZER, conditions,
    v1beta1::{ComponentKind, DynamoComponentDeployment, DynamoComponentDeploymentStatus},
};
use controller_kit::{
    apply::{Applier, Reported},
    claims::claimed_gpus,
    conditions::age,
    controller::Action,
    events::{Event, EventSink},
    pods::PodWatcher,
    read::Interruption,
    store::{Packed, UnpackError, controller_owner},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use observe::{
    Observed, Observer,
    pods::{pods_of, why},
};
use pull_secrets::NamedPullSecrets;
use status::{Facts, Standing};
use workload::WorkloadKind;

/// Reconciles components.
pub struct Reconciler {
    /// Reads.
    pub observer: Observer,
    /// Looks at pods that do not come up.
    pub pods: PodWatcher<Diagnosis>,
    /// Writes.
    pub applier: Applier,
    /// Tells.
    pub events: EventSink,
    /// Settings of the operator that reach pods.
    pub settings: ::workload::PodSettings,
}

impl Reconciler {
    /// Brings the children of one component, and its status, in line with its spec.
    ///
    /// # Errors
    /// What goes away by itself; everything else is told in the status.
    pub async fn reconcile(&self, packed: Arc<Packed<DynamoComponentDeployment>>) -> Result<Action, Interruption> {
        if packed.metadata.deletion_timestamp.is_some() {
            return self.release(&packed).await;
        }
        let component = match packed.unpack() {
            Ok(component) => component,
            Err(error) => return self.report_unreadable(&packed, &error).await,
        };
        let mut observed = self.observer.observe(component).await?;
        match archive::expand(&mut observed.component, &observed.archive) {
            Ok(expansion) => observed.expansion = expansion,
            Err(message) => return self.report_invalid(&packed, &observed, message).await,
        }
        let observed = observed;
        let set = observed.leader_worker_set.as_ref().map(|live| &live.object);
        let valid = match validate::validate(&observed.component, set) {
            Ok(valid) => valid,
            Err(message) => return self.report_invalid(&packed, &observed, message).await,
        };
        if WorkloadKind::of(&observed.component) == WorkloadKind::LeaderWorkerSet && !observed.serves_leader_worker_sets
        {
            return self.report_api_missing(&packed, &observed).await;
        }
        let start = match decide::checkpoint::start(&valid, &observed.checkpoint) {
            Ok(start) => start,
            Err(message) => return self.report_invalid(&packed, &observed, message).await,
        };
        let gpus = claimed_gpus(&self.applier, &observed.namespace, valid.gpu_claims()).await?;
        let decision = decide::decide(&observed, &valid, &self.settings, &start, gpus.as_ref().ok().copied())?;
        let acted = apply::apply(&self.applier, &observed, &decision).await?;
        let (standing, look_again) = self.standing(&observed.component, &acted).await;
        let facts = Facts {
            generation: observed.component.metadata.generation,
            standing: gpus.as_ref().err().map_or(standing.clone(), |why| standing.without_gpu_count(why)),
            kind: decision.kind,
            untold: acted.untold(),
            replicas: acted.workload.as_ref().map(|live| live.get().replica_status(valid.runtime_namespace())),
            pull_secrets: &observed.named_pull_secrets,
            joins_nodes: gpus.as_ref().map_or(true, |gpus| valid.joins_nodes(*gpus)),
        };
        let action = self.report(&packed, observed.component.status.as_ref(), &facts, &acted).await?;
        let lacks_claim = observed.expansion.lacks_claim.is_some() || gpus.is_err();
        let missing = retry::missing(lacks_claim, decision.lacks_api);
        Ok(look_again.into_iter().chain(missing).fold(action, Action::no_later_than))
    }

    /// How far the component is. Of pods that do not come up, one is named that tells why; then also when to look again.
    async fn standing(&self, component: &DynamoComponentDeployment, acted: &Acted) -> (Standing, Option<Duration>) {
        let standing = Standing::of(acted);
        let pods = pods_of(component);
        if !matches!(standing, Standing::Underway(_) | Standing::Hindered { .. }) || !acted.lacks_replicas() {
            self.pods.forget(pods.uid);
            return (standing, None);
        }
        let groups = acted.workload.as_ref().map_or(0, |live| live.get().desired_replicas());
        let tell = async |pods: Vec<Pod>| why(&self.pods, component, groups, &pods).await;
        let conditions = component.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let (trouble, after) = self.pods.look(&pods, age(conditions, Timestamp::now()), tell).await;
        (standing.because_of(trouble), Some(after))
    }

    /// The component is being deleted. Children go by their owner references; nothing may be created any more. All there is
    /// to do is to take away the finalizer that the Go operator left.
    async fn release(&self, packed: &Packed<DynamoComponentDeployment>) -> Result<Action, Interruption> {
        self.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::await_change())
    }

    /// The spec has mistakes. What runs keeps running, and nothing is tried again before the spec changes.
    async fn report_invalid(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        observed: &Observed,
        message: String,
    ) -> Result<Action, Interruption> {
        let facts = stuck(observed, Standing::invalid(message));
        self.report_stuck(packed, observed.component.status.as_ref(), &facts).await?;
        Ok(Action::await_change())
    }

    /// The cluster lacks what the component needs. What runs keeps running; the API is looked for again and again.
    async fn report_api_missing(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        observed: &Observed,
    ) -> Result<Action, Interruption> {
        let message = validate::api_missing(&observed.component);
        let facts = stuck(observed, Standing::Stuck { reason: conditions::component::API_MISSING, message });
        self.report_stuck(packed, observed.component.status.as_ref(), &facts).await?;
        Ok(Action::requeue(retry::API))
    }

    /// The object is not what its kind should be. Nothing of it can be relied on but its metadata.
    async fn report_unreadable(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        error: &UnpackError,
    ) -> Result<Action, Interruption> {
        let live: Option<DynamoComponentDeploymentStatus> = serde_json::from_value(packed.status()).ok();
        let facts = Facts {
            generation: packed.metadata.generation,
            standing: Standing::invalid(error.to_string()),
            kind: known_kind(live.as_ref()),
            untold: None,
            replicas: live.as_ref().and_then(|live| live.component.clone()),
            pull_secrets: &NamedPullSecrets::default(),
            joins_nodes: true,
        };
        self.report_stuck(packed, live.as_ref(), &facts).await?;
        Ok(Action::await_change())
    }

    async fn report_stuck(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        live: Option<&DynamoComponentDeploymentStatus>,
        facts: &Facts<'_>,
    ) -> Result<(), Interruption> {
        let status = status::status(live, facts, Timestamp::now());
        if self.applier.patch_status(packed, &status).await?
            && let Standing::Stuck { reason, message } = &facts.standing
        {
            self.publish(packed, [events::stuck(reason, message)]);
        }
        Ok(())
    }

    /// Writes the status, tells what changed, and says when to look again.
    async fn report(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        live: Option<&DynamoComponentDeploymentStatus>,
        facts: &Facts<'_>,
        acted: &Acted,
    ) -> Result<Action, Interruption> {
        let now = Timestamp::now();
        let status = status::status(live, facts, now);
        let told_by_graph = live.is_none() && controller_owner(packed).is_some();
        self.publish(packed, events::changes(acted, told_by_graph));
        let reported = self.applier.report_status(packed, &status).await?;
        if reported == Reported::Written {
            self.publish(packed, events::refusals(acted));
            self.publish(packed, events::trouble(live, &status));
        }
        let rest = if let Reported::Later(rest) = reported { Some(rest) } else { None };
        let next = retry::after(acted, facts.pull_secrets, &status.conditions, now).into_iter().chain(rest).min();
        Ok(next.map_or(Action::await_change(), Action::requeue))
    }

    fn publish(&self, packed: &Packed<DynamoComponentDeployment>, events: impl IntoIterator<Item = Event>) {
        let parent = packed.object_ref(&());
        for event in events {
            self.events.publish(&parent, event);
        }
    }
}

/// Of a component that cannot go on: what runs of it, and why.
fn stuck(observed: &Observed, standing: Standing) -> Facts<'_> {
    let live = observed.component.status.as_ref();
    let known = live.and_then(|live| live.component.as_ref()?.runtime_namespace.clone());
    let workload = observed.own_workload();
    Facts {
        generation: observed.component.metadata.generation,
        standing,
        kind: WorkloadKind::of(&observed.component),
        untold: None,
        replicas: workload.map(|live| live.get().replica_status(known.unwrap_or_default())),
        pull_secrets: &observed.named_pull_secrets,
        joins_nodes: true,
    }
}

/// The kind that the status speaks of.
fn known_kind(live: Option<&DynamoComponentDeploymentStatus>) -> WorkloadKind {
    match live.and_then(|live| live.component.as_ref()).map(|counts| counts.component_kind) {
        Some(ComponentKind::LeaderWorkerSet) => WorkloadKind::LeaderWorkerSet,
        _ => WorkloadKind::Deployment,
    }
}
