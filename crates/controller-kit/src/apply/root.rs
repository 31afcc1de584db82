//! Writes to objects of others: finalizers, single fields of the spec, single annotations and labels, and replicas
//! through the scale subresource.

use std::{collections::BTreeMap, time::Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};
use tracing::info;

use super::{
    Applier,
    applier::{address, uid_of},
};
use crate::{
    failure::{ErrorType, Failure},
    metrics::WriteVerb,
    request::{ObjectId, RequestError},
    store::{Shown, StaticKind},
    sync::locked,
};

impl Applier {
    /// Changes single fields of the spec of an object that a user owns, by a JSON patch. `operations` should contain
    /// `test`s of what the change rests on; the uid is tested anyway. `parent_uid` is the object being reconciled.
    /// Returns whether something was written. Annotations and labels are changed by [`Applier::patch_metadata`].
    ///
    /// # Errors
    /// The API server rejects the request, or does not answer. [`Error::Changed`] if a test failed. [`Error::Render`]
    /// if an operation would change something else than the spec. An object that is gone is no error.
    pub async fn edit_spec<K>(&self, object: &K, parent_uid: &str, operations: Vec<Value>) -> Result<bool, RequestError>
    where
        K: StaticKind,
    {
        let id = ObjectId::of(object);
        let is_in_spec = |operation: &Value| operation["path"].as_str().is_some_and(|path| path.starts_with("/spec/"));
        let is_test = |operation: &Value| operation["op"] == "test";
        if let Some(other) = operations.iter().find(|operation| !is_test(operation) && !is_in_spec(operation)) {
            return Err(RequestError::render(&id, format!("{} is no field of the spec", other["path"])));
        }
        let answer = self.edit_exactly("change", object, WriteVerb::Update, operations).await;
        self.written(parent_uid, &id, answer)
    }

    /// Patches exactly this object, by its uid.
    async fn edit_exactly<K: StaticKind>(
        &self,
        action: &'static str,
        object: &K,
        verb: WriteVerb,
        operations: Vec<Value>,
    ) -> Result<Value, RequestError> {
        let (resource, id) = address(object);
        let mut all = vec![json!({ "op": "test", "path": "/metadata/uid", "value": uid_of(&id, object.meta())? })];
        all.extend(operations);
        self.edit(action, (&resource, &id), verb, Value::Array(all)).await
    }

