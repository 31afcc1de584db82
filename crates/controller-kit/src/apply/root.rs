//! Writes to objects of others: finalizers, single fields of the spec, and replicas through the scale subresource.

use std::time::Instant;

use kube::{
    Resource,
    api::{Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use tracing::info;

use super::{
    Applier,
    applier::{to_value, uid_of, version_of},
};
use crate::{
    failure::{ErrorType, Failure},
    metrics::WriteVerb,
    request::{Error, ObjectId, timed},
};

impl Applier {
    /// Changes single fields of the spec of an object that a user owns, by a JSON patch. `operations`
    /// should hold `test`s of what the change rests on; the uid is tested anyway. `parent_uid` is the object being
    /// reconciled. Returns whether something was written. Annotations and labels are changed by
    /// [`Applier::patch_metadata`].
    ///
    /// # Errors
    /// What the API server answered. [`Error::Changed`] if a test failed. [`Error::Render`] if an operation would
    /// change something else than the spec. An object that is gone is no error.
    pub async fn edit_spec<K>(&self, object: &K, parent_uid: &str, operations: Vec<Value>) -> Result<bool, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        let is_in_spec = |operation: &Value| operation["path"].as_str().is_some_and(|path| path.starts_with("/spec/"));
        let is_test = |operation: &Value| operation["op"] == "test";
        if let Some(other) = operations.iter().find(|operation| !is_test(operation) && !is_in_spec(operation)) {
            return Err(Error::Render { object: id, reason: format!("{} is no field of the spec", other["path"]) });
        }
        let mut all = vec![json!({ "op": "test", "path": "/metadata/uid", "value": uid })];
        all.extend(operations);
        let answer = self.edit("change", (&resource, &id), WriteVerb::Update, Value::Array(all)).await;
        self.written(parent_uid, &id, answer)
    }

    /// Adds one finalizer, if the object does not carry it. Returns whether something was written.
    ///
    /// # Errors
    /// What the API server answered. [`Error::Changed`] if the object is gone, replaced by another of its name, or
    /// being deleted by now.
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
        // An apply of this one item, under a field manager of its own: the list is a set, and the items of others stay.
        let metadata = json!({ "name": id.name, "namespace": id.namespace, "uid": uid, "finalizers": [finalizer] });
        let body = json!({ "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata });
        let params = PatchParams::apply(&format!("{}/finalizer", self.field_manager)).force();
        let api = self.api(&resource, &id);
        let answer = timed("add a finalizer to", &id, api.patch(&id.name, &params, &Patch::Apply(&body))).await;
        self.metrics.write(WriteVerb::Finalizer, &id.kind, answer.is_ok());
        match answer {
            Ok(answer) => {
                info!(object = %id, finalizer, "added finalizer");
                if let Some(version) = version_of(&to_value(&id, &answer)?) {
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
                // Without finalizers an object that is being deleted is gone; the answer has no newer version than
                // before.
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

    /// Remembers what was written. Of what is gone, nothing.
    pub(super) fn written(&self, parent_uid: &str, id: &ObjectId, answer: Result<Value, Error>) -> Result<bool, Error> {
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

impl Applier {
    /// Asks for `to` replicas of exactly this object (by uid), if it still has `from`. `parent_uid` is the object being
    /// reconciled.
    ///
    /// Nothing but the number of replicas is touched: its maker goes on owning the rest.
    ///
    /// # Errors
    /// [`Error::Changed`], which is transient, if it is another object of that name, or has other replicas by now.
    pub async fn scale<K>(&self, object: &K, parent_uid: &str, from: i32, to: i32) -> Result<(), Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        let mut operations = vec![json!({ "op": "test", "path": "/metadata/uid", "value": uid })];
        if from != 0 {
            // A scale leaves zero out.
            operations.push(json!({ "op": "test", "path": "/spec/replicas", "value": from }));
        }
        operations.push(json!({ "op": "add", "path": "/spec/replicas", "value": to }));
        let answer = self.edit("scale", (&resource, &id), WriteVerb::Scale, Value::Array(operations)).await?;
        info!(object = %id, from, to, "scaled");
        if let Some(version) = version_of(&answer) {
            self.memory().wrote(parent_uid, &id, version, Instant::now());
        }
        Ok(())
    }
}
