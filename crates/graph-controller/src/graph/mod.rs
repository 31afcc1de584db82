//! Reconciles one `DynamoGraphDeployment`.
//!
//! | step | file | |
//! |---|---|---|
//! | collect what the caches hold | `observe/` | |
//! | resolve the graph as it is reconciled | `resolve/` | pure |
//! | read what no cache holds | `observe/read.rs` | API server |
//! | validate the spec | `validate.rs` | pure |
//! | plan the writes | `plan/` | pure |
//! | write what differs | `apply/` | API server |
//! | compute status, events and the next pass | `status/`, `events.rs`, `requeue.rs` | pure |

pub mod apply;
pub mod caches;
mod events;
#[cfg(test)]
pub(crate) mod fixtures;
mod grove;
pub mod legacy;
pub mod merge;
pub mod model;
pub mod node_topology;
pub mod observe;
pub mod plan;
pub mod provider;
mod requeue;
mod resolve;
pub mod settings;
pub mod status;
pub mod validate;

use std::{sync::Arc, time::Duration};

use api_types::{
    LEGACY_FINALIZER,
    grove::PodCliqueSet,
    typed::typed,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentStatus},
};
use controller_kit::{
    apply::RequestError,
    conditions::age,
    controller::{Action, Conclusion, Outputs, Reconcile, StatusPace},
    failure::Class,
    pods::PodDiagnostics,
    request::Interruption,
    store::{Packed, ServedApi, ServedApis, UnpackError},
};
use futures::join;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{ResourceExt, core::ApiResource};
use observe::read::{pods_of, troubles};
use tracing::{info, warn};

use self::{
    caches::GraphCaches, node_topology::apply::TopologyLabeler, observe::read::read, resolve::resolve,
    settings::GraphSettings, status::rejection::rejection, validate::validate,
};
use crate::{
    graph::model::{
        AppliedPlan, GraphApplied, GraphBlocked, GraphObserved, GraphObstacle, GraphPlan, GraphWrites, Troubles,
    },
    nats_etcd,
    nats_etcd::HealthReceiver,
};

/// Reconciles graphs.
pub struct GraphReconciler {
    /// The caches.
    pub caches: GraphCaches,
    /// Writes.
    pub outputs: Outputs,
    /// Diagnoses pods that do not become ready.
    pub pods: Arc<PodDiagnostics<Troubles>>,
    /// APIs that the cluster serves.
    pub apis: ServedApis,
    /// The operator's configuration.
    pub settings: Arc<GraphSettings>,
    /// Health of NATS and etcd.
    pub nats_etcd: HealthReceiver,
    /// Sets topology labels on worker pods.
    pub labeler: TopologyLabeler,
}

