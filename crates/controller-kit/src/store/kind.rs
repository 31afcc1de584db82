//! Bounds of kinds that have a Rust type.

use kube::{Resource, core::NamespaceResourceScope};

/// A kind whose group, version and name are known when the program is compiled.
pub trait StaticKind: Resource<DynamicType: Default> {}

impl<K: Resource<DynamicType: Default>> StaticKind for K {}

/// A [`StaticKind`] of objects in namespaces.
pub trait NamespacedKind:
    Resource<Scope = NamespaceResourceScope, DynamicType: Default> + Send + Sync + 'static
{
}

impl<K: StaticKind<Scope = NamespaceResourceScope> + Send + Sync + 'static> NamespacedKind for K {}
