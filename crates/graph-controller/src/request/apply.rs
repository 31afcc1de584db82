//! Carries out the plan of a request.
//!
//! Order: what is left of an earlier profile goes first; accounts come before the Job whose pod runs under them,
//! ConfigMaps before the graph that reads them.

use api_types::{conditions::request as reason, labels, owner, typed::typed, v1beta1::DynamoGraphDeployment};
use controller_kit::{
    apply::{Applier, ApplyOutcome, Desired, ObjectId, RequestError},
    failure::Class,
    request::parse,
    store::{Key, controller_owner},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use kube::{ResourceExt, core::ApiResource};
use serde_json::Value;

use super::{
    model::{PlannedPhase, RequestApplied, RequestObserved, RequestPlan},
    observe::RequestCaches,
    phase::{graph_name, is_graph_of, taken},
};
use crate::graph::{
    apply::{write_binding, write_shared},
    model::SharedAccount,
};

/// Writes what belongs to one request.
struct RequestWriter<'a> {
    applier: &'a Applier,
    caches: &'a RequestCaches,
    observed: &'a RequestObserved,
}

/// Carries out a plan.
///
/// # Errors
/// Transient failures.
pub async fn apply(
    applier: &Applier,
    caches: &RequestCaches,
    observed: &RequestObserved,
    plan: RequestPlan,
) -> Result<RequestApplied, RequestError> {
    let writer = RequestWriter { applier, caches, observed };
    let mut applied = RequestApplied {
        phase: plan.phase,
        findings: plan.findings,
        job: observed.job.clone(),
        made_graph: None,
        refused: Vec::new(),
    };
    if let Some(job) = &plan.delete_job {
        applier.delete(job, &observed.uid).await?;
    }
    if let Some(output) = &plan.delete_output {
        applier.delete(output, &observed.uid).await?;
    }
    let blocked = match &plan.account {
        Some(desired) => writer.write_account(desired).await?,
        None => None,
    };
    // The next reconcile retries.
    let job = plan.job.as_ref().filter(|_| blocked.is_none());
    applied.phase = blocked.unwrap_or(applied.phase);
    if let Some(job) = job {
        writer.make_job(job, &mut applied).await?;
    }
    for map in &plan.config_maps {
        writer.write_config_map(map, &mut applied).await?;
    }
    if let Some(graph) = plan.graph {
        writer.make_graph(graph, &mut applied).await?;
    }
    if let Some(graph) = observed.graph.as_ref().filter(|_| !plan.hand_over.is_empty()) {
        writer.give(graph, &plan.hand_over).await?;
    }
    if matches!(applied.phase, PlannedPhase::Deleted(_)) {
        writer.confirm_deletion().await?;
    }
    Ok(applied)
}

/// Rights and quotas that are missing for the Job.
fn refused(error: RequestError) -> Result<PlannedPhase, RequestError> {
    let message = error.to_string();
    match error.class() {
        Class::Invalid | Class::Forbidden => Ok(PlannedPhase::Blocked { reason: reason::FORBIDDEN, message }),
        Class::Foreign => Ok(PlannedPhase::Blocked { reason: reason::NAME_TAKEN, message }),
        Class::Webhook => Ok(PlannedPhase::Waiting(message)),
        Class::Transient => Err(error),
    }
}

