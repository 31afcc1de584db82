//! Reads and writes the marker Lease, and reads the Deployments of the install.

use std::{future::Future, time::Duration};

use controller_kit::scope::{HOLDER_PREFIX, MARKER_LEASE, Marker};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentCondition},
        coordination::v1::Lease,
    },
    jiff::Timestamp,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions},
};
use serde::Deserialize;
use tokio::time::timeout;

use crate::plan::Sibling;

/// Reason for the failure of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeaseScopeError {
    /// The response of the API server.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// No response in time.
    #[error("the API server did not answer in {} ms", .0.as_millis())]
    Timeout(Duration),
}

/// The marker of one namespace.
pub(crate) struct MarkerLease {
    pub(crate) leases: Api<Lease>,
    pub(crate) deployments: Api<InstallDeployment>,
    /// Label selector of the install's Deployments.
    pub(crate) siblings: String,
    pub(crate) owner: String,
    pub(crate) version: String,
    pub(crate) duration: Duration,
    /// Time limit of one request, shorter than the time between two renewals.
    pub(crate) patience: Duration,
}

impl MarkerLease {
    pub(crate) async fn get(&self) -> Result<Option<Lease>, LeaseScopeError> {
        self.within(self.leases.get_opt(MARKER_LEASE)).await
    }

    /// The Deployments of the install except that of this process, which becomes ready when it holds the marker.
    pub(crate) async fn siblings(&self) -> Result<Vec<Sibling>, LeaseScopeError> {
        let all = self.within(self.deployments.list(&ListParams::default().labels(&self.siblings))).await?;
        let sibling = |deployment: &InstallDeployment| Sibling {
            name: deployment.name_any(),
            available: available(deployment),
            goes: deployment.metadata.deletion_timestamp.is_some(),
        };
        Ok(all.items.iter().map(sibling).collect())
    }

    pub(crate) async fn create(&self) -> Result<Lease, LeaseScopeError> {
        let metadata = ObjectMeta { name: Some(MARKER_LEASE.to_owned()), ..ObjectMeta::default() };
        let lease = self.claimed(Lease { metadata, ..Lease::default() });
        self.within(self.leases.create(&PostParams::default(), &lease)).await
    }

    /// Renews or takes over the marker as it was read; fails if it was written since.
    pub(crate) async fn write(&self, lease: Lease) -> Result<Lease, LeaseScopeError> {
        let lease = self.claimed(lease);
        self.within(self.leases.replace(MARKER_LEASE, &PostParams::default(), &lease)).await
    }

    /// Signals the processes of the install to stop; fails if the marker was written by another process since.
    pub(crate) async fn release(&self, mut lease: Lease) -> Result<Lease, LeaseScopeError> {
        Marker::release(&mut lease, &self.owner, Timestamp::now());
        self.within(self.leases.replace(MARKER_LEASE, &PostParams::default(), &lease)).await
    }

    /// Deletes the marker if it is the one that this process wrote last.
    pub(crate) async fn delete(&self, lease: &Lease) -> Result<(), LeaseScopeError> {
        let preconditions = Preconditions { resource_version: lease.resource_version(), uid: lease.uid() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.within(self.leases.delete(MARKER_LEASE, &params)).await.map(|_| ())
    }

    fn claimed(&self, mut lease: Lease) -> Lease {
        let ours = Marker::of(&lease).and_then(|marker| marker.owner).as_ref() == Some(&self.owner);
        Marker::renew(&mut lease, &self.owner, Timestamp::now());
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(format!("{HOLDER_PREFIX}{}", self.version));
        spec.lease_duration_seconds = i32::try_from(self.duration.as_secs()).ok();
        if !ours || spec.acquire_time.is_none() {
            spec.acquire_time.clone_from(&spec.renew_time);
        }
        lease
    }

    async fn within<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseScopeError> {
        Ok(timeout(self.patience, request).await.map_err(|_| LeaseScopeError::Timeout(self.patience))??)
    }
}

/// A Deployment without its pod template, which takes most of the code that reads one.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Deployment)]
pub(crate) struct InstallDeployment {
    metadata: ObjectMeta,
    status: Option<Availability>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Availability {
    observed_generation: Option<i64>,
    conditions: Option<Vec<DeploymentCondition>>,
}

/// Whether a Deployment is available with its present spec.
fn available(deployment: &InstallDeployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let is_available = status.conditions.iter().flatten().any(|c| c.type_ == "Available" && c.status == "True");
    is_available && status.observed_generation >= deployment.metadata.generation
}
