//! A DynamoComponentDeployment becomes a Deployment and a Service.

pub mod acted;
pub mod apply;
pub mod decide;
pub mod error;
pub mod events;
pub mod observe;
pub mod pull_secrets;
pub mod retry;
pub mod rollout;
pub mod status;
pub mod validate;

use acted::Acted;
use api_types::{
    LEGACY_FINALIZER,
    v1beta1::{DynamoComponentDeployment, DynamoComponentDeploymentStatus},
};
use controller_kit::{
    apply::{Applier, Reported},
    controller::Action,
    events::EventSink,
    store::{Packed, UnpackError},
};
use error::Error;
use jiff::Timestamp;
use kube::Resource;
use observe::{Observed, Observer};
use pull_secrets::NamedPullSecrets;
use status::{Facts, Standing};
use std::sync::Arc;
use workload::{PodSettings, replica_status};

/// Reconciles components.
pub struct Reconciler {
    /// Reads.
    pub observer: Observer,
    /// Writes.
    pub applier: Applier,
    /// Tells.
    pub events: EventSink,
    /// Settings of the operator that reach pods.
    pub settings: PodSettings,
}

impl Reconciler {
    /// Brings the children of one component, and its status, in line with its spec.
    ///
    /// # Errors
    /// What goes away by itself; everything else is told in the status.
    pub async fn reconcile(&self, packed: Arc<Packed<DynamoComponentDeployment>>) -> Result<Action, Error> {
        if packed.metadata.deletion_timestamp.is_some() {
            return self.release(&packed).await;
        }
        let component = match packed.unpack() {
            Ok(component) => component,
            Err(error) => return self.report_unreadable(&packed, &error).await,
        };
        let observed = self.observer.observe(component).await?;
        let valid = match validate::validate(&observed.component) {
            Ok(valid) => valid,
            Err(message) => return self.report_invalid(&packed, &observed, message).await,
        };
        let decision = decide::decide(&observed, &valid, &self.settings)?;
        let acted = apply::apply(&self.applier, &observed, &decision).await?;
        let facts = Facts {
            generation: observed.component.metadata.generation,
            standing: Standing::of(&acted),
            replicas: acted.deployment.as_ref().map(|live| replica_status(live, valid.runtime_namespace())),
            pull_secrets: &observed.named_pull_secrets,
        };
        self.report(&packed, observed.component.status.as_ref(), &facts, &acted).await
    }

    /// The component is being deleted. Children go by their owner references; nothing may be created any more. All there is
    /// to do is to take away the finalizer that the Go operator left.
    async fn release(&self, packed: &Packed<DynamoComponentDeployment>) -> Result<Action, Error> {
        self.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::await_change())
    }

    /// The spec has mistakes. What runs keeps running, and nothing is tried again before the spec changes.
    async fn report_invalid(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        observed: &Observed,
        message: String,
    ) -> Result<Action, Error> {
        let live = observed.component.status.as_ref();
        let known = live.and_then(|live| live.component.as_ref()?.runtime_namespace.clone());
        let replicas = observed.own_deployment().map(|live| replica_status(live, known.unwrap_or_default()));
        let facts = Facts {
            generation: observed.component.metadata.generation,
            standing: Standing::invalid(message.clone()),
            replicas,
            pull_secrets: &observed.named_pull_secrets,
        };
        self.report_mistake(packed, live, &facts, &message).await
    }

    /// The object is not what its kind should be. Nothing of it can be relied on but its metadata.
    async fn report_unreadable(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        error: &UnpackError,
    ) -> Result<Action, Error> {
        let live: Option<DynamoComponentDeploymentStatus> = serde_json::from_value(packed.status()).ok();
        let facts = Facts {
            generation: packed.metadata.generation,
            standing: Standing::invalid(error.to_string()),
            replicas: live.as_ref().and_then(|live| live.component.clone()),
            pull_secrets: &NamedPullSecrets::default(),
        };
        self.report_mistake(packed, live.as_ref(), &facts, &error.to_string()).await
    }

    async fn report_mistake(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        live: Option<&DynamoComponentDeploymentStatus>,
        facts: &Facts<'_>,
        message: &str,
    ) -> Result<Action, Error> {
        let status = status::status(live, facts, Timestamp::now());
        if self.applier.patch_status(packed, &status).await? {
            self.publish(packed, [events::invalid_spec(message)]);
        }
        Ok(Action::await_change())
    }

    /// Writes the status, tells what changed, and says when to look again.
    async fn report(
        &self,
        packed: &Packed<DynamoComponentDeployment>,
        live: Option<&DynamoComponentDeploymentStatus>,
        facts: &Facts<'_>,
        acted: &Acted,
    ) -> Result<Action, Error> {
        let now = Timestamp::now();
        let status = status::status(live, facts, now);
        self.publish(packed, events::changes(acted));
        let reported = self.applier.report_status(packed, &status).await?;
        if reported == Reported::Written {
            self.publish(packed, events::refusals(acted));
        }
        let rest = if let Reported::Later(rest) = reported { Some(rest) } else { None };
        let next = retry::after(acted, facts.pull_secrets, &status.conditions, now).into_iter().chain(rest).min();
        Ok(next.map_or(Action::await_change(), Action::requeue))
    }

    fn publish(&self, packed: &Packed<DynamoComponentDeployment>, events: impl IntoIterator<Item = events::Event>) {
        let parent = packed.object_ref(&());
        for event in events {
            self.events.publish(&parent, event.type_, event.reason, &event.action, &event.note);
        }
    }
}
