//! Reconciles one `DynamoGraphDeployment`: observe, expand, validate, decide, apply, report.

pub mod apply;
pub mod decide;
pub mod expand;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod observe;
pub mod program;
mod refused;
mod report;
pub mod settings;
pub mod status;
mod unserved;
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
use kube::ResourceExt;
use tracing::{info, warn};

use self::{
    apply::{
        Applied,
        topology::{Curious, Labelled, Labeller},
    },
    decide::Decision,
    observe::{
        Apis, Caches, Observed,
        pods::{Troubles, pods_of, troubles},
    },
    program::Program,
    settings::Settings,
    validate::{Kstatus, Refusal},
};
use crate::infrastructure::{self, Watched};

/// After how long an obstacle is looked at again that no watch shows, such as a foreign object that holds a name.
const OBSTACLE_RETRY: Duration = Duration::from_secs(15);

/// What reconciling needs beside the graph.
#[derive(Clone)]
pub struct Reconciler {
    /// The caches.
    pub caches: Caches,
    /// The only way to write.
    pub applier: Applier,
    /// Looks at pods that do not come up.
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
    pub labeller: Labeller,
}

impl Reconciler {
    /// Brings one graph closer to its spec and says in its status how far it is.
    ///
    /// # Errors
    /// Failures that go away by themselves; everything else is in the status.
    pub async fn reconcile(&self, packed: Arc<Packed<DynamoGraphDeployment>>) -> Result<Action, Error> {
        if packed.metadata.deletion_timestamp.is_some() {
            apply::release(&self.applier, &packed).await?;
            return Ok(Action::await_change());
        }
        let graph = match packed.unpack() {
            Ok(graph) => graph,
            Err(error) => return self.unreadable(&packed, &error).await,
        };
        let served = self.apis.served_for(&graph, &self.caches).await?;
        let observed = match observe::observe(&self.caches, graph, served) {
            Ok(observed) => observed,
            Err(error) => return self.unreadable(&packed, &error).await,
        };
        let curious = Curious::of(&observed.graph);
        let label = async {
            match &curious {
                Some(curious) => self.labeller.label(curious).await,
                None => Labelled::default(),
            }
        };
        // Neither waits for the other, nor for what hinders it.
        let (done, labelled) = join!(self.serve(&packed, observed), label);
        let action = done?;
        let action = labelled.again.map_or(action, |after| action.no_later_than(after));
        match labelled.failed {
            Some(error) if error.class() == Class::Transient => Err(error),
            Some(error) => {
                warn!(%error, "a pod is not told where it is");
                Ok(action.no_later_than(OBSTACLE_RETRY))
            }
            None => Ok(action),
        }
    }

    /// Brings a graph closer to its spec, and says so.
    async fn serve(&self, packed: &Packed<DynamoGraphDeployment>, mut observed: Observed) -> Result<Action, Error> {
        let now = Timestamp::now();
        let (mut status, action) = match self.advance(packed, &mut observed, now).await {
            Ok(done) => done,
            Err(error) => match refused::refusal([&error]) {
                Some(refusal) => (status::of_obstacle(&observed, &refusal, now), Action::requeue(OBSTACLE_RETRY)),
                None => return Err(error),
            },
        };
        let (verdict, generation) = (self.infrastructure.verdict(), packed.metadata.generation);
        infrastructure::status::tell(&mut status, &verdict, generation, now);
        match self.applier.report_status(packed, &status).await? {
            Reported::Later(rest) => return Ok(Action::requeue(rest)),
            Reported::Written => report::publish(&self.events, &observed.graph, &status),
            Reported::Unchanged => {}
        }
        Ok(action)
    }

