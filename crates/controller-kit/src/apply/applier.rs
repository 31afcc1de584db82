//! Carries out what [`plan_write`] decides.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use json_patch::{Patch as JsonPatch, PatchOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client, Resource,
    api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy},
    core::ApiResource,
};
use serde::Serialize;
use serde_json::{Value, json};
use tracing::{debug, info};

use super::{
    Desired, ObjectId, Write, carry_transition_times,
    error::Error,
    is_urgent,
    memory::Memory,
    plan::{fingerprint, fingerprint_of, plan_write, text},
    same_status,
};
use crate::{
    failure::{ErrorType, Failure},
    metrics::{Metrics, WriteVerb},
    store::{CacheView, Packed},
};

/// No step against the API server may take longer, the client's own retries included.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// What [`Applier::apply`] did.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The object is new, or the cache did not show yet that we made it. As the API server returned it.
    Created(Value),
    /// The object was brought back or forward to what is desired. As the API server returned it.
    Updated(Value),
    /// Nothing was sent.
    Unchanged,
    /// Nothing was sent: the object has to go first. A change of it will wake the controller.
    Waiting {
        /// What is waited for.
        reason: String,
    },
}

/// Least time between two statuses of one object that differ in counts and wording only.
const PACE: Duration = Duration::from_millis(500);

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

/// What [`Applier::delete`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The API server accepted the deletion.
    Accepted,
    /// That object no longer exists; one of the same name with another uid was not touched.
    Gone,
}

/// Writes to the API server on behalf of one controller. Cheap to clone.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    field_manager: Arc<str>,
    metrics: Metrics,
    caches: Arc<[Arc<dyn CacheView>]>,
    memory: Arc<Mutex<Memory>>,
}

impl Applier {
    /// `field_manager` names us in `managedFields` and must never change between releases. `caches` are the stores that
    /// decisions are based on: [`Applier::stale`] waits for writes of these kinds to come back through them.
    #[must_use]
    pub fn new(client: Client, field_manager: &str, metrics: Metrics, caches: Vec<Arc<dyn CacheView>>) -> Self {
        let memory = Arc::default();
        Self { client, field_manager: field_manager.into(), metrics, caches: caches.into(), memory }
    }

    /// `Some` if a cache has not shown everything yet that was written for this parent, with the longest time to wait.
    ///
    /// Ask before reading the caches. If stale, return and decide later: the missing event triggers a reconcile, and the
    /// duration guards against one that got lost.
    #[must_use]
    pub fn stale(&self, parent_uid: &str) -> Option<Duration> {
        let caches: Vec<&dyn CacheView> = self.caches.iter().map(AsRef::as_ref).collect();
        self.memory().stale(parent_uid, &caches, Instant::now())
    }

    /// Drops what is remembered about a parent that no longer exists.
    pub fn forget(&self, parent_uid: &str) {
        self.memory().forget(parent_uid);
    }

    /// Makes the live object the desired one. `live` is what the cache holds; a stale or missing one costs a request, not
    /// correctness.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the name is taken by somebody else's object; otherwise what the API server answered.
    pub async fn apply(&self, desired: &Desired, live: Option<&Value>) -> Result<Outcome, Error> {
        match live {
            Some(live) => self.converge(desired, live).await,
            None => self.create(desired).await,
        }
    }

    async fn create(&self, desired: &Desired) -> Result<Outcome, Error> {
        let free = self.memory().claim(&desired.parent_uid, &desired.id, Instant::now());
        if desired.look_first() || !free {
            match self.get(&desired.resource, &desired.id).await? {
                Some(live) => return self.converge(desired, &live).await,
                None if !free => return Err(Error::Changed { object: desired.id.clone() }),
                None => {}
            }
        }
        match self.send(desired, &desired.object, WriteVerb::Create).await {
            Ok(object) => {
                info!(object = %desired.id, "created");
                Ok(Outcome::Created(object))
            }
            Err(error) if matches!(error.error_type(), ErrorType::Conflict | ErrorType::AlreadyExists) => {
                let live = self.get(&desired.resource, &desired.id).await?.ok_or(error)?;
                self.converge(desired, &live).await
            }
            Err(error) => Err(error),
        }
    }

    async fn converge(&self, desired: &Desired, live: &Value) -> Result<Outcome, Error> {
        let id = &desired.id;
        match plan_write(&desired.object, Some(live), &desired.parent_uid, desired.may_adopt(live)) {
            Write::Skip => Ok(self.skipped(id)),
            Write::Wait { reason } => {
                debug!(object = %id, reason, "waiting");
                Ok(Outcome::Waiting { reason })
            }
            Write::Conflict { reason } => Err(Error::Foreign { object: id.clone(), reason }),
            Write::Update { uid, differences, .. } => {
                let print = fingerprint_of(&desired.object).unwrap_or_default();
                let same_wish = fingerprint_of(live) == Some(print);
                if same_wish && self.memory().is_settled(&desired.parent_uid, id, print, &differences) {
                    return Ok(self.skipped(id));
                }
                let fields: Vec<&str> = differences.iter().map(|d| d.path.as_str()).collect();
                info!(object = %id, fields = fields.join(" "), drift = same_wish, "updating");
                let mut body = desired.object.clone();
                body["metadata"]["uid"] = Value::String(uid);
                Ok(Outcome::Updated(self.send(desired, &body, WriteVerb::Update).await?))
            }
            // Only planned when nothing is live.
            Write::Create => Ok(Outcome::Unchanged),
        }
    }

