//! Owner references: the mark of what was made for an object, and goes with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

/// The reference that makes an object of kind `K` the controller of another one. A deletion of the owner in the
/// foreground waits for objects that carry it.
#[must_use]
pub fn controller<K: Resource<DynamicType = ()>>(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