impl Reconcile for GraphReconciler {
    type Object = DynamoGraphDeployment;
    type Observed = GraphObserved;
    type Plan = Result<GraphPlan, GraphBlocked>;
    type Applied = GraphWrites;
    type Status = DynamoGraphDeploymentStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Takes off the finalizer of another operator, and nothing else. Owner references do the rest, in whichever way the
    /// deletion specifies.
    async fn finalize(&self, packed: &Packed<DynamoGraphDeployment>) -> Result<Action, Interruption> {
        self.outputs.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::AwaitChange)
    }

    /// A graph that cannot be parsed, or has a component that cannot, gets a status; nothing else changes.
    fn unreadable(
        &self,
        packed: &Packed<DynamoGraphDeployment>,
        error: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<Self::Status>> {
        let graph = DynamoGraphDeployment {
            metadata: packed.metadata.clone(),
            spec: Default::default(),
            status: typed(packed.status()).ok(),
        };
        let status = status::of_unreadable(&graph, &GraphObstacle::of_unreadable(error), now);
        let status_events = events::events(graph.status.as_ref(), &status);
        Some(Conclusion { status_events, ..Conclusion::of_status(status) })
    }

    async fn observe(
        &self,
        packed: &Packed<DynamoGraphDeployment>,
        graph: DynamoGraphDeployment,
    ) -> Result<GraphObserved, Interruption> {
        let mut observed = observe::cached(&self.caches, &self.settings, packed, graph)?;
        if provider::depends_on_grove(&observed, &self.settings) {
            // Chosen for life: Grove may have been installed since the caches looked for it.
            let sets = ServedApi::new(&self.apis, ApiResource::erase::<PodCliqueSet>(&()));
            observed.served.grove = sets.is_served().await?;
        }
        if let Err(obstacle) = resolve(&mut observed, &self.settings) {
            observed.blocked = Some(GraphBlocked { obstacle, rejected: false });
        } else if let Err(error) = read(&self.outputs.applier, &self.apis, &self.settings, &mut observed).await {
            match rejection([&error]) {
                Some(obstacle) => observed.blocked = Some(GraphBlocked { obstacle, rejected: true }),
                None => return Err(error.into()),
            }
        }
        Ok(observed)
    }

    fn plan(&self, observed: &GraphObserved, now: Timestamp) -> Result<GraphPlan, GraphBlocked> {
        if let Some(blocked) = &observed.blocked {
            return Err(blocked.clone());
        }
        let valid = validate(observed, &self.settings);
        let valid = valid.map_err(|obstacle| GraphBlocked { obstacle, rejected: false })?;
        Ok(plan::plan(&valid, observed, now))
    }

    async fn apply(
        &self,
        observed: &GraphObserved,
        plan: Result<GraphPlan, GraphBlocked>,
    ) -> Result<GraphWrites, Interruption> {
        let write = async {
            match plan {
                Ok(plan) => self.write(observed, plan).await.map(Ok),
                Err(blocked) => Ok(Err(blocked)),
            }
        };
        // Neither waits for the other, nor fails with it.
        let (written, labeled) = join!(write, self.labeler.label(&observed.graph));
        Ok(GraphWrites { written: written?, labeled })
    }

    fn conclude(&self, observed: &GraphObserved, pass: &GraphWrites, now: Timestamp) -> Conclusion<Self::Status> {
        let mut status = match &pass.written {
            Err(GraphBlocked { obstacle, .. }) => status::of_obstacle(observed, obstacle, now),
            Ok(AppliedPlan { plan, applied, rejection, .. }) => {
                status::status(observed, plan, applied, rejection.as_ref(), now)
            }
        };
        let (health, generation) = (self.nats_etcd.current(), observed.graph.metadata.generation);
        nats_etcd::set_health(&mut status, &health, generation, now);
        let next = requeue::next(pass, now);
        let status_events = events::events(observed.graph.status.as_ref(), &status);
        Conclusion { status: Some(status), pace: StatusPace::Limited, status_events, next, ..Conclusion::default() }
    }

    /// A failure to label pods must not keep the status from being written.
    async fn after_status(&self, _: GraphObserved, pass: GraphWrites) -> Result<(), Interruption> {
        match pass.labeled.failed {
            Some(error) if error.class() == Class::Transient => Err(error.into()),
            Some(error) => {
                warn!(%error, "failed to set topology labels on pods");
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl GraphReconciler {
    /// Writes what differs from the plan, and diagnoses pods that do not become ready.
    async fn write(&self, observed: &GraphObserved, plan: GraphPlan) -> Result<AppliedPlan, RequestError> {
        let mut applied =
            apply::apply(&self.outputs.applier, &self.outputs.events, &self.caches, observed, &plan).await;
        let diagnose_after = self.diagnose_pods(observed, &plan, &mut applied, Timestamp::now()).await;
        let rejection = rejection(&applied.tally.failed);
        if rejection.is_none()
            && let Some(error) = applied.tally.failed.pop()
        {
            return Err(error);
        }
        for error in applied.tally.failed.iter().filter(|error| error.class() == Class::Transient) {
            info!(graph = observed.graph.name_any(), %error, "a write failed and will be retried");
        }
        Ok(AppliedPlan { plan, applied, rejection, diagnose_after })
    }

    /// Diagnoses the pods of a graph on Grove that do not become ready; returns when to repeat it. The component
    /// controller diagnoses those of components.
    async fn diagnose_pods(
        &self,
        observed: &GraphObserved,
        plan: &GraphPlan,
        applied: &mut GraphApplied,
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
        let (troubles, after) = self.pods.observe(&pods, missing_for, diagnose).await;
        applied.troubles = troubles.unwrap_or_default();
        Some(after)
    }
}
