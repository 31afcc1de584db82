//! A cached object that costs little more than its JSON.

use std::{borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use api_types::typed::typed;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Map, Value};

use super::{
    Key, StaticKind,
    bounded::Bounded,
    held::{Compress, Compressed},
    keep::{self, Cut, Keep, KeepRule},
};

/// Annotation that `kubectl apply` leaves behind; it is never read here and can be as large as the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A `K` as the API server sent it: metadata ready to use, everything else as compact JSON.
///
/// A typed Deployment takes tens of kilobytes of memory, its JSON about four. And since any JSON object is a `Packed`,
/// one object that does not parse as `K` cannot break the watch of all others: [`Packed::unpack`] reports it when it is
/// needed.
pub struct Packed<K> {
    /// Metadata without `managedFields`.
    pub metadata: ObjectMeta,
    /// The object without `metadata`, as JSON.
    body: Arc<[u8]>,
    /// Reason for missing fields.
    cut: Option<Arc<Cut>>,
    kind: PhantomData<fn() -> K>,
}

/// A cached object that is not what its kind should be.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {object} cannot be read: {source}")]
pub struct UnpackError {
    /// Kind of the object.
    pub kind: String,
    /// The object.
    pub object: Key,
    /// Description of the error, with the field.
    #[source]
    pub source: serde_json::Error,
}

impl<K: StaticKind + DeserializeOwned> Packed<K> {
    /// The typed object. Parses on every call: unpack once per reconcile.
    ///
    /// # Errors
    /// If the object does not have the shape of a `K`, or is too large.
    pub fn unpack(&self) -> Result<K, UnpackError> {
        let readable = self.cut.as_ref().map_or_else(|| Ok(self.value()), |cut| Err(serde_json::Error::custom(cut)));
        readable.and_then(|json| typed(json).map_err(serde_json::Error::custom)).map_err(|source| UnpackError {
            kind: K::kind(&K::DynamicType::default()).into_owned(),
            object: Key::of(self),
            source,
        })
    }

    /// The typed objects of a list, without those that do not have the shape of a `K`. A list that comes packed costs
    /// no second parser for each of its types: there is one from text, for JSON, and one from JSON, for all of them.
    pub fn readable(list: Vec<Self>) -> Vec<K> {
        list.iter().filter_map(|object| object.unpack().ok()).collect()
    }
}

impl<K: StaticKind> Packed<K> {
    /// The whole object as untyped JSON, `apiVersion` and `kind` included.
    pub fn value(&self) -> Value {
        let dynamic = K::DynamicType::default();
        let mut fields = self.fields();
        // Items of a list of built-in kinds come without them.
        fields.entry("apiVersion").or_insert_with(|| Value::String(K::api_version(&dynamic).into_owned()));
        fields.entry("kind").or_insert_with(|| Value::String(K::kind(&dynamic).into_owned()));
        let metadata = serde_json::to_value(&self.metadata).unwrap_or_default();
        fields.insert("metadata".to_owned(), metadata);
        Value::Object(fields)
    }

    /// The `status` block; null if there is none.
    pub fn status(&self) -> Value {
        self.fields().remove("status").unwrap_or_default()
    }
}

impl<K> Packed<K> {
    /// Packs an untyped object.
    ///
    /// # Errors
    /// If it has no readable metadata.
    pub fn from_value(value: Value) -> Result<Self, serde_json::Error> {
        let Value::Object(fields) = value else { return Err(serde_json::Error::custom("not an object")) };
        Self::from_fields(fields, None)
    }

    fn from_fields(mut fields: Map<String, Value>, cut: Option<Cut>) -> Result<Self, serde_json::Error> {
        let mut metadata = fields.remove("metadata").unwrap_or_else(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            // Before it becomes typed: as typed data it would be the largest part of all.
            metadata.remove("managedFields");
        }
        let mut metadata: ObjectMeta = typed(metadata).map_err(serde_json::Error::custom)?;
        prune(&mut metadata);
        let body = serde_json::to_vec(&fields)?.into();
        Ok(Self { metadata, body, cut: cut.map(Arc::new), kind: PhantomData })
    }

