//! Forms in which a cache holds an object.

use std::{marker::PhantomData, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::PartialObjectMeta};
use lz4_flex::block::{compress_prepend_size, decompress_size_prepended};

use super::keep::{Cut, controller_of};

/// An object that a cache holds, and what a cache compares of it. Cheap to clone.
#[derive(Debug)]
pub(super) struct HeldObject<O> {
    /// Its resourceVersion.
    pub(super) version: Option<Arc<str>>,
    /// Uid of its controller owner.
    pub(super) owner: Option<Arc<str>>,
    form: Form<O>,
}

#[derive(Debug)]
enum Form<O> {
    /// As it is used.
    Whole(Arc<O>),
    /// Compressed, and the function that reads it.
    Compressed(Compressed, fn(&Compressed) -> O),
}

impl<O> Clone for HeldObject<O> {
    fn clone(&self) -> Self {
        let form = match &self.form {
            Form::Whole(object) => Form::Whole(Arc::clone(object)),
            Form::Compressed(compressed, read) => Form::Compressed(compressed.clone(), *read),
        };
        Self { version: self.version.clone(), owner: self.owner.clone(), form }
    }
}

impl<O> HeldObject<O> {
    /// The object. A compressed one is read anew on every call.
    pub(super) fn object(&self) -> Arc<O> {
        match &self.form {
            Form::Whole(object) => Arc::clone(object),
            Form::Compressed(compressed, read) => Arc::new(read(compressed)),
        }
    }

    /// The resourceVersion as a number.
    pub(super) fn number(&self) -> Option<u64> {
        number(self.version.as_deref())
    }
}

impl<O: Resource> HeldObject<O> {
    /// Holds an object as it is.
    pub(super) fn whole(object: O) -> Self {
        let (version, owner) = version_and_owner(&object);
        Self { version, owner, form: Form::Whole(Arc::new(object)) }
    }

    /// Holds an object compressed.
    pub(super) fn compressed(object: O) -> Self
    where
        O: Compress,
    {
        let (version, owner) = version_and_owner(&object);
        Self { version, owner, form: Form::Compressed(object.compress(), O::read) }
    }

    /// Whether an object is as it was known. One without a version is compared by its metadata.
    pub(super) fn is_same(&self, known: &Self) -> bool {
        let has_version = self.version.is_some();
        self.version == known.version && (has_version || self.object().meta() == known.object().meta())
    }
}

fn version_and_owner<O: Resource>(object: &O) -> (Option<Arc<str>>, Option<Arc<str>>) {
    let owner = controller_of(object.meta()).map(|owner| owner.uid.as_str());
    (object.meta().resource_version.as_deref().map(Arc::from), owner.map(Arc::from))
}

/// A resourceVersion as a number.
pub(super) fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

/// An object that a cache can hold compressed.
pub(crate) trait Compress {
    /// Compresses the object.
    fn compress(&self) -> Compressed;

    /// Reads the object that was compressed.
    fn read(compressed: &Compressed) -> Self;
}

impl<K: Resource> Compress for PartialObjectMeta<K> {
    fn compress(&self) -> Compressed {
        Compressed::new(&self.metadata, &[], None)
    }

    fn read(compressed: &Compressed) -> Self {
        Self { types: None, metadata: compressed.read().0, _phantom: PhantomData }
    }
}

/// An object as compressed JSON: a cache holds all objects of a kind, and a reconcile uses a few of them. In use, the
/// metadata alone take more.
#[derive(Clone, Debug)]
pub(crate) struct Compressed {
    /// Metadata and content, one after the other.
    text: Arc<[u8]>,
    /// Bytes of the metadata before compression.
    metadata_bytes: usize,
    /// Reason for missing fields.
    cut: Option<Arc<Cut>>,
}

impl Compressed {
    /// Compresses an object without `managedFields`.
    pub(super) fn new(metadata: &ObjectMeta, content: &[u8], cut: Option<Arc<Cut>>) -> Self {
        // Fails for maps whose keys are no strings, of which metadata has none.
        let mut text = serde_json::to_vec(metadata).unwrap_or_default();
        let metadata_bytes = text.len();
        text.extend_from_slice(content);
        Self { text: compress_prepend_size(&text).into(), metadata_bytes, cut }
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Reads what was compressed: metadata, content, and the reason for missing fields.
    pub(super) fn read(&self) -> (ObjectMeta, Arc<[u8]>, Option<Arc<Cut>>) {
        // `new` has written both.
        let text = decompress_size_prepended(&self.text).unwrap_or_default();
        let (metadata, content) = text.split_at(self.metadata_bytes.min(text.len()));
        (serde_json::from_slice(metadata).unwrap_or_default(), content.into(), self.cut.clone())
    }
}
