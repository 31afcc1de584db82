//! Carries out the plans of [`plan_write`].

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use json_patch::Patch as JsonPatch;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client, Resource,
    api::{Api, DynamicObject, Patch, PatchParams, PostParams, ValidationDirective},
    core::ApiResource,
};
use serde_json::Value;
use tracing::{debug, info};

use super::{
    Desired, Write,
    memory::WriteMemory,
    plan::{APPLIED_ANNOTATION, counts_as_null, fingerprint_of, first_step, plan_write, text},
    undeclared::Undeclared,
};
use crate::{
    failure::{ErrorType, Failure},
    metrics::{Metrics, WriteVerb},
    request::{ObjectId, RequestError, is_object_name, parse, timed, to_value},
    store::{CacheView, StaticKind},
    sync::locked,
};

/// Delay of a status that differs in counts and wording only, by default.
const COUNT_DELAY: Duration = Duration::from_millis(500);

/// A resource version that no object has. A server-side apply that names it creates the object or is rejected as a
/// conflict: an existing object does not silently become ours, not even where it has no field to disagree about.
pub const OF_NO_OBJECT: &str = "1";

/// Result of [`Applier::apply`].
#[derive(Debug, Clone, PartialEq)]
pub enum ApplyOutcome {
    /// The object is new. As the API server returned it.
    Created(Value),
    /// The object was brought back or forward to what is desired. As the API server returned it.
    Updated(Value),
    /// Nothing was sent.
    Unchanged,
    /// Nothing was sent: the object has to go first. A change of it will wake the controller.
    Waiting {
        /// Reason for the wait.
        reason: String,
    },
}

/// Writes to the API server on behalf of one controller. Cheap to clone.
#[derive(Clone)]
pub struct Applier {
    pub(crate) client: Client,
    pub(crate) field_manager: Arc<str>,
    pub(super) metrics: Metrics,
    caches: Arc<[Arc<dyn CacheView>]>,
    pub(super) memory: Arc<Mutex<WriteMemory>>,
    pub(super) undeclared: Arc<Mutex<Undeclared>>,
    /// Annotations by which a predecessor marked what it made.
    pub(super) marks: Arc<[String]>,
    /// Delay of a status that differs in counts and wording only.
    pub(super) count_delay: Duration,
    /// Maximum delay of a first status.
    pub(super) initial_status_delay: Duration,
}

impl Applier {
    /// `field_manager` names us in `managedFields` and must never change between releases. `caches` are the stores that
    /// plans are based on: [`Applier::stale`] waits for writes of these kinds to come back through them.
    pub fn new(client: Client, field_manager: &str, metrics: Metrics, caches: Vec<Arc<dyn CacheView>>) -> Self {
        let (memory, undeclared) = (Arc::default(), Arc::default());
        let (field_manager, caches, marks) = (field_manager.into(), caches.into(), Arc::default());
        let (count_delay, initial_status_delay) = (COUNT_DELAY, Duration::ZERO);
        Self { client, field_manager, metrics, caches, memory, undeclared, marks, count_delay, initial_status_delay }
    }

    /// Sets for how long a status that differs in counts and wording only waits for more to change.
    #[must_use]
    pub fn with_count_delay(mut self, delay: Duration) -> Self {
        self.count_delay = delay;
        self
    }

    /// Holds back the first status of an object for this long while it would say only that work has begun.
    #[must_use]
    pub fn with_initial_status_delay(mut self, delay: Duration) -> Self {
        self.initial_status_delay = delay;
        self
    }

    /// Names the annotations by which another operator, which came before us, marked the objects it wrote by plain
    /// updates. What it set on an object becomes ours with our first real change of it, so that a field leaves the
    /// object when it is no longer desired. Annotations, owner references and finalizers that are not desired stay.
    /// Without a call, there is no predecessor.
    #[must_use]
    pub fn with_predecessors(mut self, marks: &[&str]) -> Self {
        self.marks = marks.iter().map(|mark| (*mark).to_owned()).collect();
        self
    }

