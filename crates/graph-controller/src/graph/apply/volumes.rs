//! Makes the storage that a graph of v1alpha1 names beside its components.

use controller_kit::apply::ObjectId;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;

use super::{WaitResult, writer::Writer};
use crate::graph::model::GraphVolume;

/// Makes a claim that is missing, if that is desired. What is there stays as it is: it holds data.
pub(super) async fn volume(writer: Writer<'_>, claim: &GraphVolume) -> WaitResult {
    let id = ObjectId::named::<PersistentVolumeClaim>(&writer.graph.namespace().unwrap_or_default(), &claim.name);
    let live = writer.applier.find::<PersistentVolumeClaim>(&id.namespace, &id.name).await?;
    Ok(match (&live, &claim.make) {
        (Some(live), _) if live.pointer("/metadata/deletionTimestamp").is_some() => {
            Some(format!("{id}: it is being deleted, and no new pod can mount it"))
        }
        (Some(_), _) => None,
        (None, Some(object)) => writer.create(object).await?.reason(),
        (None, None) => Some(format!("{id}: it does not exist; create it, or set create for it in spec.pvcs")),
    })
}