    /// Reduces the object to the fields that a rule keeps.
    pub(super) fn kept(mut self, rule: KeepRule) -> Self {
        let limit = match rule(&self.metadata) {
            Keep::Identity => {
                keep::reduce(&mut self.metadata);
                return Self { body: Arc::from(*b"{}"), cut: None, ..self };
            }
            Keep::UpTo(limit) => limit,
        };
        let bytes = self.body.len();
        if bytes > limit {
            let mut content = Value::Object(self.fields());
            self.cut = Some(Arc::new(keep::reduce_content(&mut content, bytes, limit)));
            self.body = content.to_string().into_bytes().into();
        }
        if let Some(cut) = keep::bound(&mut self.metadata) {
            self.cut = Some(Arc::new(cut));
        }
        self
    }

    /// Converts to another kind that the object is known to have.
    pub(super) fn of_kind<L>(self) -> Packed<L> {
        Packed { metadata: self.metadata, body: self.body, cut: self.cut, kind: PhantomData }
    }

    /// The body was written by `from_value`, so it is an object.
    fn fields(&self) -> Map<String, Value> {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl<K> Compress for Packed<K> {
    fn compress(&self) -> Compressed {
        Compressed::new(&self.metadata, &self.body, self.cut.clone())
    }

    fn read(compressed: &Compressed) -> Self {
        let (metadata, body, cut) = compressed.read();
        Self { metadata, body, cut, kind: PhantomData }
    }
}

/// Drops metadata that no controller reads.
pub(super) fn prune(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

impl<K> Clone for Packed<K> {
    fn clone(&self) -> Self {
        let (metadata, body) = (self.metadata.clone(), Arc::clone(&self.body));
        Self { metadata, body, cut: self.cut.clone(), kind: PhantomData }
    }
}

/// Names the object; its content may be secret.
impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed")
            .field("namespace", &self.metadata.namespace)
            .field("name", &self.metadata.name)
            .field("resource_version", &self.metadata.resource_version)
            .finish_non_exhaustive()
    }
}

impl<'de, K> Deserialize<'de> for Packed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Bounded { fields, is_cut } = Bounded::deserialize(deserializer)?;
        Self::from_fields(fields, is_cut.then_some(Cut::TooDeep)).map_err(D::Error::custom)
    }
}

impl<K: StaticKind> Serialize for Packed<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<K: Resource> Resource for Packed<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The owner reference that makes an object the child of a controller.
pub fn controller_owner<O: Resource>(object: &O) -> Option<&OwnerReference> {
    keep::controller_of(object.meta())
}

/// Whether the controller owner of an object has this uid.
pub fn is_controlled_by<O: Resource>(object: &O, uid: &str) -> bool {
    controller_owner(object).is_some_and(|owner| owner.uid == uid)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::Packed;

    fn live() -> serde_json::Value {
        json!({
            "metadata": {
                "name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{…}", "keep": "me" },
                "managedFields": [{ "manager": "x", "operation": "Apply", "fieldsV1": { "f:spec": {} } }],
            },
            "spec": { "replicas": 2, "selector": {}, "template": {} },
            "status": { "readyReplicas": 1 },
        })
    }

    #[test]
    fn keeps_the_object_and_drops_the_ballast() {
        let packed: Packed<Deployment> = serde_json::from_value(live()).unwrap();
        let mut expected = live();
        let metadata = expected["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        metadata["annotations"].as_object_mut().unwrap().remove("kubectl.kubernetes.io/last-applied-configuration");
        expected["apiVersion"] = json!("apps/v1");
        expected["kind"] = json!("Deployment");
        assert_eq!(packed.value(), expected);
        assert_eq!(packed.status(), json!({ "readyReplicas": 1 }));
        assert_eq!(packed.unpack().unwrap().spec.unwrap().replicas, Some(2));
    }

    #[test]
    fn an_object_of_another_shape_is_cached_and_named_when_unpacked() {
        let mut odd = live();
        odd["spec"]["replicas"] = json!("two");
        let packed: Packed<Deployment> = serde_json::from_value(odd).unwrap();
        let message = packed.unpack().unwrap_err().to_string();
        assert!(
            message.starts_with("Deployment n/d cannot be read: spec.replicas: invalid type: string \"two\""),
            "{message}"
        );
    }

    #[test]
    fn debug_output_holds_no_content() {
        let packed: Packed<Deployment> = serde_json::from_value(live()).unwrap();
        assert!(!format!("{packed:?}").contains("replicas"));
    }
}
