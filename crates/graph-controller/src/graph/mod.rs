//! Reconciles one `DynamoGraphDeployment`.
//!
//! | step | file | |
//! |---|---|---|
//! | collect what the caches hold | `observe/` | |
//! | determine what else must be read | `needs/` | pure |
//! | read it | `observe/read.rs` | API server |
//! | validate the spec | `validate.rs` | pure |
//! | plan the writes | `plan/` | pure |
//! | write what differs | `apply/` | API server |
//! | compute status and events | `status/`, `events.rs` | pure |

pub mod apply;
mod events;
#[cfg(test)]
pub(crate) mod fixtures;
mod grove_readiness;
pub mod legacy;
pub mod merge;
pub mod model;
mod needs;
pub mod node_topology;
pub mod observe;
pub mod plan;
pub mod provider;
pub mod settings;
pub mod status;
pub mod validate;

use std::{sync::Arc, time::Duration};

use api_types::{
    conditions,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentStatus},
};
use controller_kit::{
    apply::{Applier, Error, Reported},
    conditions::age,
    controller::Action,
    events::EventSink,
    failure::Class,
    pods::PodWatcher,
    store::{Packed, UnpackError},
};
use futures::join;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Resource, ResourceExt};
use tracing::{info, warn};

use self::{
    needs::needs,
    node_topology::apply::{LabelingResult, TopologyKey, TopologyLabeler},
    observe::{
        Caches,
        pods::{pods_of, troubles},
        read::{Apis, read},
    },
    settings::Settings,
    status::rejection::rejection,
    validate::validate,
};
use crate::{
    graph::model::{Applied, Cached, Observed, Obstacle, Plan, Progress, Reads, Target, Troubles},
    infrastructure,
    infrastructure::Watched,
};

/// Retry interval for an obstacle that no watch shows, such as a foreign object that holds a name.
const OBSTACLE_RETRY: Duration = Duration::from_secs(15);

/// What reconciling needs beside the graph.
#[derive(Clone)]
pub struct Reconciler {
    /// The caches.
    pub caches: Caches,
    /// The only way to write.
    pub applier: Applier,
    /// Diagnoses pods that do not become ready.
    pub pods: Arc<PodWatcher<Troubles>>,
    /// Where events go.
    pub events: EventSink,
    /// What the cluster serves.
    pub apis: Apis,
    /// What the operator's configuration says.
    pub settings: Arc<Settings>,
    /// What is known of NATS and etcd.
    pub infrastructure: Watched,
    /// Tells pods where they are.
    pub labeler: TopologyLabeler,
}

impl Reconciler {
    /// Brings one graph closer to its spec and writes its status.
    ///
    /// # Errors
    /// Transient failures; all others are in the status.
    pub async fn reconcile(&self, packed: Arc<Packed<DynamoGraphDeployment>>) -> Result<Action, Error> {
        if packed.metadata.deletion_timestamp.is_some() {
            apply::release(&self.applier, &packed).await?;
            return Ok(Action::await_change());
        }
        let cached = match observe::cached(&self.caches, &self.settings, &packed) {
            Ok(cached) => cached,
            Err(error) => return self.unreadable(&packed, &error).await,
        };
        let key = TopologyKey::of(&cached.graph);
        let label = async {
            match &key {
                Some(key) => self.labeler.label(key).await,
                None => LabelingResult::default(),
            }
        };
        // Neither waits for the other, nor for what hinders it.
        let (done, labeled) = join!(self.serve(&packed, cached), label);
        let action = done?;
        let action = labeled.again.map_or(action, |after| action.no_later_than(after));
        match labeled.failed {
            Some(error) if error.class() == Class::Transient => Err(error),
            Some(error) => {
                warn!(%error, "failed to set topology labels on pod");
                Ok(action.no_later_than(OBSTACLE_RETRY))
            }
            None => Ok(action),
        }
    }

    /// Advances a graph, writes its status and publishes events.
    async fn serve(&self, packed: &Packed<DynamoGraphDeployment>, cached: Cached) -> Result<Action, Error> {
        let now = Timestamp::now();
        let (mut status, action) = self.advance(cached, now).await?;
        let (verdict, generation) = (self.infrastructure.verdict(), packed.metadata.generation);
        infrastructure::status::tell(&mut status, &verdict, generation, now);
        match self.applier.report_status(packed, &status).await? {
            Reported::Later(rest) => return Ok(Action::requeue(rest)),
            Reported::Written => {
                self.publish(&without_spec(packed), &status);
            }
            Reported::Unchanged => {}
        }
        Ok(action)
    }

