//! Writes what several graphs and requests share, and what therefore belongs to none of them.

use api_types::labels;
use controller_kit::{
    apply::{Applier, Desired, Error, Outcome},
    failure::Class,
    store::{Key, Packed, Store, controller_owner},
};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use tracing::debug;

use crate::graph::observe::live_value;

/// Applies an object that several share. A foreign one of the same name is used as it is. `parent_uid` is
/// the object being reconciled. Gives what it waits for.
///
/// # Errors
/// What the API server answered.
pub async fn write_shared<K>(
    applier: &Applier,
    parent_uid: &str,
    store: &Store<Packed<K>>,
    object: &K,
) -> Result<Option<String>, Error>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let live = live_value(store, &object.namespace().unwrap_or_default(), &object.name_any());
    write_beside(applier, parent_uid, object, live.as_ref()).await
}

/// As [`write_shared`]. The role of a binding cannot be changed: one of ours that names another role is made anew, and
/// deleted only if the API server lets us create the new one.
///
/// # Errors
/// What the API server answered.
pub async fn write_binding(
    applier: &Applier,
    parent_uid: &str,
    store: &Store<Packed<RoleBinding>>,
    object: &RoleBinding,
) -> Result<Option<String>, Error> {
    let live = store.get(&Key::of(object)).filter(|live| controller_owner(live.as_ref()).is_none());
    if let Some(live) = live
        && live.unpack().is_ok_and(|binding| binding.role_ref != object.role_ref)
    {
        applier.check_creation(&Desired::of(object, parent_uid)?).await?;
        applier.delete(live.as_ref(), parent_uid).await?;
        return write_beside(applier, parent_uid, object, None).await;
    }
    write_shared(applier, parent_uid, store, object).await
}

async fn write_beside<K>(
    applier: &Applier,
    parent_uid: &str,
    object: &K,
    live: Option<&Value>,
) -> Result<Option<String>, Error>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut desired = Desired::of(object, parent_uid)?;
    for key in [labels::MANAGED_BY, labels::APP_NAME] {
        if let Some(value) = object.labels().get(key) {
            desired = desired.adopt_if_labelled(key, value);
        }
    }
    match applier.apply(&desired, live).await {
        Ok(Outcome::Waiting { reason }) => Ok(Some(format!("{}: {reason}", desired.id()))),
        Ok(_) => Ok(None),
        Err(error) if error.class() == Class::Foreign => {
            debug!(%error, "used as it is");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
