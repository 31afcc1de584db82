//! Plans the Deployment or LeaderWorkerSet of a component, and what its pods need beside it.

#[cfg(test)]
mod tests;

use api_types::{annotations, labels};
use controller_kit::{
    apply::{Desired, includes},
    request::Interruption,
    store::{controller_owner, is_controlled_by},
};
use k8s_openapi::{
    api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use kube::Resource;
use rendering::{
    LeaderWorkerSet, RenderInput, ValidatedComponent, WorkloadObject, carried_digest, keep_live_pull_secrets,
    note_status_before, render_deployment, render_leader_worker_set, render_model_service,
};
use serde::Serialize;
use serde_json::json;

use crate::component::model::{ChildStep, ObservedModel};

impl ChildStep {
    /// Applies what was rendered, or deletes the live object that the component owns.
    pub(super) fn new<K>(rendered: Option<K>, live: Option<&K>, uid: &str) -> Result<Self, Interruption>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        if let Some(rendered) = rendered {
            return Ok(Self::Apply(Box::new(desired(&rendered, uid, true)?)));
        }
        let ours = live.is_some_and(|live| is_controlled_by(live, uid));
        let going = live.is_some_and(|live| live.meta().deletion_timestamp.is_some());
        Ok(if ours && !going { Self::Delete } else { Self::Nothing })
    }
}

/// A child of the component `uid`. If it is `adoptable`, a live object without controller owner that has the same
/// component labels is adopted: deletion with `--cascade=orphan` leaves such objects.
pub(super) fn desired<K>(object: &K, uid: &str, adoptable: bool) -> Result<Desired, Interruption>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut desired = Desired::of(object, uid)?;
    for key in [labels::COMPONENT, labels::DYNAMO_NAMESPACE, labels::BASE_MODEL_HASH, labels::OWN_COMPONENT] {
        if let Some(value) = object.meta().labels.as_ref().and_then(|all| all.get(key)).filter(|_| adoptable) {
            desired = desired.adopt_if_labelled(key, value);
        }
    }
    Ok(desired)
}

fn selector(deployment: &Deployment) -> Option<&LabelSelector> {
    deployment.spec.as_ref().map(|spec| &spec.selector)
}

/// Plans the headless Service of a base model, owned by all components that serve it. The component `uid` serves the
/// model, or owns the Service and no longer does.
pub(super) fn plan_model_service(uid: &str, namespace: &str, model: &ObservedModel) -> Result<ChildStep, Interruption> {
    let live = model.service.as_ref().map(|live| &live.object);
    let controller = live.and_then(controller_owner).map(|owner| owner.uid.as_str());
    let mut service = render_model_service(namespace, &model.name);
    if !model.owners.iter().any(|owner| owner.uid == uid) {
        let owners = live.iter().flat_map(|live| live.metadata.owner_references.iter().flatten());
        let is_last = model.owners.is_empty() && (controller == Some(uid) || owners.map(|o| &o.uid).all(|o| o == uid));
        return Ok(match live.filter(|live| live.metadata.deletion_timestamp.is_none()) {
            Some(_) if is_last => ChildStep::Delete,
            // Another manager may have set the reference too, so that it does not go with a server-side apply.
            Some(_) => ChildStep::Release(Box::new(desired(&service, uid, false)?)),
            None => ChildStep::Nothing,
        });
    }
    // Exactly one owner is the controller, the same one in the reconcile of every owner.
    let first = controller.or(model.owners.first().map(|owner| owner.uid.as_str())).unwrap_or_default();
    if !model.owners.iter().any(|owner| owner.uid == first) {
        // Its own reconcile or the garbage collector removes it first.
        return Ok(ChildStep::Nothing);
    }
    let owner = |owner: &OwnerReference| OwnerReference {
        controller: (owner.uid == first).then_some(true),
        block_owner_deletion: Some(true),
        ..owner.clone()
    };
    service.metadata.owner_references = Some(model.owners.iter().map(owner).collect());
    Ok(ChildStep::Apply(Box::new(desired(&service, first, true)?)))
}