    /// `Some` if a cache has not shown everything yet that was written for this parent, with the longest time to wait.
    ///
    /// Call it before reading the caches. If stale, return and plan later: the missing event triggers a reconcile, and
    /// the duration guards against one that got lost.
    #[must_use]
    pub fn stale(&self, parent_uid: &str) -> Option<Duration> {
        let caches: Vec<&dyn CacheView> = self.caches.iter().map(AsRef::as_ref).collect();
        locked(&self.memory).stale(parent_uid, &caches, Instant::now())
    }

    /// Drops what is remembered about a parent that no longer exists.
    pub fn forget(&self, parent_uid: &str) {
        locked(&self.memory).forget(parent_uid);
    }

    /// Makes the live object the desired one. `live` is what the cache holds; a stale or missing one costs a request,
    /// not correctness.
    ///
    /// # Errors
    /// [`Error::Foreign`] if an object of another owner has the name; otherwise what the API server answered.
    pub async fn apply(&self, desired: &Desired, live: Option<&Value>) -> Result<ApplyOutcome, RequestError> {
        match live {
            Some(live) => self.converge(desired, live).await,
            // It was there when the write was planned.
            None if desired.basis.as_ref().is_some_and(|basis| !basis.version.is_empty()) => {
                Err(RequestError::Changed { object: desired.id.clone() })
            }
            None => self.create(desired).await,
        }
    }

    async fn create(&self, desired: &Desired) -> Result<ApplyOutcome, RequestError> {
        let mut body = desired.object.clone();
        body["metadata"]["resourceVersion"] = Value::String(OF_NO_OBJECT.to_owned());
        match self.send(desired, &body, WriteVerb::Create).await {
            Err(error) if matches!(error.error_type(), ErrorType::Conflict | ErrorType::AlreadyExists) => {
                let live = self.read(&desired.resource, &desired.id).await?.ok_or(error)?;
                self.found(desired, &live).await
            }
            answer => answer.map(ApplyOutcome::Created).inspect(|_| info!(object = %desired.id, "created")),
        }
    }

