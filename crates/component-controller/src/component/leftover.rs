//! Objects of a component that nothing needs any more.

use controller_kit::{
    apply::{Applier, Error, ObjectId, Removed},
    store::{Packed, Store},
};
use k8s_openapi::{
    Metadata, NamespaceResourceScope, Resource, api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, Serialize};
use workload::LeaderWorkerSet;

/// A live object of ours that shall go.
#[derive(Clone, Debug)]
pub enum Leftover {
    /// The component has become one whose replicas span nodes.
    Deployment(Box<Deployment>),
    /// It no longer is such a one; or the set is one of those that older operators made for each replica.
    LeaderWorkerSet(Box<LeaderWorkerSet>),
    /// It belonged to a set that an older operator made.
    PodGroup(Box<PodGroup>),
}

impl Leftover {
    /// Which object this is.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Deployment(object) => ObjectId::of(object.as_ref()),
            Self::LeaderWorkerSet(object) => ObjectId::of(object.as_ref()),
            Self::PodGroup(object) => ObjectId::of(object.as_ref()),
        }
    }

    /// Deletes it, if it is controlled by `uid` still.
    ///
    /// # Errors
    /// What the API server answered.
    pub async fn delete(&self, applier: &Applier, uid: &str) -> Result<Removed, Error> {
        match self {
            Self::Deployment(object) => applier.delete(object.as_ref(), uid).await,
            Self::LeaderWorkerSet(object) => applier.delete(object.as_ref(), uid).await,
            Self::PodGroup(object) => applier.delete(object.as_ref(), uid).await,
        }
    }
}

/// The objects of a kind that `uid` controls, but for one name and those that are going already.
pub fn others<K>(store: &Store<Packed<K>>, uid: &str, wanted: Option<&str>) -> Vec<std::sync::Arc<Packed<K>>>
where
    K: kube::Resource,
    K::DynamicType: Default,
{
    let mut all = store.children_of(uid);
    all.retain(|one| one.metadata.deletion_timestamp.is_none() && one.metadata.name.as_deref() != wanted);
    all
}

/// A pod group of Volcano: pods that start together or not at all. Nothing of it matters but that it is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodGroup {
    /// Metadata.
    pub metadata: ObjectMeta,
}

impl Resource for PodGroup {
    const API_VERSION: &'static str = "scheduling.volcano.sh/v1beta1";
    const GROUP: &'static str = "scheduling.volcano.sh";
    const KIND: &'static str = "PodGroup";
    const VERSION: &'static str = "v1beta1";
    const URL_PATH_SEGMENT: &'static str = "podgroups";
    type Scope = NamespaceResourceScope;
}

impl Metadata for PodGroup {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
