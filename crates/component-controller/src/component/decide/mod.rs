//! What has to be there, from one snapshot. Pure: no I/O, no clock.

mod account;
pub mod checkpoint;
mod deployment;
mod leader_worker_set;
mod model;
mod step;
#[cfg(test)]
mod tests;

use api_types::labels;
use checkpoint::Start;
use controller_kit::{apply::Desired, read::Interruption, store::controller_owner};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;
pub use step::Step;
use workload::{
    LeaderWorkerSet, PodSettings, RenderInput, ValidatedComponent, Workload, checkpoint::render_storage_claim,
    legacy_type_is_worker, render_ingress, render_service, render_virtual_service,
};

use super::{
    observe::{CheckpointFacts, Live, Observed},
    workload::WorkloadKind,
};
use crate::snapshots::StorageLocation;

/// What has to be there.
#[derive(Debug)]
pub struct Decision {
    /// What becomes of the Service.
    pub service: Step,
    /// What becomes of the Ingress.
    pub ingress: Step,
    /// What becomes of Istio's VirtualService.
    pub virtual_service: Step,
    /// The Service of its base model, if it serves one.
    pub model_service: Option<Desired>,
    /// Kind of what runs the pods.
    pub kind: WorkloadKind,
    /// What runs the pods; `None` leaves it as it is.
    pub workload: Option<Desired>,
    /// The claim that keeps checkpoints, and that of a volume of its own, if they are missing and to be made.
    pub storage_claims: Vec<Desired>,
    /// Whether something of it needs an API that the cluster does not serve.
    pub lacks_api: bool,
    /// What pods wait for, as sentences.
    pub waiting: Vec<String>,
}

/// Decides what has to be there for a component without mistakes. `claimed_gpus` is [`RenderInput::claimed_gpus`]; `None`: they
/// cannot be counted for now.
///
/// # Errors
/// An object that cannot be written as JSON; never for what validation accepts.
pub fn decide(
    observed: &Observed,
    valid: &ValidatedComponent<'_>,
    settings: &PodSettings,
    start: &Start,
    claimed_gpus: Option<u32>,
) -> Result<Decision, Interruption> {
    let kind = WorkloadKind::of(&observed.component);
    let live_deployment = observed.deployment.as_ref().map(|live| &live.object);
    let live_set = observed.leader_worker_set.as_ref().map(|live| &live.object);
    let live_workload = match kind {
        WorkloadKind::LeaderWorkerSet => live_set.map(|set| set as &dyn Workload),
        WorkloadKind::Deployment => live_deployment.map(|deployment| deployment as &dyn Workload),
    };
    let live_service = observed.service.as_ref().map(|live| &live.object);
    let input = RenderInput {
        settings,
        pull_secrets: &observed.pull_secrets,
        fallback_service_account: observed.accounts.first().map(String::as_str),
        legacy_type_is_worker: legacy_type_is_worker(valid, live_workload, live_service),
        restore: start.as_restore(),
        claimed_gpus: claimed_gpus.unwrap_or_default(),
    };
    let wanted = observed.component.spec.component.wanted_replicas();
    let serves = wanted > 0 && live_workload.is_some_and(|live| live.desired_replicas() > 0);
    let known = (observed.uid.as_str(), observed.accounts.as_slice());
    let workload = || match kind {
        WorkloadKind::LeaderWorkerSet => leader_worker_set::decide(&input, valid, known, live_set),
        WorkloadKind::Deployment => deployment::decide(&input, valid, known, live_deployment),
    };
    let (storage_claim, mut waiting) = storage(observed, valid)?;
    let mut storage_claims: Vec<Desired> = storage_claim.into_iter().collect();
    if let Some(claim) = &observed.expansion.claim {
        storage_claims.push(Desired::of(claim, &observed.uid)?);
    }
    waiting.extend(observed.expansion.lacks_claim.clone());
    let mut virtual_service = render_virtual_service(&input, valid);
    let unserved = virtual_service.take_if(|_| !observed.serves_virtual_services);
    waiting.extend(unserved.iter().map(needs_api));
    let model_service = match (valid.model(), &observed.model) {
        (Some(model), Some(facts)) => model::decide(&observed.namespace, model, facts)?,
        _ => None,
    };
    // Pods that run go on while another checkpoint is made.
    let workload = match start {
        // Without its image nothing can be started, and what runs runs another one.
        _ if observed.expansion.awaited.is_some() => {
            waiting.extend(observed.expansion.awaited.clone());
            None
        }
        // Nodes that were not told of each other would each start alone. What runs goes on, and can be scaled.
        _ if claimed_gpus.is_none() => {
            let is_ours = |set: &LeaderWorkerSet| controller_owner(set).is_some_and(|owner| owner.uid == observed.uid);
            let own = live_set.filter(|set| is_ours(set) && set.spec.replicas != Some(wanted));
            own.map(|live| leader_worker_set::scaled(&input, valid, &observed.uid, live)).transpose()?
        }
        Start::Awaited(why) => {
            waiting.push(why.clone());
            (!serves).then(workload).transpose()?
        }
        Start::Cold | Start::AtAdmission(_) | Start::Restored(_) => Some(workload()?),
    };
    Ok(Decision {
        service: Step::of(render_service(&input, valid), live_service, &observed.uid)?,
        ingress: Step::of(render_ingress(&input, valid), typed(&observed.ingress), &observed.uid)?,
        virtual_service: Step::of(virtual_service, typed(&observed.virtual_service), &observed.uid)?,
        model_service,
        kind,
        workload,
        storage_claims,
        lacks_api: unserved.is_some(),
        waiting,
    })
}

fn typed<K>(live: &Option<Live<K>>) -> Option<&K> {
    live.as_ref().map(|live| &live.object)
}

/// The sentence for an object whose kind the cluster does not know.
fn needs_api<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let name = object.meta().name.as_deref().unwrap_or_default();
    format!("{} {name} needs the API {}, which the cluster does not serve", K::kind(&()), K::api_version(&()))
}

/// The claim that keeps checkpoints, where it is missing: made, or waited for.
fn storage(
    observed: &Observed,
    valid: &ValidatedComponent<'_>,
) -> Result<(Option<Desired>, Vec<String>), Interruption> {
    let CheckpointFacts { namespace, settings, place, .. } = &observed.checkpoint;
    let Some(settings) = settings.as_ref().filter(|_| valid.checkpoint().is_some()) else {
        return Ok((None, Vec::new()));
    };
    if !matches!(place, StorageLocation::Named { exists: false, .. } | StorageLocation::Invalid(_)) {
        return Ok((None, Vec::new()));
    }
    match render_storage_claim(namespace, &settings.storage) {
        Ok(Some(claim)) => Ok((Some(Desired::of(&claim, &observed.uid)?), Vec::new())),
        Ok(None) => Ok((None, place.hindrance(namespace).into_iter().collect())),
        Err(problem) => Ok((None, vec![problem.to_string()])),
    }
}

/// An object of ours. If it exists and has no controller, it is taken over where `adoptable` and where it belongs to the
/// same component of the same Dynamo namespace: that is what deleting the component and keeping its children leaves behind.
fn desired<K>(object: &K, uid: &str, adoptable: bool) -> Result<Desired, Interruption>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut desired = Desired::of(object, uid)?;
    for key in [labels::COMPONENT, labels::DYNAMO_NAMESPACE, labels::BASE_MODEL_HASH, labels::OWN_COMPONENT] {
        if let Some(value) = label(object.meta(), key).filter(|_| adoptable) {
            desired = desired.adopt_if_labelled(key, value);
        }
    }
    Ok(desired)
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}
