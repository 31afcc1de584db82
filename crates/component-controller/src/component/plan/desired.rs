//! Desired children, owned by their component.

use api_types::labels;
use controller_kit::{apply::Desired, read::Interruption, store::controller_owner};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Serialize;

use crate::component::model::Step;

impl Step {
    /// Applies what was rendered, or deletes the live object that the component owns.
    pub(super) fn new<K>(rendered: Option<K>, live: Option<&K>, uid: &str) -> Result<Self, Interruption>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        if let Some(rendered) = rendered {
            return Ok(Self::Apply(Box::new(desired(&rendered, uid, true)?)));
        }
        let ours = live.and_then(controller_owner).is_some_and(|owner| owner.uid == uid);
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
        if let Some(value) = label(object.meta(), key).filter(|_| adoptable) {
            desired = desired.adopt_if_labelled(key, value);
        }
    }
    Ok(desired)
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}