    /// Reads, validates, plans and applies. Returns the status after it.
    async fn advance(&self, cached: Cached, now: Timestamp) -> Result<(DynamoGraphDeploymentStatus, Action), Error> {
        let blocked = |observed: &Observed, obstacle: &Obstacle, action| {
            Ok((status::of_obstacle(observed, obstacle, now), action))
        };
        let needs = match needs(&cached, &self.settings) {
            Ok(needs) => needs,
            Err(obstacle) => {
                let observed = Observed::complete(cached, Target::default(), Reads::default());
                return blocked(&observed, &obstacle, Action::await_change());
            }
        };
        let reads = match read(&self.applier, &self.apis, &self.settings, &cached, &needs).await {
            Ok(reads) => reads,
            Err(error) => {
                let Some(rejection) = rejection([&error]) else { return Err(error) };
                let observed = Observed::complete(cached, needs.target, Reads::default());
                return blocked(&observed, &rejection, Action::requeue(OBSTACLE_RETRY));
            }
        };
        let observed = &Observed::complete(cached, needs.target, reads);
        let valid = match validate(&observed.graph, &self.settings, observed.validation_context()) {
            Ok(valid) => valid,
            Err(violations) => return blocked(observed, &violations, Action::await_change()),
        };
        let plan = plan::plan(&valid, observed);
        let mut applied = apply::apply(&self.applier, &self.events, &self.caches, observed, &plan).await;
        let diagnose_after = self.diagnose_pods(observed, &plan, &mut applied, now).await;
        let rejection = rejection(&applied.tally.failed);
        if rejection.is_none()
            && let Some(error) = applied.tally.failed.pop()
        {
            return Err(error);
        }
        for error in applied.tally.failed.iter().filter(|error| error.class() == Class::Transient) {
            info!(graph = observed.graph.name_any(), %error, "a write failed and will be retried");
        }
        let waits = !applied.tally.waiting.is_empty() || plan.obstacle.is_some() || rejection.is_some();
        let action = if waits { Action::requeue(OBSTACLE_RETRY) } else { Action::await_change() };
        let status = status::status(observed, &plan, &applied, rejection.as_ref(), now);
        Ok((status, diagnose_after.map_or(action, |after| action.no_later_than(after))))
    }

    /// Diagnoses the pods of a graph on Grove that do not become ready; returns when to repeat it. The component
    /// controller diagnoses those of components.
    async fn diagnose_pods(
        &self,
        observed: &Observed,
        plan: &Plan,
        applied: &mut Applied,
        now: Timestamp,
    ) -> Option<Duration> {
        let pods = pods_of(&observed.graph);
        if !plan.grove.as_ref().is_some_and(|on_grove| status::grove::waits_for_pods(observed, on_grove)) {
            self.pods.forget(pods.uid);
            return None;
        }
        let conditions = observed.graph.status.as_ref().map(|status| status.conditions.as_slice());
        let missing_for = age(conditions.unwrap_or_default(), now);
        let diagnose = async |seen: Vec<Pod>| troubles(&self.pods, seen).await;
        let (troubles, after) = self.pods.look(&pods, missing_for, diagnose).await;
        applied.troubles = troubles.unwrap_or_default();
        Some(after)
    }

    /// Writes the status of a graph that cannot be parsed, or has a component that cannot; changes nothing else.
    async fn unreadable(&self, packed: &Packed<DynamoGraphDeployment>, error: &UnpackError) -> Result<Action, Error> {
        let graph = without_spec(packed);
        let obstacle = Obstacle {
            ready_reason: conditions::graph::FAILED,
            progress: Progress::Stalled(conditions::graph::INVALID_SPEC),
            message: error.to_string(),
        };
        let status = status::of_unreadable(&graph, &obstacle, Timestamp::now());
        if self.applier.patch_status(packed, &status).await? {
            self.publish(&graph, &status);
        }
        Ok(Action::await_change())
    }

    /// Publishes events for what changed between the stored status and this one.
    fn publish(&self, graph: &DynamoGraphDeployment, status: &DynamoGraphDeploymentStatus) {
        for event in events::events(graph.status.as_ref(), status) {
            self.events.publish(&graph.object_ref(&()), event);
        }
    }
}

/// A graph with its metadata and stored status.
fn without_spec(packed: &Packed<DynamoGraphDeployment>) -> DynamoGraphDeployment {
    let status = serde_json::from_value(packed.status()).ok();
    DynamoGraphDeployment { metadata: packed.metadata.clone(), spec: Default::default(), status }
}
