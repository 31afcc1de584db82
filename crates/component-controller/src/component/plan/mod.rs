//! Plans the children of a component. Pure: no I/O, no clock.

pub mod autoscaler;
#[cfg(test)]
mod tests;
mod workload;

use controller_kit::{apply::Desired, request::Interruption, store::is_controlled_by};
use kube::Resource;
use rendering::{
    PodSettings, RenderInput, ValidatedComponent, checkpoint::Start, legacy_type_is_worker, render_ingress,
    render_service, render_virtual_service,
};

use self::workload::WorkloadPlanner;
use super::model::{ChildStep, ComponentObserved, ComponentPlan, LegacyNeeds, LiveObject, WorkloadKind};

/// Plans the children of a valid component. `claimed_gpus` is [`RenderInput::claimed_gpus`]; `None` if they cannot be
/// counted.
///
/// # Errors
/// An object that cannot be written as JSON; never for what validation accepts.
pub fn plan(
    observed: &ComponentObserved,
    valid: &ValidatedComponent<'_>,
    settings: &PodSettings,
    start: &Start,
    claimed_gpus: Option<u32>,
) -> Result<ComponentPlan, Interruption> {
    let kind = WorkloadKind::of(&observed.component);
    let live_deployment = observed.deployment.as_ref().map(|live| &live.object);
    let live_set = observed.leader_worker_set.as_ref().map(|live| &live.object);
    let live_workload = observed.live_workload();
    let live_service = observed.service.as_ref().map(|live| &live.object);
    let input = RenderInput {
        settings,
        pull_secrets: &observed.pull_secrets,
        fallback_service_account: observed.accounts.first().map(String::as_str),
        legacy_type_is_worker: legacy_type_is_worker(valid, live_workload, live_service),
        restore: start,
        claimed_gpus: claimed_gpus.unwrap_or_default(),
    };
    let desired = observed.component.spec.component.desired_replicas();
    let serves = desired > 0 && live_workload.is_some_and(|live| live.desired_replicas() > 0);
    let planner = WorkloadPlanner { input: &input, valid, uid: &observed.uid, accounts: &observed.accounts };
    let workload = || match kind {
        WorkloadKind::LeaderWorkerSet => planner.leader_worker_set(live_set),
        WorkloadKind::Deployment => planner.deployment(live_deployment),
    };
    let autoscaler = autoscaler::autoscaler(&observed.component);
    let legacy = observed.legacy_needs.as_ref().unwrap_or(&LegacyNeeds::NONE);
    let facts = &observed.checkpoint;
    let config = facts.settings.as_ref().filter(|_| valid.checkpoint.is_some());
    let missing = config.map_or(Ok(None), |config| facts.place.missing_claim(&facts.namespace, &config.storage));
    let (checkpoint_volume, awaited_volume) = match missing {
        Ok(claim) => (claim, None),
        Err(message) => (None, Some(message)),
    };
    let volumes = checkpoint_volume.iter().chain(&legacy.volume).map(|claim| Desired::of(claim, &observed.uid));
    let mut waiting: Vec<String> = awaited_volume.into_iter().chain(legacy.missing_volume.clone()).collect();
    let mut virtual_service = render_virtual_service(&input, valid);
    let unserved = virtual_service.take_if(|_| !observed.serves_virtual_services);
    waiting.extend(unserved.iter().map(needs_api));
    let model_service = |model| workload::plan_model_service(&observed.uid, &observed.namespace, model);
    let workload = match start {
        // No pod can start without its image. Live pods run an earlier one and stay.
        _ if legacy.awaited_image.is_some() => {
            waiting.extend(legacy.awaited_image.clone());
            None
        }
        // The flags that join the nodes of a replica depend on the count. The live workload stays and can be scaled.
        _ if claimed_gpus.is_none() => {
            let own =
                live_set.filter(|set| is_controlled_by(*set, &observed.uid) && set.spec.replicas != Some(desired));
            own.map(|live| planner.scaled(live)).transpose()?
        }
        // Serving pods stay while another checkpoint is made.
        Start::Awaited(why) => {
            waiting.push(why.clone());
            (!serves).then(workload).transpose()?
        }
        Start::Cold | Start::AtAdmission(_) | Start::Restored(_) => Some(workload()?),
    };
    let version = live_workload.and_then(|live| live.object_meta().resource_version.clone()).unwrap_or_default();
    // Replicas that an autoscaler set after the observation are not reverted.
    let workload = workload.map(|workload| match &autoscaler {
        Some(_) => workload.based_on(&version, "/spec/replicas"),
        None => workload,
    });
    Ok(ComponentPlan {
        service: ChildStep::new(render_service(&input, valid), live_service, &observed.uid)?,
        ingress: ChildStep::new(render_ingress(&input, valid), typed(&observed.ingress), &observed.uid)?,
        virtual_service: ChildStep::new(virtual_service, typed(&observed.virtual_service), &observed.uid)?,
        autoscaler: ChildStep::new(autoscaler, typed(&observed.autoscaler), &observed.uid)?,
        model_services: observed.models.iter().map(model_service).collect::<Result<_, _>>()?,
        workload,
        volumes: volumes.collect::<Result<_, _>>()?,
        lacks_api: unserved.is_some(),
        waiting,
        joins_nodes: claimed_gpus.is_none_or(|gpus| valid.joins_nodes(gpus)),
        runtime_namespace: valid.runtime_namespace(),
    })
}

fn typed<K>(live: &Option<LiveObject<K>>) -> Option<&K> {
    live.as_ref().map(|live| &live.object)
}

/// The message that the cluster does not serve the API of an object.
fn needs_api<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let name = object.meta().name.as_deref().unwrap_or_default();
    format!("{} {name} needs the API {}, which the cluster does not serve", K::kind(&()), K::api_version(&()))
}
