//! Limits of the content of an object that a cache keeps. A tenant chooses the size of the objects that it creates, and
//! can give them any label that a watch selects by: a cache that kept all of their content would end the process for
//! every tenant.

use api_types::{annotations, limits};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

use super::{StaticKind, bounded::MAX_DEPTH};

/// Bytes of the content of an object, without its metadata, as JSON: a spec at its limit, and as much again for its
/// status and for specs that were stored before the limit.
pub const OBJECT_BYTES: usize = 2 * limits::SPEC_BYTES;

/// Bytes of the content of an object without a pod template of a user, such as a Service or an account.
pub const SMALL_OBJECT_BYTES: usize = 64 * 1024;

/// Annotations of objects that this operator or the upstream one wrote.
const MARKS: [&str; 2] = [annotations::APPLIED, annotations::LAST_APPLIED_HASH];

/// Bytes of metadata beside an object's content. The API server takes 256 KiB of annotations, and the conversion of a
/// graph may need as many.
const METADATA_BYTES: usize = 320 * 1024;

/// Bytes of metadata where it is all that a cache keeps.
const LONE_METADATA_BYTES: usize = 64 * 1024;

/// Bytes of labels and annotations of ours that are left of metadata above its limit.
const REDUCED_BYTES: usize = 8 * 1024;

/// Bytes of the status of an object whose content is above its limit.
const STATUS_BYTES: usize = limits::SPEC_BYTES;

/// Levels of the path to the largest field.
const PATH_LEVELS: usize = 12;

/// Domains of the labels, annotations and finalizers that the controllers read, beside keys without a domain.
const DOMAINS: [&str; 4] = ["nvidia.com", "operator.dynamo", "app.kubernetes.io", "leaderworkerset.sigs.k8s.io"];

/// Part of the content of an object that a cache keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// None, and of its metadata what identifies it: the object is not ours.
    Identity,
    /// All of it up to this many bytes. Above, only the status, and [`Packed::unpack`](super::Packed::unpack) fails.
    UpTo(usize),
}

/// Rule for the part that a cache keeps of the object with this metadata.
pub type KeepRule = fn(&ObjectMeta) -> Keep;

/// Keeps every object up to [`OBJECT_BYTES`]. For custom resources of users.
pub fn any(_: &ObjectMeta) -> Keep {
    Keep::UpTo(OBJECT_BYTES)
}

/// Keeps the children of a `K`.
pub fn owned_by<K: StaticKind>(metadata: &ObjectMeta) -> Keep {
    if controller_of(metadata).is_some_and(is_a::<K>) { Keep::UpTo(OBJECT_BYTES) } else { Keep::Identity }
}

/// Keeps the children of a `K`, and what an operator wrote and has no controller: children of a deleted `K`.
pub fn owned_or_orphaned<K: StaticKind>(metadata: &ObjectMeta) -> Keep {
    let has = |mark: &&str| metadata.annotations.as_ref().is_some_and(|all| all.contains_key(*mark));
    let is_kept = match controller_of(metadata) {
        Some(owner) => is_a::<K>(owner),
        None => MARKS.iter().any(has),
    };
    if is_kept { Keep::UpTo(OBJECT_BYTES) } else { Keep::Identity }
}

/// As [`owned_or_orphaned`], whatever the size: for objects with a pod template for each role, which are as large as
/// etcd takes.
pub fn templates_of<K: StaticKind>(metadata: &ObjectMeta) -> Keep {
    match owned_or_orphaned::<K>(metadata) {
        Keep::UpTo(_) => Keep::UpTo(usize::MAX),
        Keep::Identity => Keep::Identity,
    }
}

/// Keeps every object up to [`SMALL_OBJECT_BYTES`]. For kinds that several owners share.
pub fn small(_: &ObjectMeta) -> Keep {
    Keep::UpTo(SMALL_OBJECT_BYTES)
}

/// The owner reference that names the controller.
pub fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether an owner is of this kind, in any version.
pub fn is_a<K: StaticKind>(owner: &OwnerReference) -> bool {
    let dynamic = K::DynamicType::default();
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    owner.kind == K::kind(&dynamic) && group == K::group(&dynamic)
}

