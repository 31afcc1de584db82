//! Writes to the reconciled object itself: its status and its finalizers.

use std::time::{Duration, Instant};

use kube::{
    Resource,
    api::{Patch, PatchParams},
    core::ApiResource,
};
use serde::Serialize;
use serde_json::{Value, json};
use tracing::info;

use super::{
    Applier, Difference, Error, ObjectId,
    applier::{timed, to_value, uid_of, version_of},
    carry_transition_times, is_urgent, only_begins,
    plan::fingerprint,
    same_status,
};
use crate::{
    failure::{ErrorType, Failure},
    metrics::WriteVerb,
    store::Packed,
};

/// Least time between two statuses of one object that differ in counts and wording only, unless told otherwise.
pub(super) const PACE: Duration = Duration::from_millis(500);

/// What [`Applier::report_status`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// The status was written.
    Written,
    /// It says nothing new.
    Unchanged,
    /// It can wait this long; more may have changed by then.
    Later(Duration),
}

impl Applier {
    /// As [`Applier::patch_status`], but spares most of the intermediate counts that a workload passes through while its
    /// pods come up: what nobody waits for is written at most every 500 ms, or as [`Applier::with_pace`] says. A first word
    /// that says only that work has begun waits for as long as [`Applier::with_first_word_after`] says: what is ready by then
    /// needs one status and not two.
    ///
    /// # Errors
    /// As [`Applier::patch_status`].
    pub async fn report_status<K, S>(&self, object: &Packed<K>, status: &S) -> Result<Reported, Error>
    where
        K: Resource,
        K::DynamicType: Default,
        S: Serialize + Sync,
    {
        let id = ObjectId::of(object);
        let uid = uid_of(&id, &object.metadata)?;
        let (live, wanted) = (object.status(), to_value(&id, status)?);
        if only_begins(&live, &wanted)
            && let held = self.memory().held_back(uid, Instant::now())
            && let Some(rest) = self.first_word_after.checked_sub(held).filter(|rest| !rest.is_zero())
        {
            return Ok(Reported::Later(rest));
        }
        let early = self.memory().since_report(uid, Instant::now()).and_then(|since| self.pace.checked_sub(since));
        if let Some(rest) = early.filter(|_| !same_status(&live, &wanted) && !is_urgent(&live, &wanted)) {
            return Ok(Reported::Later(rest));
        }
        Ok(if self.patch_status(object, status).await? { Reported::Written } else { Reported::Unchanged })
    }

    /// Writes the whole status of the reconciled object, if it says anything new. Transition times stay where the status
    /// of a condition stays. Returns whether something was written.
    ///
    /// # Errors
    /// What the API server answered. An object that is gone, or replaced by another of its name, is no error: there is
    /// nothing left to tell.
    pub async fn patch_status<K, S>(&self, object: &Packed<K>, status: &S) -> Result<bool, Error>
    where
        K: Resource,
        K::DynamicType: Default,
        S: Serialize + Sync,
    {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, &object.metadata)?;
        let live = object.status();
        let mut wanted = to_value(&id, status)?;
        carry_transition_times(&mut wanted, &live);
        let print = fingerprint(&wanted);
        let left = status_difference(&live, &wanted);
        if left.is_empty() || self.memory().is_settled(uid, &id, &print, &left) {
            self.metrics.write_skipped(&id.kind);
            return Ok(false);
        }
        let body = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": id.name, "namespace": id.namespace, "uid": uid },
            "status": wanted,
        });
        let params = PatchParams::apply(&format!("{}/status", self.field_manager)).force();
        let api = self.api(&resource, &id);
        let answer = timed("write the status of", &id, api.patch_status(&id.name, &params, &Patch::Apply(&body))).await;
        self.metrics.write(WriteVerb::Status, &id.kind, answer.is_ok());
        let answer = match answer {
            Ok(answer) => to_value(&id, &answer)?,
            Err(error) if error.is_not_found() || matches!(error, Error::Changed { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut memory = self.memory();
        memory.reported(uid, Instant::now());
        memory.settle(uid, &id, &print, &status_difference(&answer["status"], &wanted));
        if let Some(version) = version_of(&answer) {
            memory.wrote(uid, &id, version, Instant::now());
        }
        Ok(true)
    }

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
        match self.edit("change", (&resource, &id), WriteVerb::Update, Value::Array(all)).await {
            Ok(answer) => {
                if let Some(version) = version_of(&answer) {
                    self.memory().wrote(parent_uid, &id, version, Instant::now());
                }
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
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
        let body = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": id.name, "namespace": id.namespace, "uid": uid, "finalizers": [finalizer] },
        });
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
}

/// A status is compared as a whole: one difference or none.
fn status_difference(live: &Value, wanted: &Value) -> Vec<Difference> {
    if same_status(live, wanted) {
        return Vec::new();
    }
    vec![Difference { path: "status".to_owned(), live: Some(live.clone()) }]
}