impl RequestWriter<'_> {
    /// Returns the phase of the request if the account, or its rights, are rejected.
    async fn write_account(&self, desired: &SharedAccount) -> Result<Option<PlannedPhase>, RequestError> {
        let (SharedAccount { account, binding }, uid) = (desired, &self.observed.uid);
        if let Err(error) = write_shared(self.applier, uid, &self.caches.accounts, account).await {
            return refused(error).map(Some);
        }
        match write_binding(self.applier, uid, &self.caches.bindings, binding).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => {
                let (name, role) = (binding.name_any(), &binding.role_ref.name);
                let message = format!(
                    "RoleBinding {}/{name}: there is no ClusterRole {role}, which the operator's chart brings",
                    self.observed.namespace
                );
                Ok(Some(PlannedPhase::Blocked { reason: reason::FORBIDDEN, message }))
            }
            Err(error) => refused(error).map(Some),
        }
    }

    /// A Job cannot be changed, so it is made or it is not.
    async fn make_job(&self, job: &Job, applied: &mut RequestApplied) -> Result<(), RequestError> {
        let desired = Desired::of(job, &self.observed.uid)?.only_if_unchanged();
        match self.applier.apply(&desired, None).await {
            Ok(ApplyOutcome::Created(made)) => applied.job = typed(made).ok(),
            Ok(_) => {}
            Err(RequestError::Changed { object }) => {
                if let Some(live) = self.applier.find::<Job>(&object.namespace, &object.name).await? {
                    let live: Job = parse(&object, live)?;
                    if self.observed.is_ours(&live) {
                        return Err(RequestError::Changed { object });
                    }
                    let message = format!("{object} exists and is not of this request; delete or rename it");
                    applied.phase = PlannedPhase::Blocked { reason: reason::NAME_TAKEN, message };
                }
            }
            Err(error) if error.class() == Class::Invalid => {
                applied.phase = PlannedPhase::JobRefused(error.to_string());
            }
            Err(error) => applied.phase = refused(error)?,
        }
        Ok(())
    }

    /// Writes a ConfigMap that the graph reads beside its spec. The graph can work without it, so a rejection fails
    /// nothing.
    async fn write_config_map(&self, map: &ConfigMap, applied: &mut RequestApplied) -> Result<(), RequestError> {
        let mut desired = Desired::of(map, &self.observed.uid)?;
        for key in [labels::REQUEST_NAME, labels::REQUEST_NAMESPACE] {
            let value = map.labels().get(key).cloned().unwrap_or_default();
            desired = desired.adopt_if_labelled(key, &value);
        }
        let (namespace, name) = (&self.observed.namespace, map.name_any());
        // The cache keeps no data of it.
        let live = match self.caches.config_maps.get(&Key::new(namespace, &name)) {
            Some(_) => self.applier.find::<ConfigMap>(namespace, &name).await?,
            None => None,
        };
        match self.applier.apply(&desired, live.as_ref()).await {
            Ok(ApplyOutcome::Waiting { reason }) => applied.refused.push(format!("ConfigMap {name}: {reason}")),
            Ok(_) => {}
            Err(error) if error.class() == Class::Transient => return Err(error),
            Err(error) => applied.refused.push(error.to_string()),
        }
        Ok(())
    }

    async fn make_graph(&self, graph: Value, applied: &mut RequestApplied) -> Result<(), RequestError> {
        let resource = ApiResource::erase::<DynamoGraphDeployment>(&());
        let desired = Desired::dynamic(resource.clone(), graph, &self.observed.uid)?.only_if_unchanged();
        match self.applier.apply(&desired, None).await {
            Ok(_) => applied.made_graph = Some(desired.id().name.clone()),
            Err(RequestError::Changed { object }) => {
                // The cache does not show it yet, or it came in between.
                let Some(live) = self.applier.read(&resource, &object).await? else {
                    return Err(RequestError::Changed { object });
                };
                let live: DynamoGraphDeployment = parse(&object, live)?;
                if !is_graph_of(&live, &self.observed.request) {
                    let message = taken(self.observed, &object.name);
                    applied.phase = PlannedPhase::Deploying { reason: reason::NAME_TAKEN, message, stuck: true };
                }
            }
            Err(error) => {
                let message = error.to_string();
                applied.phase = match error.class() {
                    Class::Transient => return Err(error),
                    Class::Webhook => {
                        PlannedPhase::Deploying { reason: reason::WEBHOOK_UNAVAILABLE, message, stuck: false }
                    }
                    Class::Forbidden => PlannedPhase::Deploying { reason: reason::FORBIDDEN, message, stuck: true },
                    Class::Invalid | Class::Foreign => PlannedPhase::Rejected(message),
                };
            }
        }
        Ok(())
    }

    /// Makes ConfigMaps the graph's, as they are.
    async fn give(&self, graph: &DynamoGraphDeployment, config_maps: &[ConfigMap]) -> Result<(), RequestError> {
        let uid = graph.metadata.uid.as_deref().unwrap_or_default();
        let handed = self.give_each(graph, config_maps).await;
        // This applier remembers requests; no event would make it forget the graph.
        self.applier.forget(uid);
        handed?;
        tracing::debug!(request = self.observed.name, graph = graph.name_any(), "handed ConfigMaps over");
        Ok(())
    }

    async fn give_each(&self, graph: &DynamoGraphDeployment, config_maps: &[ConfigMap]) -> Result<(), RequestError> {
        let uid = graph.metadata.uid.as_deref().unwrap_or_default();
        let owner = owner::controller::<DynamoGraphDeployment>(&graph.name_any(), uid);
        for known in config_maps {
            let id = ObjectId::of(known);
            // The cache keeps no data of it.
            let Some(before) = self.applier.find::<ConfigMap>(&id.namespace, &id.name).await? else { continue };
            let mut map: ConfigMap = parse(&id, before.clone())?;
            if map.metadata.uid != known.metadata.uid || controller_owner(&map).is_some() {
                continue;
            }
            map.metadata.owner_references = Some(vec![owner.clone()]);
            let key = labels::REQUEST_NAME;
            let value = map.labels().get(key).cloned().unwrap_or_default();
            let desired = Desired::of(&map, uid)?.adopt_if_labelled(key, &value);
            match self.applier.apply(&desired, Some(&before)).await {
                Err(error) if error.class() == Class::Transient => return Err(error),
                // Another owner has it: it is not ours to give.
                _ => {}
            }
        }
        Ok(())
    }

    /// A graph counts as gone only after a read past the cache.
    async fn confirm_deletion(&self) -> Result<(), RequestError> {
        let RequestObserved { namespace, request, .. } = self.observed;
        let object = ObjectId::named::<DynamoGraphDeployment>(namespace, &graph_name(request));
        match self.applier.find::<DynamoGraphDeployment>(&object.namespace, &object.name).await? {
            Some(_) => Err(RequestError::Changed { object }),
            None => Ok(()),
        }
    }
}