/// Bounds the metadata of an object with content. Returns why something is missing, if it is.
pub(super) fn bound(metadata: &mut ObjectMeta) -> Option<Cut> {
    if weight(metadata) <= METADATA_BYTES {
        return None;
    }
    reduce(metadata);
    Some(Cut::LargeMetadata)
}

/// Bounds metadata that is kept alone.
pub(super) fn bound_alone(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if weight(metadata) > LONE_METADATA_BYTES {
        reduce(metadata);
    }
}

/// Reduces metadata to what identifies the object, its controller, and what is ours.
pub(super) fn reduce(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    metadata.owner_references = controller_of(metadata).cloned().map(|owner| vec![owner]);
    if let Some(finalizers) = &mut metadata.finalizers {
        finalizers.retain(|finalizer| is_ours(finalizer));
    }
    for entries in [&mut metadata.labels, &mut metadata.annotations].into_iter().flatten() {
        entries.retain(|key, _| is_ours(key));
    }
    if weight(metadata) > REDUCED_BYTES {
        (metadata.labels, metadata.annotations, metadata.finalizers) = (None, None, None);
    }
}

fn is_ours(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    DOMAINS.iter().any(|known| domain.strip_suffix(known).is_some_and(|sub| sub.is_empty() || sub.ends_with('.')))
}

/// Bytes of the texts of metadata whose number and length a user chooses.
fn weight(metadata: &ObjectMeta) -> usize {
    let entries = [&metadata.labels, &metadata.annotations].into_iter().flatten().flatten();
    let owners = metadata.owner_references.iter().flatten();
    entries.map(|(key, value)| key.len() + value.len()).sum::<usize>()
        + owners
            .map(|owner| owner.api_version.len() + owner.kind.len() + owner.name.len() + owner.uid.len())
            .sum::<usize>()
        + metadata.finalizers.iter().flatten().map(String::len).sum::<usize>()
}

/// Reason for missing fields of an object.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cut {
    /// They are nested too deeply.
    #[error("a field is nested deeper than {MAX_DEPTH} levels; flatten it or delete the object")]
    TooDeep,
    /// The content is too large.
    #[error("{field}: the object has {bytes} bytes, and the limit is {limit}; make {field} smaller")]
    TooLarge {
        /// Bytes of the content.
        bytes: usize,
        limit: usize,
        /// Path of the field that takes most of it.
        field: String,
    },
    /// The metadata is too large.
    #[error("metadata: has more than {METADATA_BYTES} bytes; make it smaller")]
    LargeMetadata,
}

/// Reduces content that has this many bytes as JSON to its status.
pub(super) fn reduce_content(content: &mut Value, bytes: usize, limit: usize) -> Cut {
    let field = largest_field(content);
    if let Some(fields) = content.as_object_mut() {
        fields.retain(|key, value| key == "status" && size(value) <= STATUS_BYTES);
    }
    Cut::TooLarge { bytes, limit, field }
}

/// The path of the largest field, down to the one that has no child with half of the bytes.
fn largest_field(content: &Value) -> String {
    let (mut path, mut at) = (String::new(), content);
    for _ in 0..PATH_LEVELS {
        let own = size(at);
        let child = match at {
            Value::Object(fields) => {
                fields.iter().max_by_key(|(_, value)| size(value)).map(|(key, value)| (format!(".{key}"), value))
            }
            Value::Array(items) => items
                .iter()
                .enumerate()
                .max_by_key(|(_, value)| size(value))
                .map(|(index, value)| (format!("[{index}]"), value)),
            _ => None,
        };
        let Some((step, child)) = child.filter(|(_, child)| size(child) * 2 >= own) else { break };
        path.push_str(&step);
        at = child;
    }
    path.trim_start_matches('.').to_owned()
}

/// About the bytes of a value as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 1,
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + size(value) + 4).sum::<usize>() + 1,
    }
}

#[cfg(test)]
mod tests;