    fn skipped(&self, id: &ObjectId) -> Outcome {
        self.metrics.write_skipped(&id.kind);
        Outcome::Unchanged
    }

    /// One server-side apply, and everything worth remembering about the answer.
    async fn send(&self, desired: &Desired, body: &Value, verb: WriteVerb) -> Result<Value, Error> {
        let (id, parent) = (&desired.id, &desired.parent_uid);
        let mut params = PatchParams::apply(&self.field_manager);
        params.force = verb == WriteVerb::Update;
        let api = self.api(&desired.resource, id);
        let action = if verb == WriteVerb::Create { "create" } else { "update" };
        let answer = timed(action, id, api.patch(&id.name, &params, &Patch::Apply(body))).await;
        self.metrics.write(verb, &id.kind, answer.is_ok());
        let answer = to_value(id, &answer?)?;
        let print = fingerprint_of(&desired.object).unwrap_or_default();
        let left = super::differences(&answer, &desired.object);
        let mut memory = self.memory();
        memory.settle(parent, id, print, &left);
        if let Some(version) = version_of(&answer) {
            memory.wrote(parent, id, version, Instant::now());
        }
        Ok(answer)
    }

    /// Deletes exactly this object (by uid), its own children in the background. `parent_uid` is the object being
    /// reconciled.
    ///
    /// # Errors
    /// What the API server answered, unless the object is gone already.
    pub async fn delete<K>(&self, object: &K, parent_uid: &str) -> Result<Removed, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        let id = ObjectId::of(object);
        let uid = uid_of(&id, object.meta())?;
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let api = self.api(&resource, &id);
        let answer = timed("delete", &id, api.delete(&id.name, &params)).await;
        let gone = |error: &Error| matches!(error.error_type(), ErrorType::NotFound | ErrorType::Conflict);
        match answer {
            Ok(_) => {
                info!(object = %id, "deleted");
                self.metrics.write(WriteVerb::Delete, &id.kind, true);
                self.memory().removed(parent_uid, &id, uid, Instant::now());
                Ok(Removed::Accepted)
            }
            Err(error) if gone(&error) => Ok(Removed::Gone),
            Err(error) => {
                self.metrics.write(WriteVerb::Delete, &id.kind, false);
                Err(error)
            }
        }
    }

    /// As [`Applier::patch_status`], but spares most of the intermediate counts that a workload passes through while its
    /// pods come up: what nobody waits for is written at most every 500 ms.
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
        let early = self.memory().since_report(uid, Instant::now()).and_then(|since| PACE.checked_sub(since));
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
        let operations: Vec<PatchOperation> = serde_json::from_value(json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "test", "path": path, "value": finalizer },
            { "op": "remove", "path": path },
        ]))
        .map_err(|e| Error::Render { object: id.clone(), reason: e.to_string() })?;
        let params = PatchParams { field_manager: Some(self.field_manager.to_string()), ..PatchParams::default() };
        let api = self.api(&resource, &id);
        let patch = Patch::<()>::Json(JsonPatch(operations));
        let answer = timed("remove a finalizer from", &id, api.patch(&id.name, &params, &patch)).await;
        self.metrics.write(WriteVerb::Finalizer, &id.kind, answer.is_ok());
        match answer {
            Ok(answer) => {
                info!(object = %id, finalizer, "removed finalizer");
                if let Some(version) = version_of(&to_value(&id, &answer)?) {
                    self.memory().wrote(uid, &id, version, Instant::now());
                }
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            // The API server's answer to a failed `test`.
            Err(error) if error.error_type() == ErrorType::Validation => Err(Error::Changed { object: id }),
            Err(error) => Err(error),
        }
    }

    /// Reads one object past the caches.
    ///
    /// # Errors
    /// What the API server answered, unless the object does not exist.
    pub async fn get(&self, resource: &ApiResource, id: &ObjectId) -> Result<Option<Value>, Error> {
        let api = self.api(resource, id);
        match timed("read", id, api.get_opt(&id.name)).await? {
            Some(object) => to_value(id, &object).map(Some),
            None => Ok(None),
        }
    }

    fn api(&self, resource: &ApiResource, id: &ObjectId) -> Api<DynamicObject> {
        if id.namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), &id.namespace, resource)
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one step, but not for ever.
async fn timed<T>(
    action: &'static str,
    object: &ObjectId,
    step: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(STEP_TIMEOUT, step).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if is_successor(&error) => Err(Error::Changed { object: object.clone() }),
        Ok(Err(error)) => Err(Error::api(action, object, error)),
        Err(_) => Err(Error::Timeout { action, object: object.clone() }),
    }
}

/// The API server's answer to an apply whose uid is not that of the object of this name: to it, an attempt to change an
/// immutable field. Without any object of this name it says "conflict".
fn is_successor(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid() && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

/// A status is compared as a whole: one difference or none.
fn status_difference(live: &Value, wanted: &Value) -> Vec<super::Difference> {
    if same_status(live, wanted) {
        return Vec::new();
    }
    vec![super::Difference { path: "status".to_owned(), live: Some(live.clone()) }]
}

fn uid_of<'a>(id: &ObjectId, meta: &'a ObjectMeta) -> Result<&'a str, Error> {
    let missing = || Error::Render { object: id.clone(), reason: "metadata.uid is missing".to_owned() };
    meta.uid.as_deref().ok_or_else(missing)
}

fn to_value<T: Serialize>(id: &ObjectId, object: &T) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(|e| Error::Render { object: id.clone(), reason: e.to_string() })
}

fn version_of(object: &Value) -> Option<u64> {
    text(object, "/metadata/resourceVersion").parse().ok()
}
