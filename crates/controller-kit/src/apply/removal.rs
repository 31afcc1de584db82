//! Deletions: of exactly the object that was looked at; and objects that stay when their owner is deleted.

use std::time::Instant;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    api::{DeleteParams, Preconditions},
    core::ApiResource,
};
use serde_json::{Value, json};
use tracing::info;

use super::{
    Applier, Desired,
    applier::{address, uid_of},
    plan::text,
};
use crate::{
    failure::{ErrorType, Failure},
    metrics::WriteVerb,
    request::{ObjectId, RequestError, timed},
    store::{Shown, StaticKind},
    sync::locked,
};

/// Result of [`Applier::delete`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The API server accepted the deletion.
    Accepted,
    /// That object no longer exists; one of the same name with another uid was not touched.
    Gone,
}

impl Applier {
    /// Deletes exactly this object (by uid), its own children in the background. `parent_uid` is the object being
    /// reconciled.
    ///
    /// # Errors
    /// The API server rejects the request, unless the object is gone already.
    pub async fn delete<K: StaticKind>(&self, object: &K, parent_uid: &str) -> Result<Removed, RequestError> {
        self.remove(address(object), object.meta(), parent_uid, None, None).await
    }

    /// As [`Applier::delete`], without letting a pod end what it does.
    ///
    /// # Errors
    /// As [`Applier::delete`].
    pub async fn delete_at_once<K: StaticKind>(&self, object: &K, parent_uid: &str) -> Result<Removed, RequestError> {
        self.remove(address(object), object.meta(), parent_uid, None, Some(0)).await
    }

    /// As [`Applier::delete`], but only if the object is still the one that was looked at, down to its resourceVersion.
    ///
    /// # Errors
    /// [`Error::Changed`], which is transient, if it is not, or is another object of that name; otherwise as
    /// [`Applier::delete`].
    pub async fn delete_unchanged<K: StaticKind>(&self, object: &K, parent_uid: &str) -> Result<Removed, RequestError> {
        let (resource, id) = address(object);
        let Some(version) = object.meta().resource_version.clone() else {
            return Err(RequestError::render(&id, "metadata.resourceVersion is missing"));
        };
        self.remove((resource, id), object.meta(), parent_uid, Some(version), None).await
    }

    /// Deletes an object, of this version only if one is given, after so many seconds if they are given. Without the
    /// object's type, so that the code is compiled once for all kinds.
    async fn remove(
        &self,
        (resource, id): (ApiResource, ObjectId),
        metadata: &ObjectMeta,
        parent_uid: &str,
        version: Option<String>,
        grace: Option<u32>,
    ) -> Result<Removed, RequestError> {
        let (uid, is_any_version) = (uid_of(&id, metadata)?, version.is_none());
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: version };
        let params = DeleteParams::background().preconditions(preconditions);
        let params = DeleteParams { grace_period_seconds: grace, ..params };
        let api = self.api(&resource, &id);
        match timed("delete", &id, api.delete(&id.name, &params)).await {
            Ok(_) => {
                info!(object = %id, "deleted");
                self.metrics.write(WriteVerb::Delete, &id.kind, true);
                locked(&self.memory).wait_until(Shown::Deleting, parent_uid, &id, uid, Instant::now());
                Ok(Removed::Accepted)
            }
            Err(error) if error.is_not_found() => Ok(Removed::Gone),
            // With the uid as the only precondition: another object has that name by now.
            Err(error) if error.error_type() == ErrorType::Conflict && is_any_version => Ok(Removed::Gone),
            Err(error) if error.error_type() == ErrorType::Conflict => Err(RequestError::Changed { object: id }),
            Err(error) => {
                self.metrics.write(WriteVerb::Delete, &id.kind, false);
                Err(error)
            }
        }
    }

    // Server-side apply takes an owner reference away only where no other manager set it. One that another manager set
    // as well, another operator by a plain update for example, would let the garbage collector take the object.

    /// Takes every reference to the parent of `desired` off the owners of the live object, whichever manager set it.
    /// Nothing is sent if there is none, or if the object is being deleted anyway.
    ///
    /// # Errors
    /// [`Error::Changed`], which is transient, if the object is another one by now, or has other owners.
    pub async fn release(&self, desired: &Desired, live: &Value) -> Result<(), RequestError> {
        let (id, parent) = (&desired.id, &desired.parent_uid);
        let Some(operations) = without_owner(live, parent) else { return Ok(()) };
        let answer = self.edit("release", (&desired.resource, id), WriteVerb::Update, operations).await?;
        info!(object = %id, "taken from its owner, so that it stays when that goes");
        self.wrote(parent, id, &answer);
        Ok(())
    }
}

/// The JSON patch that leaves out this owner; `None` if there is nothing to do.
fn without_owner(live: &Value, owner: &str) -> Option<Value> {
    let metadata = live.get("metadata")?;
    if metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return None;
    }
    let all = metadata.get("ownerReferences")?.as_array()?;
    let mut operations = vec![json!({ "op": "test", "path": "/metadata/uid", "value": text(live, "/metadata/uid") })];
    // From the end, so that the places of those before stay.
    for place in (0..all.len()).rev().filter(|place| text(&all[*place], "/uid") == owner) {
        let path = format!("/metadata/ownerReferences/{place}");
        operations.push(json!({ "op": "test", "path": format!("{path}/uid"), "value": owner }));
        operations.push(json!({ "op": "remove", "path": path }));
    }
    (operations.len() > 1).then_some(Value::Array(operations))
}

#[cfg(test)]
mod tests {
    use json_patch::Patch;
    use serde_json::{Value, json};

    use super::without_owner;

    fn owned(uids: &[&str]) -> Value {
        let owners: Vec<Value> = uids.iter().map(|uid| json!({ "kind": "K", "uid": uid })).collect();
        json!({ "metadata": { "uid": "u", "ownerReferences": owners } })
    }

    /// Returns the uids of the remaining owners.
    fn left(live: &Value) -> Option<Vec<String>> {
        let mut after = live.clone();
        let patch: Patch = serde_json::from_value(without_owner(live, "parent")?).unwrap();
        json_patch::patch(&mut after, &patch).unwrap();
        let owners = after["metadata"]["ownerReferences"].as_array().unwrap();
        Some(owners.iter().map(|owner| owner["uid"].as_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn the_parent_goes_and_other_owners_stay() {
        assert_eq!(left(&owned(&["parent"])).unwrap(), [""; 0]);
        assert_eq!(left(&owned(&["a", "parent", "b"])).unwrap(), ["a", "b"]);
        assert_eq!(left(&owned(&["parent", "a", "parent"])).unwrap(), ["a"]);
    }

    #[test]
    fn nothing_is_sent_where_the_parent_is_no_owner_or_the_object_goes_anyway() {
        let mut going = owned(&["parent"]);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        for live in [owned(&[]), owned(&["a"]), json!({ "metadata": { "uid": "u" } }), going] {
            assert_eq!(without_owner(&live, "parent"), None, "{live}");
        }
    }

    #[test]
    fn another_object_and_other_owners_are_not_touched() {
        let operations = without_owner(&owned(&["a", "parent"]), "parent").unwrap();
        let patch: Patch = serde_json::from_value(operations).unwrap();
        for mut other in [owned(&["parent", "a"]), owned(&["a"])] {
            json_patch::patch(&mut other, &patch).unwrap_err();
        }
        let mut successor = owned(&["a", "parent"]);
        successor["metadata"]["uid"] = json!("another");
        json_patch::patch(&mut successor, &patch).unwrap_err();
    }
}
