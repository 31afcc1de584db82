//! Patches of single annotations and labels.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    api::{Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Map, Value, json};

use super::{
    Applier,
    applier::{to_value, uid_of},
};
use crate::{
    failure::{ErrorType, Failure},
    metrics::WriteVerb,
    request::{Error, ObjectId, timed},
};

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

    /// The API server refuses the patch unless the object has the resource version that the patch was made for.
    #[must_use]
    pub fn only_if_unchanged(self) -> Self {
        Self { only_if_unchanged: true, ..self }
    }

    /// True if no key is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty()
    }

    /// True if an object with this metadata has all of it.
    #[must_use]
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

impl Applier {
    /// Changes single annotations and labels of an object that others write as well. `parent_uid` is the object being
    /// reconciled. Returns whether something was written.
    ///
    /// # Errors
    /// What the API server answered. [`Error::Changed`] if the object is another of its name, or of another resource
    /// version where the patch insists on it. An object that is gone is no error.
    pub async fn patch_metadata<K>(&self, object: &K, parent_uid: &str, patch: &MetadataPatch) -> Result<bool, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        if patch.holds_in(object.meta()) {
            return Ok(false);
        }
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let body = patch.body(uid_of(&id, object.meta())?, object.meta());
        let params = PatchParams { field_manager: Some(self.field_manager.to_string()), ..PatchParams::default() };
        let api = self.api(&resource, &id);
        let answer = timed("change", &id, api.patch(&id.name, &params, &Patch::Merge(&body))).await;
        self.metrics.write(WriteVerb::Update, &id.kind, answer.is_ok());
        let answer = match answer {
            Ok(answer) => to_value(&id, &answer),
            Err(error) if error.error_type() == ErrorType::Conflict => Err(Error::Changed { object: id.clone() }),
            Err(error) => Err(error),
        };
        self.written(parent_uid, &id, answer)
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
        assert!(
            MetadataPatch::default().is_empty() && MetadataPatch::default().holds_in(&metadata(json!({}), json!({})))
        );
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
