//! What the pods of a component need beside their workload: an account, and the headless Service of a base model.

use controller_kit::{apply::Desired, read::Interruption, store::controller_owner};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rendering::{RenderInput, TemplateDigest, ValidatedComponent, Workload, render_model_service};

use super::desired::desired;
use crate::component::model::ObservedModel;

/// Plans the Service with all its owners; `None` while its controller owner is being garbage-collected.
pub(super) fn plan(namespace: &str, model: &str, live: &ObservedModel) -> Result<Option<Desired>, Interruption> {
    let service = live.service.as_ref().map(|live| &live.object);
    let controller = service.and_then(controller_owner);
    // Exactly one owner is the controller, the same one in the reconcile of every owner.
    let Some(first) = controller.map(|owner| owner.uid.clone()).or_else(|| live.owners.first().map(|o| o.uid.clone()))
    else {
        return Ok(None);
    };
    if !live.owners.iter().any(|owner| owner.uid == first) {
        return Ok(None);
    }
    let owner = |owner: &OwnerReference| OwnerReference {
        controller: (owner.uid == first).then_some(true),
        block_owner_deletion: Some(true),
        ..owner.clone()
    };
    let mut service = render_model_service(namespace, model);
    service.metadata.owner_references = Some(live.owners.iter().map(owner).collect());
    Ok(Some(desired(&service, &first, true)?))
}

/// Renders a workload with its account: the first of `labelled`; or the live one, if it is still labelled and the rest
/// of the template is unchanged, so that labelling another account rolls no pod.
///
/// Pods that have served under the default account of the namespace keep it for the same reason.
pub(super) fn render<W: Workload>(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    labelled: &[String],
    live: Option<&W>,
    render: impl Fn(&RenderInput<'_>, &ValidatedComponent<'_>) -> W,
) -> W {
    let rendered = render(input, valid);
    let Some(live) = live else { return rendered };
    let known = labelled.iter().map(String::as_str).find(|account| Some(*account) == account_of(live));
    if known == input.fallback_service_account || (known.is_none() && !live.has_served()) {
        return rendered;
    }
    let as_live = render(&RenderInput { fallback_service_account: known, ..*input }, valid);
    // A workload of another operator has no digest, so other changes cannot be recognized.
    let digest = TemplateDigest::carried_by(live);
    let same = digest.is_none() || digest == TemplateDigest::carried_by(&as_live);
    if same && account_of(&as_live) == account_of(live) { as_live } else { rendered }
}

fn account_of(workload: &impl Workload) -> Option<&str> {
    workload.templates().first()?.spec.as_ref()?.service_account_name.as_deref()
}

#[cfg(test)]
mod tests {
    use controller_kit::store::Packed;
    use serde_json::{Value, json};

    use super::*;
    use crate::component::model::Live;

    fn owner(uid: &str, controls: bool) -> Value {
        let mut owner = json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
            "name": uid, "uid": uid, "blockOwnerDeletion": true });
        if controls {
            owner["controller"] = json!(true);
        }
        owner
    }

    /// Planned owners of the Service, with these serving components and these owners of the live Service.
    fn owners(serving: &[&str], live: Option<Value>) -> Option<Value> {
        let service = live.map(|owners| {
            let live = json!({ "metadata": { "name": "dynamo-model-x", "namespace": "ns", "uid": "s",
                "ownerReferences": owners } });
            Live::from_packed(&Packed::from_value(live).unwrap()).unwrap()
        });
        let owners = serving.iter().map(|uid| serde_json::from_value(owner(uid, false)).unwrap()).collect();
        let desired = plan("ns", "m", &ObservedModel { service, owners }).unwrap()?;
        Some(desired.object()["metadata"]["ownerReferences"].clone())
    }

    /// The upstream operator gives it one owner, with which it is deleted although others serve the model.
    #[test]
    fn every_component_that_serves_the_model_owns_it() {
        let (a, b) = (owner("a", true), owner("b", false));
        assert_eq!(owners(&["a"], None), Some(json!([a])));
        assert_eq!(owners(&["a", "b"], None), Some(json!([a, b])));
        assert_eq!(owners(&["a", "b"], Some(json!([a]))), Some(json!([a, b])), "a new revision joins");
        let second = json!([owner("a", false), owner("b", true)]);
        assert_eq!(owners(&["a", "b"], Some(json!([owner("b", true)]))), Some(second), "the controller owner stays");
    }

    #[test]
    fn a_remaining_owner_becomes_the_controller() {
        assert_eq!(owners(&["b"], Some(json!([owner("b", false)]))), Some(json!([owner("b", true)])));
        let gone = json!([owner("a", true), owner("b", false)]);
        assert_eq!(owners(&["b"], Some(gone)), None, "until the garbage collector has removed the old one");
        assert_eq!(owners(&["b"], Some(json!([owner("graph", true)]))), None, "a graph on Grove keeps its own");
    }
}
