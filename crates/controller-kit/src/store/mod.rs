//! Caches of Kubernetes objects, fed by watches.
//!
//! [`watch`] caches whole objects as JSON ([`Packed`]), [`watch_metadata`] only their metadata. Both drop
//! `managedFields`, which is half of a typical object, bound what one object can take ([`keep`]), and hold it compressed.
//! A [`Store`] finds objects by name, by namespace and by controller owner, and its [`Watch`] yields every change after
//! the store has taken it in, deletions during a broken connection included.
//!
//! [`watch_if_served`] does the same for APIs that a cluster may or may not have, or get later.

pub(crate) mod anew;
mod bounded;
mod cache;
mod discovery_pauses;
mod held;
mod index;
pub mod keep;
mod kind;
pub(crate) mod list_watch;
mod packed;
mod pause;
mod served;
mod source;
pub(crate) mod watch;

use std::fmt;

use kube::Resource;

pub use self::{
    cache::{CacheChange, CacheView, Shown, Store},
    index::Index,
    kind::{NamespacedKind, StaticKind},
    packed::{Packed, UnpackError, controller_owner, is_controlled_by},
    served::{ServedApi, ServedApis, watch_if_served},
    source::{Scope, WatchSource},
    watch::{Watch, watch, watch_and_read, watch_api, watch_by, watch_metadata, watch_named, watch_named_briskly},
};
pub(crate) use self::{pause::Pauses, source::Share};

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// The key of an object that need not exist.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self { namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone().unwrap_or_default() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.namespace, self.name)
    }
}