    /// Checks by a dry run whether we may create this object, and creates nothing. One of its name may be there.
    ///
    /// # Errors
    /// The reason why the object cannot be created.
    pub async fn check_creation(&self, desired: &Desired) -> Result<(), RequestError> {
        let object = parse(&desired.id, desired.object.clone())?;
        let params = PostParams { dry_run: true, field_manager: Some(self.field_manager.to_string()) };
        let api = self.api(&desired.resource, &desired.id);
        match timed("create", &desired.id, api.create(&params, &object)).await {
            // Rights and roles are checked before names.
            Err(error) if error.error_type() == ErrorType::AlreadyExists => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// The object exists, though the cache of the caller lacks it.
    async fn found(&self, desired: &Desired, live: &Value) -> Result<ApplyOutcome, RequestError> {
        if desired.unchanged {
            return Err(RequestError::Changed { object: desired.id.clone() });
        }
        let Some(basis) = &desired.basis else { return self.converge(desired, live).await };
        let outcome = self.converge(&desired.keeping(basis.field, live), live).await?;
        if live.pointer(basis.field) == desired.object.pointer(basis.field) {
            return Ok(outcome);
        }
        Err(RequestError::Changed { object: desired.id.clone() })
    }

    async fn converge(&self, desired: &Desired, live: &Value) -> Result<ApplyOutcome, RequestError> {
        let id = &desired.id;
        match plan_write(&desired.object, live, &desired.parent_uid, desired.may_adopt(live)) {
            Write::Skip => Ok(self.skipped(id)),
            Write::Wait { reason } => {
                debug!(object = %id, reason, "waiting");
                Ok(ApplyOutcome::Waiting { reason })
            }
            Write::Conflict { reason } => Err(RequestError::Foreign { object: id.clone(), reason }),
            Write::Update { resource_version, .. }
                if desired.basis.as_ref().is_some_and(|basis| basis.version != resource_version) =>
            {
                Err(RequestError::Changed { object: id.clone() })
            }
            Write::Update { uid, resource_version, differences } => {
                let print = fingerprint_of(&desired.object).unwrap_or_default();
                let same_desired = fingerprint_of(live) == Some(print);
                if same_desired && locked(&self.memory).is_residual(&desired.parent_uid, id, print, &differences) {
                    return Ok(self.skipped(id));
                }
                let fields = differences.iter().map(|d| d.path.as_str()).collect::<Vec<_>>().join(" ");
                if same_desired && !locked(&self.memory).may_correct(&desired.parent_uid, id, Instant::now()) {
                    return Err(RequestError::Contested { object: id.clone(), fields });
                }
                info!(object = %id, fields, drift = same_desired, "updating");
                let taken = if is_change_of_content(live, same_desired, &differences) {
                    self.take_over(desired, live).await?
                } else {
                    None
                };
                let version = taken.unwrap_or(resource_version);
                let mut body = desired.object.clone();
                body["metadata"]["uid"] = Value::String(uid);
                if desired.unchanged || desired.basis.is_some() {
                    body["metadata"]["resourceVersion"] = Value::String(version);
                }
                Ok(ApplyOutcome::Updated(self.update(desired, body, live).await?))
            }
        }
    }

    /// Updates an object; in two steps where the API server rejects what one step would leave empty.
    async fn update(&self, desired: &Desired, mut body: Value, live: &Value) -> Result<Value, RequestError> {
        let rejection = match self.send(desired, &body, WriteVerb::Update).await {
            Err(error) if counts_as_null(error.answer()) => error,
            answer => return answer,
        };
        let Some(first) = first_step(&body, live) else { return Err(rejection) };
        let answer = match self.send(desired, &first, WriteVerb::Update).await {
            // Something else is wrong, and the rejection of the whole says what.
            Err(error) if error.error_type() == ErrorType::Validation => return Err(rejection),
            answer => answer?,
        };
        if body["metadata"].get("resourceVersion").is_some() {
            body["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"].clone();
        }
        self.send(desired, &body, WriteVerb::Update).await
    }

    fn skipped(&self, id: &ObjectId) -> ApplyOutcome {
        self.metrics.write_skipped(&id.kind);
        ApplyOutcome::Unchanged
    }

    /// One server-side apply, and everything worth remembering about the answer.
    async fn send(&self, desired: &Desired, body: &Value, verb: WriteVerb) -> Result<Value, RequestError> {
        let (id, parent) = (&desired.id, &desired.parent_uid);
        let mut params = PatchParams::apply(&self.field_manager);
        params.force = verb == WriteVerb::Update;
        let action = if verb == WriteVerb::Create { "create" } else { "update" };
        let answer = self.patch(action, (&desired.resource, id), verb, &params, &Patch::Apply(body)).await?;
        let print = fingerprint_of(&desired.object).unwrap_or_default();
        let left = super::semantic_diff(&answer, &desired.object);
        locked(&self.memory).record_residual(parent, id, print, &left);
        self.wrote(parent, id, &answer);
        Ok(answer)
    }

    /// Reads one object past the caches; none where its kind is not served.
    ///
    /// # Errors
    /// The API server rejects the request, unless the object does not exist.
    pub async fn read(&self, resource: &ApiResource, id: &ObjectId) -> Result<Option<Value>, RequestError> {
        let api = self.api(resource, id);
        match timed("read", id, api.get(&id.name)).await {
            Ok(object) => to_value(id, &object).map(Some),
            Err(error) if error.error_type() == ErrorType::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the object of a kind that has this name, past the caches; none if there can be none of this name.
    /// `namespace` is empty for kinds of the whole cluster.
    ///
    /// # Errors
    /// As [`Applier::read`].
    pub async fn find<K>(&self, namespace: &str, name: &str) -> Result<Option<Value>, RequestError>
    where
        K: Resource<DynamicType = ()>,
    {
        if !is_object_name(name) {
            return Ok(None);
        }
        let resource = ApiResource::erase::<K>(&());
        self.read(&resource, &ObjectId::new(&resource, namespace, name)).await
    }

    /// A JSON patch whose `test` operations say what the object must still be.
    pub(super) async fn edit(
        &self,
        action: &'static str,
        (resource, id): (&ApiResource, &ObjectId),
        verb: WriteVerb,
        operations: Value,
    ) -> Result<Value, RequestError> {
        let params = PatchParams { field_manager: Some(self.field_manager.to_string()), ..PatchParams::default() };
        let patch = Patch::Json(JsonPatch(parse(id, operations)?));
        match self.patch(action, (resource, id), verb, &params, &patch).await {
            Err(RequestError::Api { source, .. }) if is_failed_test(&source) => {
                Err(RequestError::Changed { object: id.clone() })
            }
            answer => answer,
        }
    }

    /// Sends one patch, and counts it. `verb` says of which part of the object it is.
    pub(super) async fn patch(
        &self,
        action: &'static str,
        (resource, id): (&ApiResource, &ObjectId),
        verb: WriteVerb,
        params: &PatchParams,
        patch: &Patch<&Value>,
    ) -> Result<Value, RequestError> {
        let api = self.api(resource, id);
        // By default, the API server parses the body once more, for warnings about fields that it drops. A field that no
        // schema has is an error of an apply either way.
        let params = &PatchParams { field_validation: Some(ValidationDirective::Ignore), ..params.clone() };
        let answer = match verb {
            WriteVerb::Scale => timed(action, id, api.patch_subresource("scale", &id.name, params, patch)).await,
            WriteVerb::Status => timed(action, id, api.patch_status(&id.name, params, patch)).await,
            _ => timed(action, id, api.patch(&id.name, params, patch)).await,
        };
        self.metrics.write(verb, &id.kind, answer.is_ok());
        to_value(id, &answer?)
    }

    /// Remembers a write of which the API server returned this.
    pub(super) fn wrote(&self, parent_uid: &str, id: &ObjectId, answer: &Value) {
        if let Ok(version) = text(answer, "/metadata/resourceVersion").parse() {
            locked(&self.memory).wrote(parent_uid, id, version, Instant::now());
        }
    }

    pub(super) fn api(&self, resource: &ApiResource, id: &ObjectId) -> Api<DynamicObject> {
        if id.namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), &id.namespace, resource)
        }
    }
}

/// Whether an update is more than bookkeeping: the spec differs, or a field is gone from what was desired before. Only
/// then may what a predecessor set be removed. The first contact with its object says nothing about removed fields, and
/// an object that is as it should be keeps every field that it has, so that a takeover never rolls a pod.
fn is_change_of_content(live: &Value, same_desired: bool, differences: &[super::Difference]) -> bool {
    let mut content = differences.iter().filter(|d| !d.path.ends_with(APPLIED_ANNOTATION)).peekable();
    let only_removed = content.peek().is_none() && !same_desired && fingerprint_of(live).is_some();
    only_removed || content.any(|d| !d.path.starts_with("metadata."))
}

/// The API server's answer to a failed `test` of a JSON patch: refused, with no field named.
fn is_failed_test(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 422 && status.details.iter().all(|details| details.causes.is_empty())
}

pub(super) fn uid_of<'a>(id: &ObjectId, meta: &'a ObjectMeta) -> Result<&'a str, RequestError> {
    meta.uid.as_deref().ok_or_else(|| RequestError::render(id, "metadata.uid is missing"))
}

/// The kind and the identity of an object.
pub(super) fn address<K: StaticKind>(object: &K) -> (ApiResource, ObjectId) {
    (ApiResource::erase::<K>(&K::DynamicType::default()), ObjectId::of(object))
}
