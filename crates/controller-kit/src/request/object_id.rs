//! The identity of an object.

use std::fmt;

use kube::{Resource, core::ApiResource};

/// Which object. Reads as `Deployment team-a/frontend`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectId {
    /// An object of a kind that has no Rust type here. `namespace` is empty for kinds of the whole cluster.
    #[must_use]
    pub fn new(resource: &ApiResource, namespace: &str, name: &str) -> Self {
        Self {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The object of a kind that has this name, if there is one.
    #[must_use]
    pub fn named<K>(namespace: &str, name: &str) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        Self::new(&ApiResource::erase::<K>(&()), namespace, name)
    }

    /// The identity of any Kubernetes object.
    #[must_use]
    pub fn of<K>(object: &K) -> Self
    where
        K: Resource,
        K::DynamicType: Default,
    {
        let dynamic = K::DynamicType::default();
        Self {
            group: K::group(&dynamic).into_owned(),
            kind: K::kind(&dynamic).into_owned(),
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}
