//! Writes of the reconciled object's status.

use std::time::{Duration, Instant};

use kube::{
    Resource,
    api::{Patch, PatchParams},
    core::ApiResource,
};
use serde::Serialize;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{
    Applier, Difference,
    applier::{to_value, uid_of, version_of},
    carry_transition_times, is_urgent, only_begins,
    plan::fingerprint,
    same_status,
};
use crate::{
    metrics::WriteVerb,
    request::{Error, ObjectId, timed},
    store::Packed,
};

/// What [`Applier::write_status`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWrite {
    /// The status was written.
    Written,
    /// It says nothing new.
    Unchanged,
    /// It can wait this long; more may have changed by then.
    Delayed(Duration),
}

impl Applier {
    /// As [`Applier::patch_status`], but spares most of the intermediate counts that a workload passes through while
    /// its pods come up: what no user waits for is written at most every 500 ms, or as [`Applier::with_pace`] says. A
    /// first status that says only that work has begun waits for as long as [`Applier::with_initial_status_delay`]
    /// says: what is ready by then needs one status and not two.
    ///
    /// # Errors
    /// As [`Applier::patch_status`].
    pub async fn write_status<K, S>(&self, object: &Packed<K>, status: &S) -> Result<StatusWrite, Error>
    where
        K: Resource,
        K::DynamicType: Default,
        S: Serialize + Sync,
    {
        let id = ObjectId::of(object);
        let uid = uid_of(&id, &object.metadata)?;
        let (live, desired) = (object.status(), self.storable(&id, status)?);
        if only_begins(&live, &desired)
            && let held = self.memory().held_back(uid, Instant::now())
            && let Some(rest) = self.initial_status_delay.checked_sub(held).filter(|rest| !rest.is_zero())
        {
            return Ok(StatusWrite::Delayed(rest));
        }
        let early = self.memory().since_report(uid, Instant::now()).and_then(|since| self.pace.checked_sub(since));
        if let Some(rest) = early.filter(|_| !same_status(&live, &desired) && !is_urgent(&live, &desired)) {
            return Ok(StatusWrite::Delayed(rest));
        }
        Ok(if self.patch_status(object, status).await? { StatusWrite::Written } else { StatusWrite::Unchanged })
    }

    /// Writes the whole status of the reconciled object, if it says anything new. Transition times stay where the
    /// status of a condition stays. Returns whether something was written.
    ///
    /// Fields that the served CustomResourceDefinition does not declare, because it is another operator's or an older
    /// one, are left out: they do not keep the rest from being written. [`Applier::cannot_store`] says which.
    ///
    /// # Errors
    /// What the API server answered. An object that is gone, or replaced by another of its name, is no error: there is
    /// nothing left to report.
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
        let mut desired = self.storable(&id, status)?;
        carry_transition_times(&mut desired, &live);
        let left = status_difference(&live, &desired);
        if left.is_empty() || self.memory().is_residual(uid, &id, &fingerprint(&desired), &left) {
            self.metrics.write_skipped(&id.kind);
            return Ok(false);
        }
        // A write is due anyway: the moment to see whether what is missing has come.
        if self.undeclared().try_again(&id, Instant::now()) {
            desired = to_value(&id, status)?;
            carry_transition_times(&mut desired, &live);
        }
        // Each turn takes at least one field away.
        let answer = loop {
            match self.send_status(&resource, &id, uid, &desired).await {
                Err(error) if self.goes_without(&id, &error, &mut desired) => {
                    if same_status(&live, &desired) {
                        return Ok(false);
                    }
                }
                answer => break answer,
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.is_not_found() || matches!(error, Error::Changed { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let declared = self.undeclared().accepted(&id, &desired);
        if !declared.is_empty() {
            info!(
                kind = id.kind,
                fields = declared.join(" "),
                "the CustomResourceDefinition has status fields it lacked"
            );
        }
        self.wrote_status(uid, &id, &answer);
        let answer = match self.remove_old_status(&resource, &id, uid, &desired, answer).await {
            // What changed the object makes the cache show it, and the next reconcile tries again.
            Err(Error::Changed { .. }) => return Ok(true),
            answer => answer?,
        };
        self.wrote_status(uid, &id, &answer);
        self.memory().record_residual(
            uid,
            &id,
            &fingerprint(&desired),
            &status_difference(&answer["status"], &desired),
        );
        Ok(true)
    }

    fn wrote_status(&self, uid: &str, id: &ObjectId, answer: &Value) {
        let (mut memory, now) = (self.memory(), Instant::now());
        memory.reported(uid, now);
        if let Some(version) = version_of(answer) {
            memory.wrote(uid, id, version, now);
        }
    }

    /// True if the API server has refused this field of the status of this kind as not declared, so that statuses go
    /// without it. What such a field is to remember needs another place.
    #[must_use]
    pub fn cannot_store<K>(&self, field: &str) -> bool
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        self.undeclared().lacks(&ObjectId::new(&resource, "", ""), field)
    }

    /// The status without the fields that are known to be refused.
    fn storable<S: Serialize>(&self, id: &ObjectId, status: &S) -> Result<Value, Error> {
        let mut desired = to_value(id, status)?;
        self.undeclared().strip(id, &mut desired);
        Ok(desired)
    }

    async fn send_status(
        &self,
        resource: &ApiResource,
        id: &ObjectId,
        uid: &str,
        desired: &Value,
    ) -> Result<Value, Error> {
        let body = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": id.name, "namespace": id.namespace, "uid": uid },
            "status": desired,
        });
        let params = PatchParams::apply(&self.status_manager()).force();
        let api = self.api(resource, id);
        let answer = timed("write the status of", id, api.patch_status(&id.name, &params, &Patch::Apply(&body))).await;
        self.metrics.write(WriteVerb::Status, &id.kind, answer.is_ok());
        to_value(id, &answer?)
    }

    /// Takes the fields off a status that the API server has just refused as not declared. False if it refused it for
    /// anything else.
    fn goes_without(&self, id: &ObjectId, error: &Error, desired: &mut Value) -> bool {
        let refused = self.undeclared().refused(id, error.answer(), desired, Instant::now());
        if !refused.news.is_empty() {
            let fields = refused.news.join(" ");
            warn!(
                kind = id.kind,
                fields, "the CustomResourceDefinition lacks status fields; apply those of this operator"
            );
        }
        refused.taken
    }
}

/// A status is compared as a whole: one difference or none.
fn status_difference(live: &Value, desired: &Value) -> Vec<Difference> {
    if same_status(live, desired) {
        return Vec::new();
    }
    vec![Difference { path: "status".to_owned(), live: Some(live.clone()) }]
}
