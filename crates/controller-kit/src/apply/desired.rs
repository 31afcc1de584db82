//! An object as it is desired.

use kube::{Resource, core::ApiResource};
use serde::Serialize;
use serde_json::Value;

use super::plan;
use crate::request::{ObjectId, RequestError, to_value};

/// An object as it should be, complete: what is missing here and was applied before, will be removed.
#[derive(Debug, Clone)]
pub struct Desired {
    pub(super) resource: ApiResource,
    pub(super) id: ObjectId,
    pub(super) parent_uid: String,
    pub(super) object: Value,
    /// Whether an update needs the live object to be the version that was compared.
    pub(super) unchanged: bool,
    pub(super) basis: Option<PlanBasis>,
    adopt_labels: Vec<(String, String)>,
}

/// Basis of a plan for an object.
#[derive(Debug, Clone)]
pub(super) struct PlanBasis {
    /// The object's resource version; empty if it did not exist.
    pub(super) version: String,
    /// JSON pointer of the field that was planned.
    pub(super) field: &'static str,
}

impl Desired {
    /// A typed object. Its controller owner reference must be that of `parent_uid`, unless it is meant to have no
    /// owner.
    ///
    /// # Errors
    /// If the object has no name or cannot be written as JSON.
    pub fn of<K: Resource<DynamicType = ()> + Serialize>(object: &K, parent_uid: &str) -> Result<Self, RequestError> {
        let resource = ApiResource::erase::<K>(&());
        Self::dynamic(resource, to_value(&ObjectId::of(object), object)?, parent_uid)
    }

    /// An object of a kind that has no Rust type here.
    ///
    /// # Errors
    /// If the object has no name.
    pub fn dynamic(resource: ApiResource, mut object: Value, parent_uid: &str) -> Result<Self, RequestError> {
        let namespace = plan::text(&object, "/metadata/namespace");
        let id = ObjectId::new(&resource, &namespace, &plan::text(&object, "/metadata/name"));
        let Some(fields) = object.as_object_mut().filter(|_| !id.name.is_empty()) else {
            return Err(RequestError::render(&id, "metadata.name is missing"));
        };
        fields.insert("apiVersion".to_owned(), Value::String(resource.api_version.clone()));
        fields.insert("kind".to_owned(), Value::String(resource.kind.clone()));
        let object = plan::stamp(object);
        let (parent_uid, adopt_labels) = (parent_uid.to_owned(), Vec::new());
        Ok(Self { resource, id, parent_uid, object, unchanged: false, basis: None, adopt_labels })
    }

    /// Lets a live object without controller owner be taken over if it carries this label. More calls, more labels that
    /// it must carry. Without a call, nothing is taken over.
    #[must_use]
    pub fn adopt_if_labelled(mut self, key: &str, value: &str) -> Self {
        self.adopt_labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Writes only if the live object is still the one that was passed to [`Applier::apply`](super::Applier::apply),
    /// down to its resourceVersion; if none was passed, only if there is none. For plans that rest on the rest of
    /// the object, its status for example. Otherwise the answer is a transient error.
    #[must_use]
    pub fn only_if_unchanged(mut self) -> Self {
        self.unchanged = true;
        self
    }

    /// Writes only if the live object is the one that `field`, a JSON pointer, was planned on: of this resource
    /// version, which is empty for an object that did not exist. A newer version in the cache does not make up for it.
    /// An object that exists although the cache lacks it is brought to what is desired, but keeps its own value of the
    /// field. Whenever the value is not written, the answer is a transient error.
    #[must_use]
    pub fn based_on(mut self, version: &str, field: &'static str) -> Self {
        self.basis = Some(PlanBasis { version: version.to_owned(), field });
        self
    }

    /// The same for the version of `live`, which was just read, with the value that it has there.
    pub(super) fn keeping(&self, field: &str, live: &Value) -> Self {
        let mut kept = Self { unchanged: true, basis: None, ..self.clone() };
        let (parent, key) = field.rsplit_once('/').unwrap_or(("", field));
        if let Some(fields) = kept.object.pointer_mut(parent).and_then(Value::as_object_mut) {
            match live.pointer(field) {
                Some(value) => fields.insert(key.to_owned(), value.clone()),
                None => fields.remove(key),
            };
        }
        kept.object = plan::stamp(kept.object);
        kept
    }

    /// Returns the identity of the object.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// The object as it will be sent, with its fingerprint.
    pub fn object(&self) -> &Value {
        &self.object
    }

    pub(super) fn may_adopt(&self, live: &Value) -> bool {
        let labels = &live["metadata"]["labels"];
        !self.adopt_labels.is_empty() && self.adopt_labels.iter().all(|(key, value)| labels[key] == *value)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, ServiceAccount},
    };
    use serde_json::json;

    use super::Desired;

    #[test]
    fn kind_and_version_are_filled_in_and_status_is_dropped() {
        let object = Deployment {
            metadata: kube::api::ObjectMeta {
                name: Some("d".into()),
                namespace: Some("n".into()),
                ..Default::default()
            },
            status: Some(Default::default()),
            ..Default::default()
        };
        let desired = Desired::of(&object, "u").unwrap();
        assert_eq!(desired.id().to_string(), "Deployment n/d");
        assert_eq!(desired.object()["apiVersion"], "apps/v1");
        assert!(desired.object().get("status").is_none());
    }

    #[test]
    fn an_object_without_name_is_refused() {
        let error = Desired::of(&ConfigMap::default(), "u").unwrap_err();
        assert_eq!(error.to_string(), "cannot render ConfigMap : metadata.name is missing");
    }

    #[test]
    fn adoption_needs_every_label() {
        let account = ServiceAccount {
            metadata: kube::api::ObjectMeta { name: Some("a".into()), ..Default::default() },
            ..Default::default()
        };
        let plain = Desired::of(&account, "u").unwrap();
        let labelled = plain.clone().adopt_if_labelled("graph", "g").adopt_if_labelled("by", "us");
        let live = |labels| json!({ "metadata": { "labels": labels } });
        assert!(!plain.may_adopt(&live(json!({ "graph": "g", "by": "us" }))));
        assert!(labelled.may_adopt(&live(json!({ "graph": "g", "by": "us", "more": "x" }))));
        assert!(!labelled.may_adopt(&live(json!({ "graph": "g" }))));
        assert!(!labelled.may_adopt(&live(json!({ "graph": "other", "by": "us" }))));
        assert!(!labelled.may_adopt(&json!({ "metadata": {} })));
    }
}