/// Plans the workload of a component.
pub(super) struct WorkloadPlanner<'a> {
    pub(super) input: &'a RenderInput<'a>,
    pub(super) valid: &'a ValidatedComponent<'a>,
    /// Uid of the component.
    pub(super) uid: &'a str,
    /// Accounts that are labelled for its pods.
    pub(super) accounts: &'a [String],
}

impl WorkloadPlanner<'_> {
    /// Plans the Deployment.
    pub(super) fn deployment(&self, live: Option<&Deployment>) -> Result<Desired, Interruption> {
        let mut rendered = self.render(live, render_deployment);
        keep_live_pull_secrets(&mut rendered, self.valid, live);
        // Selectors are immutable: a Deployment with another one is never adopted, whatever its labels.
        desired(&rendered, self.uid, live.is_none_or(|live| selector(live) == selector(&rendered)))
    }

    /// Plans the LeaderWorkerSet.
    pub(super) fn leader_worker_set(&self, live: Option<&LeaderWorkerSet>) -> Result<Desired, Interruption> {
        let mut rendered = self.render(live, render_leader_worker_set);
        keep_live_pull_secrets(&mut rendered, self.valid, live);
        let noted = match live {
            Some(live) => {
                let same = has_templates_of(live, &rendered);
                note_status_before(&mut rendered, live, same)
            }
            None => false,
        };
        let desired = desired(&rendered, self.uid, true)?;
        Ok(if noted { desired.only_if_unchanged() } else { desired })
    }

    /// The live LeaderWorkerSet with the desired replicas, while its templates cannot be rendered.
    pub(super) fn scaled(&self, live: &LeaderWorkerSet) -> Result<Desired, Interruption> {
        let mut rendered = render_leader_worker_set(self.input, self.valid);
        rendered.spec.leader_worker_template.clone_from(&live.spec.leader_worker_template);
        let marks = rendered.metadata.annotations.get_or_insert_default();
        for key in [annotations::TEMPLATE_DIGEST, annotations::STATUS_BEFORE] {
            marks.remove(key);
            let kept = live.metadata.annotations.iter().find_map(|all| all.get_key_value(key));
            marks.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
        }
        desired(&rendered, self.uid, true)
    }

    /// Renders a workload with its account: the first that is labelled; or the live one, if it is still labelled and
    /// the rest of the template is unchanged, so that labelling another account rolls no pod.
    ///
    /// Pods that have served under the default account of the namespace keep it for the same reason.
    fn render<W>(&self, live: Option<&W>, render: fn(&RenderInput<'_>, &ValidatedComponent<'_>) -> W) -> W
    where
        W: WorkloadObject,
    {
        let (input, valid) = (self.input, self.valid);
        let rendered = render(input, valid);
        let Some(live) = live else { return rendered };
        let known = self.accounts.iter().map(String::as_str).find(|account| Some(*account) == account_of(live));
        if known == input.fallback_service_account || (known.is_none() && !live.has_served()) {
            return rendered;
        }
        let as_live = render(&RenderInput { fallback_service_account: known, ..*input }, valid);
        // A workload of another operator has no digest, so other changes cannot be recognized.
        let digest = carried_digest(live);
        let same = digest.is_none() || digest == carried_digest(&as_live);
        if same && account_of(&as_live) == account_of(live) { as_live } else { rendered }
    }
}

fn account_of(workload: &impl WorkloadObject) -> Option<&str> {
    workload.templates().first()?.spec.as_ref()?.service_account_name.as_deref()
}

/// Whether the templates are semantically equal.
fn has_templates_of(live: &LeaderWorkerSet, rendered: &LeaderWorkerSet) -> bool {
    let (live, rendered) = (json!(live.spec.leader_worker_template), json!(rendered.spec.leader_worker_template));
    includes(&live, &rendered) && includes(&rendered, &live)
}
