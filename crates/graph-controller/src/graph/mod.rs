//! Reconciles one `DynamoGraphDeployment`: observe, expand, validate, decide, apply, report.

pub mod apply;
pub mod decide;
pub mod expand;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod observe;
pub mod program;
mod report;
pub mod settings;
pub mod status;
mod unserved;
pub mod validate;

use std::sync::Arc;
use std::time::Duration;

use api_types::conditions;
use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentStatus};
use controller_kit::apply::{Applier, Error, Reported};
use controller_kit::conditions::age;
use controller_kit::controller::Action;
use controller_kit::events::EventSink;
use controller_kit::failure::Class;
use controller_kit::pods::PodWatcher;
use controller_kit::store::{Packed, UnpackError};
use futures::join;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tracing::warn;

use self::apply::Applied;
use self::apply::topology::{Curious, Labelled, Labeller};
use self::decide::Decision;
use self::observe::pods::{Troubles, pods_of, troubles};
use self::observe::{Apis, Caches, Observed};
use self::program::Program;
use self::settings::Settings;
use self::validate::{Kstatus, Refusal};
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
            Err(error) => match obstructed(&observed, &error, now) {
                Some(status) => (status, Action::requeue(OBSTACLE_RETRY)),
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
        let observed = &*observed;
        let mut valid = match validate::validate(&observed.graph, &self.settings, observed.facts()) {
            Ok(valid) => valid,
            Err(refusal) => return Ok(refused(observed, &refusal)),
        };
        observe::grove::count_gpus(&self.applier, &mut valid).await?;
        let decision = decide::decide(&valid, observed);
        let mut applied = apply::apply(&self.applier, &self.events, &self.caches, observed, &decision).await?;
        let look_again = self.look_at_pods(observed, &decision, &mut applied, now).await;
        let status = match &decision.obstacle {
            Some(obstacle) => status::of_obstacle(observed, obstacle, now),
            None => status::of_decision(observed, &decision, &applied, now),
        };
        let unseen = !applied.waiting.is_empty() || decision.obstacle.is_some();
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

/// The status for a step that failed for good; none for a failure that goes away by itself, which changes no status.
fn obstructed(observed: &Observed, error: &Error, now: Timestamp) -> Option<DynamoGraphDeploymentStatus> {
    let (ready_reason, kstatus) = match error.class() {
        Class::Foreign => (conditions::graph::FAILED, Kstatus::Stalled(conditions::graph::NAME_TAKEN)),
        Class::Invalid => (conditions::graph::FAILED, Kstatus::Stalled(conditions::graph::INVALID_SPEC)),
        // Can be given at any time, to the operator or by the quota, and what else there is goes on.
        Class::Forbidden => (conditions::graph::SOME_NOT_READY, Kstatus::Reconciling(conditions::graph::FORBIDDEN)),
        Class::Transient => return None,
    };
    Some(status::of_obstacle(observed, &Refusal { ready_reason, kstatus, message: error.to_string() }, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::fixtures::{graph_with, observed};
    use api_types::v1beta1::GraphState;
    use controller_kit::apply::ObjectId;
    use kube::core::Status;
    use serde_json::json;

    /// Reference: somebody writes at the same time, and the graph is `failed`.
    #[test]
    fn a_conflict_leaves_the_state_alone_and_what_lasts_is_told() {
        let graph = graph_with(|g| g["status"] = json!({ "state": "successful" }));
        let observed = observed(&graph, vec![]);
        let object = || ObjectId {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "team-a".to_owned(),
            name: "chat-frontend".to_owned(),
        };
        let told = |error: &Error| {
            let status = obstructed(&observed, error, Timestamp::UNIX_EPOCH)?;
            let stalled = status.state == GraphState::Failed;
            let type_ = if stalled { conditions::STALLED } else { conditions::RECONCILING };
            let told =
                status.conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")?;
            Some((status.state, told.reason.clone()))
        };
        let answered = |code: u16, reason: &str| {
            let source = Box::new(kube::Error::Api(Status::failure("x", reason).with_code(code).boxed()));
            told(&Error::Api { action: "apply", object: object(), source })
        };
        for (code, reason) in
            [(409, "Conflict"), (409, "AlreadyExists"), (500, "InternalError"), (503, "ServiceUnavailable")]
        {
            assert_eq!(answered(code, reason), None, "{code} {reason}");
        }
        assert_eq!(told(&Error::Changed { object: object() }), None);
        let failed = |reason: &str| Some((GraphState::Failed, reason.to_owned()));
        assert_eq!(answered(422, "Invalid"), failed(conditions::graph::INVALID_SPEC));
        let foreign = Error::Foreign { object: object(), reason: "it is of nobody".to_owned() };
        assert_eq!(told(&foreign), failed(conditions::graph::NAME_TAKEN));
        let refused = Some((GraphState::Pending, conditions::graph::FORBIDDEN.to_owned()));
        assert_eq!(answered(403, "Forbidden"), refused, "a right can be given");
    }
}
