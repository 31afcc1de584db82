//! Objects that another operator made by plain updates before us.
//!
//! Server-side apply removes a field only if no other manager owns it. What a predecessor set stays its own for ever,
//! so a field that the user removes after the takeover would never leave. Before our first real change of such an
//! object, what it owns becomes ours; the change then removes what is no longer desired, and nothing else. The first
//! contact alone, with a spec that did not change, removes nothing: what the predecessor rendered beyond us must not
//! roll a pod.

use kube::core::ApiResource;
use serde_json::{Map, Value, json};
use tracing::info;

use super::{
    Applier, Desired,
    plan::{fingerprint, text},
    status_writer::same_status,
};
use crate::{
    metrics::WriteVerb,
    request::{ObjectId, RequestError},
    sync::locked,
};

impl Applier {
    /// Makes ours what a predecessor owns of the live object. Returns the object's resourceVersion afterwards, if it
    /// was written. Costs nothing for objects without a predecessor's mark, and is done once per object and mark.
    pub(super) async fn take_over(&self, desired: &Desired, live: &Value) -> Result<Option<String>, RequestError> {
        let (id, parent, uid) = (&desired.id, &desired.parent_uid, text(live, "/metadata/uid"));
        let Some(marks) = self.marks_on(live).filter(|marks| !locked(&self.memory).has_inherited(parent, &uid, marks))
        else {
            return Ok(None);
        };
        let changed = || RequestError::Changed { object: id.clone() };
        let seen = self.read(&desired.resource, id).await?.ok_or_else(changed)?;
        let version = text(&seen, "/metadata/resourceVersion");
        let another = desired.unchanged && version != text(live, "/metadata/resourceVersion");
        if another || text(&seen, "/metadata/uid") != uid {
            return Err(changed());
        }
        let entries = seen.pointer("/metadata/managedFields").and_then(Value::as_array);
        let entries = entries.and_then(|entries| inherit(entries, &self.marks, &self.field_manager, &desired.object));
        let mut after = None;
        if let Some(entries) = entries {
            let operations = json!([
                { "op": "test", "path": "/metadata/uid", "value": uid },
                { "op": "test", "path": "/metadata/resourceVersion", "value": version },
                { "op": "replace", "path": "/metadata/managedFields", "value": entries },
            ]);
            let answer = self.edit("take over", (&desired.resource, id), WriteVerb::Update, operations).await?;
            info!(object = %id, "took over the fields that another operator had set");
            self.wrote(parent, id, &answer);
            after = Some(text(&answer, "/metadata/resourceVersion"));
        }
        locked(&self.memory).inherited(parent, &uid, &marks);
        Ok(after)
    }

    /// A fingerprint of the predecessors' marks on this object; `None` if it has none.
    fn marks_on(&self, live: &Value) -> Option<String> {
        let annotations = live.get("metadata")?.get("annotations")?;
        let marks: Map<String, Value> =
            self.marks.iter().filter_map(|mark| Some((mark.clone(), annotations.get(mark)?.clone()))).collect();
        (!marks.is_empty()).then(|| fingerprint(&Value::Object(marks)))
    }

    // Server-side apply removes a field only if no other manager owns it. The upstream operator wrote statuses by
    // updates, so its fields would stay for ever. The API server ignores `managedFields` in requests for a subresource;
    // the fields themselves go.

    /// Replaces the status by what was applied, if the answer differs and the upstream operator owns a part of it.
    /// Returns the object as it is then. A status with a third manager is left as it is.
    ///
    /// # Errors
    /// [`Error::Changed`] if the object changed after the answer; otherwise what the API server answered.
    pub(super) async fn remove_old_status(
        &self,
        resource: &ApiResource,
        id: &ObjectId,
        uid: &str,
        applied: &Value,
        answer: Value,
    ) -> Result<Value, RequestError> {
        if same_status(&answer["status"], applied) || !is_upstream_status(&answer, &self.status_manager()) {
            return Ok(answer);
        }
        let operations = json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "test", "path": "/metadata/resourceVersion", "value": text(&answer, "/metadata/resourceVersion") },
            { "op": "replace", "path": "/status", "value": applied },
        ]);
        let answer =
            self.edit("remove old fields from the status of", (resource, id), WriteVerb::Status, operations).await?;
        info!(object = %id, "removed status fields of the upstream operator");
        Ok(answer)
    }

    /// The field manager of statuses.
    pub(super) fn status_manager(&self) -> String {
        format!("{}/status", self.field_manager)
    }
}