    /// Adds one finalizer, if the object does not carry it. Returns whether something was written.
    ///
    /// # Errors
    /// The API server rejects the request, or does not answer. [`Error::Changed`] if the object is gone, replaced by
    /// another of its name, or being deleted by now.
    pub async fn add_finalizer<K: StaticKind>(&self, object: &K, finalizer: &str) -> Result<bool, RequestError> {
        if object.meta().finalizers.iter().flatten().any(|known| known == finalizer) {
            return Ok(false);
        }
        let (resource, id) = address(object);
        let uid = uid_of(&id, object.meta())?;
        // An apply of this one item, under a field manager of its own: the list is a set, and the items of others stay.
        let metadata = json!({ "name": id.name, "namespace": id.namespace, "uid": uid, "finalizers": [finalizer] });
        let body = json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata });
        let params = PatchParams::apply(&format!("{}/finalizer", self.field_manager)).force();
        let patch = Patch::Apply(&body);
        match self.patch("add a finalizer to", (&resource, &id), WriteVerb::Finalizer, &params, &patch).await {
            Ok(answer) => {
                info!(object = %id, finalizer, "added finalizer");
                self.wrote(uid, &id, &answer);
                Ok(true)
            }
            // Nothing new may be added to what is being deleted; to what is gone, nothing at all.
            Err(error) if matches!(error.error_type(), ErrorType::Validation | ErrorType::Conflict) => {
                Err(RequestError::Changed { object: id })
            }
            Err(error) => Err(error),
        }
    }

    /// Removes one finalizer, if the object carries it. Returns whether something was written.
    ///
    /// # Errors
    /// The API server rejects the request, or does not answer. [`Error::Changed`] if the list of finalizers is another
    /// by now.
    pub async fn remove_finalizer<K: StaticKind>(&self, object: &K, finalizer: &str) -> Result<bool, RequestError> {
        let Some(index) = object.meta().finalizers.iter().flatten().position(|known| known == finalizer) else {
            return Ok(false);
        };
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        let path = format!("/metadata/finalizers/{index}");
        let operations =
            vec![json!({ "op": "test", "path": path, "value": finalizer }), json!({ "op": "remove", "path": path })];
        match self.edit_exactly("remove a finalizer from", object, WriteVerb::Finalizer, operations).await {
            Ok(answer) => {
                info!(object = %id, finalizer, "removed finalizer");
                // Without finalizers an object that is being deleted is gone; the answer has no newer version than
                // before.
                let metadata = &answer["metadata"];
                let left = metadata["finalizers"].as_array().is_some_and(|left| !left.is_empty());
                if !left && metadata.get("deletionTimestamp").is_some() {
                    locked(&self.memory).wait_until(Shown::Absent, uid, &id, uid, Instant::now());
                } else {
                    self.wrote(uid, &id, &answer);
                }
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Remembers what was written. Of what is gone, nothing.
    pub(super) fn written(
        &self,
        parent_uid: &str,
        id: &ObjectId,
        answer: Result<Value, RequestError>,
    ) -> Result<bool, RequestError> {
        match answer {
            Ok(answer) => {
                self.wrote(parent_uid, id, &answer);
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks for `to` replicas of exactly this object (by uid), if it still has `from`. `parent_uid` is the object being
    /// reconciled.
    ///
    /// Nothing but the number of replicas is touched: its maker goes on owning the rest.
    ///
    /// # Errors
    /// [`Error::Changed`], which is transient, if it is another object of that name, or has other replicas by now.
    pub async fn scale<K: StaticKind>(
        &self,
        object: &K,
        parent_uid: &str,
        from: i32,
        to: i32,
    ) -> Result<(), RequestError> {
        let id = ObjectId::of(object);
        let mut operations = Vec::new();
        if from != 0 {
            // A scale leaves zero out.
            operations.push(json!({ "op": "test", "path": "/spec/replicas", "value": from }));
        }
        operations.push(json!({ "op": "add", "path": "/spec/replicas", "value": to }));
        let answer = self.edit_exactly("scale", object, WriteVerb::Scale, operations).await?;
        info!(object = %id, from, to, "scaled");
        self.written(parent_uid, &id, Ok(answer)).map(drop)
    }

    /// Changes single annotations and labels of an object that others write as well. `parent_uid` is the object being
    /// reconciled. Returns whether something was written.
    ///
    /// # Errors
    /// The API server rejects the request, or does not answer. [`Error::Changed`] if the object is another of its name,
    /// or of another resource version where the patch insists on it. An object that is gone is no error.
    pub async fn patch_metadata<K: StaticKind>(
        &self,
        object: &K,
        parent_uid: &str,
        patch: &MetadataPatch,
    ) -> Result<bool, RequestError> {
        if patch.holds_in(object.meta()) {
            return Ok(false);
        }
        let (resource, id) = address(object);
        let body = patch.body(uid_of(&id, object.meta())?, object.meta());
        let params = PatchParams { field_manager: Some(self.field_manager.to_string()), ..PatchParams::default() };
        let body = Patch::Merge(&body);
        let answer = match self.patch("change", (&resource, &id), WriteVerb::Update, &params, &body).await {
            Err(error) if error.error_type() == ErrorType::Conflict => {
                Err(RequestError::Changed { object: id.clone() })
            }
            answer => answer,
        };
        self.written(parent_uid, &id, answer)
    }
}

/// Changes of single annotations and labels of one object. Keys that it does not name stay.
///
/// It is sent as a merge patch, which creates a map that is missing and cannot replace one. A JSON patch would have to
/// know from a cache whether there is a map, and caches leave keys out: that of client-side apply above all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataPatch {
    annotations: BTreeMap<String, Option<String>>,
    labels: BTreeMap<String, Option<String>>,
    only_if_unchanged: bool,
}

impl MetadataPatch {
    /// Sets one annotation, or removes it.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: Option<&str>) -> Self {
        self.annotations.insert(key.to_owned(), value.map(str::to_owned));
        self
    }

    /// Sets one label, or removes it.
    #[must_use]
    pub fn label(mut self, key: &str, value: Option<&str>) -> Self {
        self.labels.insert(key.to_owned(), value.map(str::to_owned));
        self
    }

    /// The API server rejects the patch unless the object has the resource version that the patch was made for.
    #[must_use]
    pub fn only_if_unchanged(self) -> Self {
        Self { only_if_unchanged: true, ..self }
    }

    /// True if an object with this metadata has all of it.
    pub fn holds_in(&self, metadata: &ObjectMeta) -> bool {
        let holds = |desired: &BTreeMap<String, Option<String>>, live: &Option<BTreeMap<String, String>>| {
            desired.iter().all(|(key, value)| live.as_ref().and_then(|live| live.get(key)) == value.as_ref())
        };
        holds(&self.annotations, &metadata.annotations) && holds(&self.labels, &metadata.labels)
    }

    /// The merge patch for the object with this metadata.
    fn body(&self, uid: &str, metadata: &ObjectMeta) -> Value {
        let mut fields = Map::from_iter([("uid".to_owned(), json!(uid))]);
        for (name, keys) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            if !keys.is_empty() {
                fields.insert(name.to_owned(), json!(keys));
            }
        }
        if self.only_if_unchanged {
            fields.insert("resourceVersion".to_owned(), json!(metadata.resource_version));
        }
        json!({ "metadata": fields })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metadata(annotations: Value, labels: Value) -> ObjectMeta {
        serde_json::from_value(json!({ "resourceVersion": "7", "annotations": annotations, "labels": labels })).unwrap()
    }

    #[test]
    fn a_patch_names_its_keys_and_nothing_else() {
        let none = metadata(Value::Null, Value::Null);
        let set = MetadataPatch::default().annotation("a/b~c", Some("1")).annotation("gone", None);
        let expected = json!({ "metadata": { "uid": "u", "annotations": { "a/b~c": "1", "gone": null } } });
        assert_eq!(set.body("u", &none), expected);
        let label = MetadataPatch::default().label("zone", Some("a")).only_if_unchanged();
        let expected = json!({ "metadata": { "uid": "u", "resourceVersion": "7", "labels": { "zone": "a" } } });
        assert_eq!(label.body("u", &none), expected);
    }

    #[test]
    fn nothing_is_sent_for_what_holds_already() {
        let patch = MetadataPatch::default().annotation("a", Some("1")).annotation("gone", None).label("l", Some("x"));
        assert!(patch.holds_in(&metadata(json!({ "a": "1", "other": "2" }), json!({ "l": "x" }))));
        for (annotations, labels) in [
            (json!({ "a": "2" }), json!({ "l": "x" })),
            (json!({ "a": "1", "gone": "" }), json!({ "l": "x" })),
            (json!({ "a": "1" }), Value::Null),
        ] {
            assert!(!patch.holds_in(&metadata(annotations.clone(), labels.clone())), "{annotations} {labels}");
        }
        assert!(MetadataPatch::default().holds_in(&metadata(json!({}), json!({}))));
    }

    proptest! {
        #[test]
        fn keys_that_a_cache_does_not_hold_stay(
            live in prop::collection::btree_map("[a-e]", "[xyz]", 0..5),
            changes in prop::collection::btree_map("[a-e]", prop::option::of("[xyz]"), 0..5),
        ) {
            let named = changes.iter();
            let patch = named.fold(MetadataPatch::default(), |p, (key, value)| p.annotation(key, value.as_deref()));
            let mut after = json!({ "metadata": { "annotations": live.clone() } });
            json_patch::merge(&mut after, &patch.body("u", &ObjectMeta::default()));
            let mut expected = live;
            for (key, value) in &changes {
                match value {
                    Some(value) => expected.insert(key.clone(), value.clone()),
                    None => expected.remove(key),
                };
            }
            prop_assert_eq!(&after["metadata"]["annotations"], &json!(expected));
        }
    }
}
