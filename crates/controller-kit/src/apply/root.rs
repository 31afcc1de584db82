//! Writes to the reconciled object itself, its status left out: finalizers, annotations, single fields.

use std::time::Instant;

use kube::{
    Resource,
    api::{Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use tracing::info;

use super::{
    Applier, Error, ObjectId,
    applier::{timed, to_value, uid_of, version_of},
};
use crate::{
    failure::{ErrorType, Failure},
    metrics::WriteVerb,
};

impl Applier {
    /// Changes single fields of an object that is somebody else's otherwise, by a JSON patch. `operations` should hold `test`s
    /// of what the change rests on; the uid is tested anyway. `parent_uid` is the object being reconciled. Returns whether
    /// something was written.
    ///
    /// # Errors
    /// What the API server answered. [`Error::Changed`] if a test failed. An object that is gone is no error.
    pub async fn edit_fields<K>(&self, object: &K, parent_uid: &str, operations: Vec<Value>) -> Result<bool, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        let mut all = vec![json!({ "op": "test", "path": "/metadata/uid", "value": uid })];
        all.extend(operations);
        let answer = self.edit("change", (&resource, &id), WriteVerb::Update, Value::Array(all)).await;
        self.written(parent_uid, &id, answer)
    }

    /// Adds one finalizer, if the object does not carry it. Returns whether something was written.
    ///
    /// # Errors
    /// What the API server answered. [`Error::Changed`] if the object is gone, replaced by another of its name, or being
    /// deleted by now.
    pub async fn add_finalizer<K>(&self, object: &K, finalizer: &str) -> Result<bool, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        if object.meta().finalizers.iter().flatten().any(|known| known == finalizer) {
            return Ok(false);
        }
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        // An apply of this one item: the list is a set, and the items of others stay.
        let field = json!({ "finalizers": [finalizer] });
        let answer = self.apply_metadata("add a finalizer to", (&resource, &id, uid), "finalizer", field).await;
        self.metrics.write(WriteVerb::Finalizer, &id.kind, answer.is_ok());
        match answer {
            Ok(answer) => {
                info!(object = %id, finalizer, "added finalizer");
                if let Some(version) = version_of(&answer) {
                    self.memory().wrote(uid, &id, version, Instant::now());
                }
                Ok(true)
            }
            // Nothing new may be added to what is being deleted; to what is gone, nothing at all.
            Err(error) if matches!(error.error_type(), ErrorType::Validation | ErrorType::Conflict) => {
                Err(Error::Changed { object: id })
            }
            Err(error) => Err(error),
        }
    }

    /// Removes one finalizer, if the object carries it. Returns whether something was written.
    ///
    /// # Errors
    /// What the API server answered. [`Error::Changed`] if the list of finalizers is another by now.
    pub async fn remove_finalizer<K>(&self, object: &K, finalizer: &str) -> Result<bool, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let finalizers = object.meta().finalizers.iter().flatten();
        let Some(index) = finalizers.enumerate().find_map(|(index, f)| (f == finalizer).then_some(index)) else {
            return Ok(false);
        };
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        let path = format!("/metadata/finalizers/{index}");
        let operations = json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "test", "path": path, "value": finalizer },
            { "op": "remove", "path": path },
        ]);
        match self.edit("remove a finalizer from", (&resource, &id), WriteVerb::Finalizer, operations).await {
            Ok(answer) => {
                info!(object = %id, finalizer, "removed finalizer");
                // Without finalizers an object that is being deleted is gone; the answer has no newer version than before.
                let left =
                    answer.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
                let gone = !left && answer.pointer("/metadata/deletionTimestamp").is_some();
                match version_of(&answer) {
                    _ if gone => self.memory().released(uid, &id, uid, Instant::now()),
                    Some(version) => self.memory().wrote(uid, &id, version, Instant::now()),
                    None => {}
                }
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sets one annotation of the reconciled object, or takes it away: for what has to be remembered with it and has no place
    /// in its status. Annotations of others stay. Returns whether something was written.
    ///
    /// # Errors
    /// What the API server answered. [`Error::Changed`] if the object is another of its name, or the annotation is another by
    /// now.
    pub async fn annotate<K>(&self, object: &K, key: &str, value: Option<&str>) -> Result<bool, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let live = object.meta().annotations.as_ref().and_then(|annotations| annotations.get(key));
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        let answer = match (live, value) {
            (None, None) => return Ok(false),
            (Some(live), Some(value)) if live == value => return Ok(false),
            (_, Some(value)) => {
                let field = json!({ "annotations": { key: value } });
                let answer = self.apply_metadata("annotate", (&resource, &id, uid), key, field).await;
                self.metrics.write(WriteVerb::Update, &id.kind, answer.is_ok());
                answer
            }
            (Some(live), None) => {
                let path = format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"));
                let operations = json!([
                    { "op": "test", "path": "/metadata/uid", "value": uid },
                    { "op": "test", "path": path, "value": live },
                    { "op": "remove", "path": path },
                ]);
                self.edit("take an annotation off", (&resource, &id), WriteVerb::Update, operations).await
            }
        };
        self.written(uid, &id, answer)
    }

    /// Server-side apply of one field of the metadata, under a field manager of its own: what other managers of ours apply stays.
    async fn apply_metadata(
        &self,
        action: &'static str,
        (resource, id, uid): (&ApiResource, &ObjectId, &str),
        manager: &str,
        field: Value,
    ) -> Result<Value, Error> {
        let mut metadata = json!({ "name": id.name, "namespace": id.namespace, "uid": uid });
        if let (Some(metadata), Value::Object(field)) = (metadata.as_object_mut(), field) {
            metadata.extend(field);
        }
        let body = json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata });
        let params = PatchParams::apply(&format!("{}/{manager}", self.field_manager)).force();
        let api = self.api(resource, id);
        to_value(id, &timed(action, id, api.patch(&id.name, &params, &Patch::Apply(&body))).await?)
    }

    /// Remembers what was written. Of what is gone, nothing.
    fn written(&self, parent_uid: &str, id: &ObjectId, answer: Result<Value, Error>) -> Result<bool, Error> {
        match answer {
            Ok(answer) => {
                if let Some(version) = version_of(&answer) {
                    self.memory().wrote(parent_uid, id, version, Instant::now());
                }
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