/// The managed fields with ours in place of the predecessors'; `None` if they own nothing.
///
/// One entry is of one API version: the API server converts ours, but not a mixture. What a predecessor set in
/// another one is only ours from then on, as far as we applied it too: it goes when it is no longer desired, and the
/// rest stays.
fn inherit(entries: &[Value], marks: &[String], manager: &str, desired: &Value) -> Option<Vec<Value>> {
    let ours = entries.iter().find(|entry| entry["manager"] == manager && is(entry, "Apply"));
    let marked = |entry: &&Value| {
        let annotations = &entry["fieldsV1"]["f:metadata"]["f:annotations"];
        is(entry, "Update") && marks.iter().any(|mark| annotations.get(format!("f:{mark}")).is_some())
    };
    let first = entries.iter().find(marked)?;
    // It has an entry for each version that it ever wrote, and its mark is in the last.
    let names: Vec<&Value> = entries.iter().filter(marked).map(|entry| &entry["manager"]).collect();
    let of_predecessor = |entry: &Value| is(entry, "Update") && names.contains(&&entry["manager"]);
    let (theirs, mut rest): (Vec<Value>, Vec<Value>) = entries.iter().cloned().partition(of_predecessor);
    let mut entry = ours.unwrap_or(first).clone();
    let version = entry.get("apiVersion")?.clone();
    let mut fields = ours.map_or_else(|| json!({}), |ours| ours["fieldsV1"].clone());
    let of_version = theirs.iter().filter(|their| their["apiVersion"] == version && their["fieldsV1"].is_object());
    of_version.for_each(|their| json_patch::merge(&mut fields, &handed_over(&their["fieldsV1"], desired)));
    entry["manager"] = json!(manager);
    entry["operation"] = json!("Apply");
    entry["fieldsV1"] = fields;
    rest.retain(|other| Some(other) != ours);
    rest.push(entry);
    Some(rest)
}

/// True for an entry of this operation on the object itself, not on its status or another subresource.
fn is(entry: &Value, operation: &str) -> bool {
    entry["operation"] == operation && entry["subresource"].as_str().unwrap_or_default().is_empty()
}

/// A predecessor's field set without what it needs if it ever comes back, and what only a deliberate write may remove:
/// annotations, owner references and finalizers of the object itself that we do not apply.
fn handed_over(fields: &Value, desired: &Value) -> Value {
    let metadata = &desired["metadata"];
    let all = |list: &str| metadata[list].as_array().into_iter().flatten();
    let element = |key: &str, prefix: &str| key.strip_prefix(prefix).and_then(|key| serde_json::from_str(key).ok());
    let mut fields = fields.clone();
    keep(&mut fields, "f:annotations", |key| {
        key.strip_prefix("f:").is_some_and(|key| metadata["annotations"].get(key).is_some())
    });
    keep(&mut fields, "f:ownerReferences", |key| {
        element(key, "k:").is_some_and(|key: Value| all("ownerReferences").any(|owner| owner["uid"] == key["uid"]))
    });
    keep(&mut fields, "f:finalizers", |key| {
        element(key, "v:").is_some_and(|name: Value| all("finalizers").any(|finalizer| *finalizer == name))
    });
    fields
}

/// Keeps those members of a set in the metadata for which `is_kept` is true, and the set if there are any.
fn keep(fields: &mut Value, set: &str, is_kept: impl Fn(&str) -> bool) {
    let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) else { return };
    let Some(members) = metadata.get_mut(set).and_then(Value::as_object_mut) else { return };
    members.retain(|key, _| is_kept(key));
    if members.is_empty() {
        metadata.remove(set);
    }
}

/// Field manager of the upstream operator's updates: the name of its binary.
const UPSTREAM_MANAGER: &str = "manager";

