//! The Service of a base model. Every component of a namespace that serves the model owns it, so that it goes with the last
//! of them and not with the first.

use controller_kit::{apply::Desired, read::Interruption, store::controller_owner};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use workload::render_model_service;

use super::desired;
use crate::component::observe::ModelFacts;

/// The Service as it should be, with all of its owners; nothing while the one that controls it is being collected.
pub(super) fn decide(namespace: &str, model: &str, facts: &ModelFacts) -> Result<Option<Desired>, Interruption> {
    let live = facts.service.as_ref().map(|live| &live.object);
    let controller = live.and_then(controller_owner);
    // One entry must control it, and the same one for everybody who looks.
    let Some(first) = controller.map(|owner| owner.uid.clone()).or_else(|| facts.owners.first().map(|o| o.uid.clone()))
    else {
        return Ok(None);
    };
    if !facts.owners.iter().any(|owner| owner.uid == first) {
        return Ok(None);
    }
    let owner = |owner: &OwnerReference| OwnerReference {
        controller: (owner.uid == first).then_some(true),
        block_owner_deletion: Some(true),
        ..owner.clone()
    };
    let mut service = render_model_service(namespace, model);
    service.metadata.owner_references = Some(facts.owners.iter().map(owner).collect());
    Ok(Some(desired(&service, &first, true)?))
}

#[cfg(test)]
mod tests {
    use controller_kit::store::Packed;
    use serde_json::{Value, json};

    use super::*;
    use crate::component::observe::Live;

    fn owner(uid: &str, controls: bool) -> Value {
        let mut owner = json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
            "name": uid, "uid": uid, "blockOwnerDeletion": true });
        if controls {
            owner["controller"] = json!(true);
        }
        owner
    }

    /// The owners that the Service shall have, when these components serve the model and a live Service has these owners.
    fn owners(serving: &[&str], live: Option<Value>) -> Option<Value> {
        let service = live.map(|owners| {
            let live = json!({ "metadata": { "name": "dynamo-model-x", "namespace": "ns", "uid": "s",
                "ownerReferences": owners } });
            Live::of(&Packed::from_value(live).unwrap()).unwrap()
        });
        let owners = serving.iter().map(|uid| serde_json::from_value(owner(uid, false)).unwrap()).collect();
        let desired = decide("ns", "m", &ModelFacts { service, owners }).unwrap()?;
        Some(desired.object()["metadata"]["ownerReferences"].clone())
    }

    /// In the reference it belongs to one component, and goes with it although others serve the model (defect 9).
    #[test]
    fn it_belongs_to_everybody_who_serves_the_model() {
        let (a, b) = (owner("a", true), owner("b", false));
        assert_eq!(owners(&["a"], None), Some(json!([a])));
        assert_eq!(owners(&["a", "b"], None), Some(json!([a, b])));
        assert_eq!(owners(&["a", "b"], Some(json!([a]))), Some(json!([a, b])), "a new generation joins");
        let second = json!([owner("a", false), owner("b", true)]);
        assert_eq!(owners(&["a", "b"], Some(json!([owner("b", true)]))), Some(second), "who controls it, stays");
    }

    #[test]
    fn whoever_is_left_controls_it() {
        assert_eq!(owners(&["b"], Some(json!([owner("b", false)]))), Some(json!([owner("b", true)])));
        let gone = json!([owner("a", true), owner("b", false)]);
        assert_eq!(owners(&["b"], Some(gone)), None, "until the collector has taken the old one off");
        assert_eq!(owners(&["b"], Some(json!([owner("graph", true)]))), None, "a graph on Grove keeps its own");
    }
}