    /// One pass over a graph that can be read: its status after it, or the step that failed.
    async fn advance(
        &self,
        packed: &Packed<DynamoGraphDeployment>,
        observed: &mut Observed,
        now: Timestamp,
    ) -> Result<(DynamoGraphDeploymentStatus, Action), Error> {
        let refused = |observed: &Observed, refusal: &Refusal| {
            (status::of_obstacle(observed, refusal, now), Action::await_change())
        };
        let namespace = packed.metadata.namespace.as_deref().unwrap_or_default();
        observed.missing_key = observe::missing_key(&self.caches, &self.settings, namespace);
        match program::choose(observed, &self.settings) {
            Ok(program) => observed.program = program,
            Err(refusal) => return Ok(refused(observed, &refusal)),
        }
        match expand::expand(&observed.graph, observed.build.as_ref()) {
            Ok(None) => {}
            Ok(Some((spec, expansion))) => (observed.graph.spec, observed.expansion) = (spec, expansion),
            Err(refusal) => return Ok(refused(observed, &refusal)),
        }
        if observed.program == Program::Component {
            // On Grove the reference leaves it to the engines.
            match expand::configured(&observed.graph.spec) {
                Ok(None) => {}
                Ok(Some(spec)) => observed.graph.spec = spec,
                Err(refusal) => return Ok(refused(observed, &refusal)),
            }
        } else {
            observed.grove.unknown_types = observe::grove::unknown_types(&packed.value(), observed.graph.annotations());
            observe::grove::look_further(&self.applier, &self.settings, observed).await?;
            observed.checkpoints.place = observe::checkpoints::place(&self.caches, &self.settings, namespace);
        }
        if let Some(scaled) = decide::adapters::scaled(observed) {
            let authored = std::mem::replace(&mut observed.graph.spec.components, scaled);
            // A count that the component cannot have is refused where the adapter writes it, and has no effect here.
            if validate::validate(&observed.graph, &self.settings, observed.facts()).is_err() {
                observed.graph.spec.components = authored;
            }
        }
        let observed = &*observed;
        let mut valid = match validate::validate(&observed.graph, &self.settings, observed.facts()) {
            Ok(valid) => valid,
            Err(refusal) => return Ok(refused(observed, &refusal)),
        };
        observe::grove::count_gpus(&self.applier, &mut valid).await?;
        let decision = decide::decide(&valid, observed);
        let mut applied = apply::apply(&self.applier, &self.events, &self.caches, observed, &decision).await;
        let look_again = self.look_at_pods(observed, &decision, &mut applied, now).await;
        let refusal = refused::refusal(&applied.tally.failed);
        if refusal.is_none()
            && let Some(error) = applied.tally.failed.pop()
        {
            return Err(error);
        }
        for error in applied.tally.failed.iter().filter(|error| error.class() == Class::Transient) {
            info!(graph = observed.graph.name_any(), %error, "a step has to be repeated");
        }
        let mut status = match &decision.obstacle {
            Some(obstacle) => status::of_obstacle(observed, obstacle, now),
            None => status::of_decision(observed, &decision, &applied, now),
        };
        if let Some(refusal) = refusal.as_ref().filter(|_| decision.obstacle.is_none()) {
            status::obstruct(&mut status, &observed.graph, refusal, now);
        }
        let unseen = !applied.tally.waiting.is_empty() || decision.obstacle.is_some() || refusal.is_some();
        let action = if unseen { Action::requeue(OBSTACLE_RETRY) } else { Action::await_change() };
        Ok((status, look_again.map_or(action, |after| action.no_later_than(after))))
    }

    /// Looks at the pods of a graph on Grove that do not come up, and says when to look again. Those of components are looked
    /// at by the component controller.
    async fn look_at_pods(
        &self,
        observed: &Observed,
        decision: &Decision,
        applied: &mut Applied,
        now: Timestamp,
    ) -> Option<Duration> {
        let pods = pods_of(&observed.graph);
        if !decision.grove.as_ref().is_some_and(|on_grove| status::grove::waits_for_pods(observed, on_grove)) {
            self.pods.forget(pods.uid);
            return None;
        }
        let conditions = observed.graph.status.as_ref().map(|status| status.conditions.as_slice());
        let missing_for = age(conditions.unwrap_or_default(), now);
        let tell = async |seen: Vec<Pod>| troubles(&self.pods, seen).await;
        let (troubles, after) = self.pods.look(&pods, missing_for, tell).await;
        applied.troubles = troubles.unwrap_or_default();
        Some(after)
    }

    /// A graph, or a component of it, whose stored form this version does not know. Nothing is touched; the status says why.
    async fn unreadable(&self, packed: &Packed<DynamoGraphDeployment>, error: &UnpackError) -> Result<Action, Error> {
        let mut graph = DynamoGraphDeployment::new(&packed.name_any(), Default::default());
        graph.metadata = packed.metadata.clone();
        graph.status = serde_json::from_value(packed.status()).ok();
        let refusal = Refusal {
            ready_reason: conditions::graph::FAILED,
            kstatus: Kstatus::Stalled(conditions::graph::INVALID_SPEC),
            message: error.to_string(),
        };
        let status = status::of_unreadable(&graph, &refusal, Timestamp::now());
        if self.applier.patch_status(packed, &status).await? {
            report::publish(&self.events, &graph, &status);
        }
        Ok(Action::await_change())
    }
}