/// True if updates of the upstream operator own a part of the status, and no manager but it and `ours` does.
fn is_upstream_status(object: &Value, ours: &str) -> bool {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let of_status = entries.into_iter().flatten().filter(|entry| !entry["fieldsV1"]["f:status"].is_null());
    let mut others = of_status.filter(|entry| entry["manager"] != ours).peekable();
    others.peek().is_some()
        && others.all(|entry| entry["manager"] == UPSTREAM_MANAGER && entry["operation"] == "Update")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::inherit;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    fn theirs() -> Value {
        entry(
            "manager",
            "Update",
            json!({
                "f:metadata": {
                    "f:annotations": { ".": {}, "f:mark": {}, "f:expected": {} },
                    "f:finalizers": { ".": {}, "v:\"theirs\"": {} },
                    "f:labels": { "f:a": {} },
                    "f:ownerReferences": { ".": {}, "k:{\"uid\":\"1\"}": {}, "k:{\"uid\":\"2\"}": {} },
                },
                "f:spec": { "f:replicas": {}, "f:template": { "f:spec": { "f:x": {} } } },
            }),
        )
    }

    fn heir(entries: &[Value]) -> Option<Vec<Value>> {
        let metadata = json!({ "annotations": { "expected": "x" }, "ownerReferences": [{ "uid": "2" }] });
        inherit(entries, &["mark".to_owned()], "us", &json!({ "metadata": metadata }))
    }

    #[test]
    fn what_the_predecessor_set_becomes_ours_except_its_bookkeeping() {
        let mut status = entry("manager", "Update", theirs()["fieldsV1"].clone());
        status["subresource"] = json!("status");
        let other = entry("another-manager", "Update", json!({ "f:spec": { "f:paused": {} } }));
        let expected = json!({
            "f:metadata": {
                "f:annotations": { "f:expected": {} },
                "f:labels": { "f:a": {} },
                "f:ownerReferences": { "k:{\"uid\":\"2\"}": {} },
            },
            "f:spec": { "f:replicas": {}, "f:template": { "f:spec": { "f:x": {} } } },
        });
        let after = heir(&[theirs(), status.clone(), other.clone()]).unwrap();
        assert_eq!(after, [status, other, entry("us", "Apply", expected)]);
        assert_eq!(heir(&after), None, "once");
    }

    #[test]
    fn an_entry_of_ours_grows() {
        let ours = entry("us", "Apply", json!({ "f:spec": { "f:template": { "f:spec": { "f:y": {} } }, "f:z": {} } }));
        let after = heir(&[ours, theirs()]).unwrap();
        assert_eq!(after.len(), 1);
        let spec = json!({ "f:replicas": {}, "f:template": { "f:spec": { "f:x": {}, "f:y": {} } }, "f:z": {} });
        assert_eq!(after[0]["fieldsV1"]["f:spec"], spec);
    }

    #[test]
    fn what_is_of_another_version_goes_or_is_taken_over_as_it_is_if_we_have_none() {
        let mut older = theirs();
        older["apiVersion"] = json!("apps/v1beta1");
        let ours = entry("us", "Apply", json!({ "f:spec": { "f:replicas": {} } }));
        let other = entry("another-manager", "Update", json!({ "f:spec": { "f:paused": {} } }));
        let after = heir(&[older.clone(), ours.clone(), other.clone()]).unwrap();
        assert_eq!(after, [other, ours], "versions are not mixed");
        assert_eq!(heir(&after), None, "once");
        let alone = heir(std::slice::from_ref(&older)).unwrap();
        assert_eq!((&alone[0]["apiVersion"], &alone[0]["manager"]), (&json!("apps/v1beta1"), &json!("us")));
        // The mark moved to the entry of the version that it wrote last.
        older["fieldsV1"]["f:metadata"]["f:annotations"] = json!({});
        let after = heir(&[older, theirs()]).unwrap();
        assert_eq!((after.len(), &after[0]["apiVersion"], &after[0]["manager"]), (1, &json!("apps/v1"), &json!("us")));
    }

    #[test]
    fn nothing_is_inherited_from_those_who_left_no_mark() {
        assert_eq!(heir(&[]), None);
        assert_eq!(heir(&[entry("kubectl", "Update", json!({ "f:spec": { "f:replicas": {} } }))]), None);
        assert_eq!(heir(&[entry("other", "Apply", theirs()["fieldsV1"].clone())]), None);
    }
}

#[cfg(test)]
mod status_takeover_tests {
    use serde_json::{Value, json};

    use super::is_upstream_status;

    fn entry(manager: &str, operation: &str, part: &str) -> Value {
        json!({ "manager": manager, "operation": operation, "fieldsV1": { part: { "f:x": {} } } })
    }

    #[test]
    fn a_status_with_a_third_manager_is_left_as_it_is() {
        let is =
            |entries: &[Value]| is_upstream_status(&json!({ "metadata": { "managedFields": entries } }), "us/status");
        let ours = entry("us/status", "Apply", "f:status");
        let upstream = entry("manager", "Update", "f:status");
        assert!(is(&[ours.clone(), upstream.clone()]));
        assert!(is(&[ours.clone(), upstream.clone(), entry("kubectl", "Update", "f:spec")]));
        assert!(!is(&[ours.clone(), upstream.clone(), entry("agent", "Apply", "f:status")]));
        assert!(!is(&[ours.clone(), entry("manager", "Update", "f:spec")]));
        assert!(!is(&[ours.clone(), entry("manager", "Apply", "f:status")]));
        assert!(!is(&[ours]));
    }
}
