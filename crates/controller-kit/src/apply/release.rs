//! Objects that stay when their owner is deleted.
//!
//! Server-side apply takes an owner reference away only where no other manager set it. One that another manager set as
//! well, another operator by a plain update for example, would let the garbage collector take the object.

use std::time::Instant;

use serde_json::{Value, json};
use tracing::info;

use super::{Applier, Desired, applier::version_of, plan::text};
use crate::{metrics::WriteVerb, request::Error};

impl Applier {
    /// Takes every reference to the parent of `desired` off the owners of the live object, whichever manager set it.
    /// Nothing is sent if there is none, or if the object is being deleted anyway.
    ///
    /// # Errors
    /// [`Error::Changed`], which is transient, if the object is another one by now, or has other owners.
    pub async fn release(&self, desired: &Desired, live: &Value) -> Result<(), Error> {
        let (id, parent) = (&desired.id, &desired.parent_uid);
        let Some(operations) = without_owner(live, parent) else { return Ok(()) };
        let answer = self.edit("release", (&desired.resource, id), WriteVerb::Update, operations).await?;
        info!(object = %id, "taken from its owner, so that it stays when that goes");
        if let Some(version) = version_of(&answer) {
            self.memory().wrote(parent, id, version, Instant::now());
        }
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

    /// What is left of the owners.
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
