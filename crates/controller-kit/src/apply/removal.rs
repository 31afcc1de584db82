//! Deletions: of exactly the object that was looked at.

use std::time::Instant;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    api::{DeleteParams, Preconditions, PropagationPolicy},
    core::ApiResource,
};
use tracing::info;

use super::{Applier, applier::uid_of};
use crate::{
    failure::{ErrorType, Failure},
    metrics::WriteVerb,
    request::{Error, ObjectId, timed},
};

/// What [`Applier::delete`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The API server accepted the deletion.
    Accepted,
    /// That object no longer exists; one of the same name with another uid was not touched.
    Gone,
}

/// What is removed, without its type, so that the code is compiled once for all kinds.
struct Doomed<'a> {
    resource: ApiResource,
    id: ObjectId,
    metadata: &'a ObjectMeta,
}

impl<'a> Doomed<'a> {
    fn of<K>(object: &'a K) -> Self
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        Self { resource, id: ObjectId::of(object), metadata: object.meta() }
    }
}

impl Applier {
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
        self.remove_any_version(Doomed::of(object), parent_uid, None).await
    }

    /// As [`Applier::delete`], without letting a pod end what it does.
    ///
    /// # Errors
    /// As [`Applier::delete`].
    pub async fn delete_at_once<K>(&self, object: &K, parent_uid: &str) -> Result<Removed, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        self.remove_any_version(Doomed::of(object), parent_uid, Some(0)).await
    }

    /// As [`Applier::delete`], but only if the object is still the one that was looked at, down to its resourceVersion.
    ///
    /// # Errors
    /// [`Error::Changed`], which is transient, if it is not, or is another object of that name; otherwise as
    /// [`Applier::delete`].
    pub async fn delete_unchanged<K>(&self, object: &K, parent_uid: &str) -> Result<Removed, Error>
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let doomed = Doomed::of(object);
        let Some(version) = doomed.metadata.resource_version.clone() else {
            let reason = "metadata.resourceVersion is missing".to_owned();
            return Err(Error::Render { object: doomed.id, reason });
        };
        self.remove(doomed, parent_uid, Some(version), None).await
    }

    async fn remove_any_version(
        &self,
        doomed: Doomed<'_>,
        parent_uid: &str,
        grace: Option<u32>,
    ) -> Result<Removed, Error> {
        match self.remove(doomed, parent_uid, None, grace).await {
            // With the uid as the only precondition: another object has that name by now.
            Err(Error::Changed { .. }) => Ok(Removed::Gone),
            answer => answer,
        }
    }

    /// Deletes an object, of this version only if one is given, after so many seconds if they are given.
    async fn remove(
        &self,
        Doomed { resource, id, metadata }: Doomed<'_>,
        parent_uid: &str,
        version: Option<String>,
        grace: Option<u32>,
    ) -> Result<Removed, Error> {
        let uid = uid_of(&id, metadata)?;
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: version };
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            grace_period_seconds: grace,
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let api = self.api(&resource, &id);
        match timed("delete", &id, api.delete(&id.name, &params)).await {
            Ok(_) => {
                info!(object = %id, "deleted");
                self.metrics.write(WriteVerb::Delete, &id.kind, true);
                self.memory().removed(parent_uid, &id, uid, Instant::now());
                Ok(Removed::Accepted)
            }
            Err(error) if error.is_not_found() => Ok(Removed::Gone),
            Err(error) if error.error_type() == ErrorType::Conflict => Err(Error::Changed { object: id }),
            Err(error) => {
                self.metrics.write(WriteVerb::Delete, &id.kind, false);
                Err(error)
            }
        }
    }
}
