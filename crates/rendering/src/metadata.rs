//! Labels and annotations of a component's objects.

use std::collections::BTreeMap;

use api_types::{
    annotations,
    conversion::preserved::PreservedComponent,
    labels, names, owner,
    v1beta1::{ComponentType, DynamoComponentDeployment},
};
use k8s_openapi::{
    api::core::v1::{PodSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{DiscoveryBackend, RenderInput, ValidatedComponent, checkpoint::Start};

/// Labels or annotations.
pub(crate) type Pairs = BTreeMap<String, String>;

/// Keys by which the graph controller labels pods; they count only on the component, never in a pod template.
const TOPOLOGY_KEYS: [&str; 2] = [annotations::TOPOLOGY_LABEL_KEY, annotations::TOPOLOGY_NAME];

/// Labels whose value on the component beats every other source.
const OWNED_BY_COMPONENT: [&str; 5] =
    [labels::COMPONENT, labels::DYNAMO_NAMESPACE, labels::GRAPH, labels::WORKER_HASH, labels::COMPONENT_CLASS];

impl ValidatedComponent<'_> {
    /// Returns the discovery backend of the component's pods.
    pub(crate) fn discovery_backend(&self, input: &RenderInput<'_>) -> DiscoveryBackend {
        self.discovery.unwrap_or(input.settings.discovery_backend)
    }

    /// Labels of the Deployment; those of pods and of the Service are built on them.
    pub(crate) fn workload_labels(&self) -> Pairs {
        let mut all = self.dcd.metadata.labels.clone().unwrap_or_default();
        all.extend(self.preserved.labels.clone());
        all.extend(self.spec().pod_labels().cloned().unwrap_or_default());
        all.extend(self.model().map(|model| (labels::BASE_MODEL_HASH.to_owned(), names::base_model_hash(model))));
        all.extend(self.sub_type().map(|sub_type| (labels::SUB_COMPONENT_TYPE.to_owned(), sub_type)));
        all.insert(labels::COMPONENT.to_owned(), self.component_name().to_owned());
        all.insert(labels::DYNAMO_NAMESPACE.to_owned(), self.dynamo_namespace());
        let own = |key: &str| Some((key.to_owned(), self.own_label(key)?.to_owned()));
        all.extend(OWNED_BY_COMPONENT.into_iter().filter_map(own));
        all
    }

    /// Labels of the pods.
    pub(crate) fn pod_labels(&self, input: &RenderInput<'_>) -> Pairs {
        let mut all = self.workload_labels();
        all.insert(labels::COMPONENT.to_owned(), self.component_name().to_owned());
        all.insert(labels::DYNAMO_NAMESPACE.to_owned(), self.dynamo_namespace());
        if self.annotation(annotations::ENABLE_METRICS) != Some("false") {
            all.insert(labels::METRICS_ENABLED.to_owned(), labels::TRUE.to_owned());
        }
        let graph = self.own_label(labels::GRAPH).or_else(|| self.graph());
        all.extend(graph.map(|graph| (labels::GRAPH.to_owned(), graph.to_owned())));
        all.extend(self.workload_type(input).map(|type_| (labels::COMPONENT_TYPE.to_owned(), type_.to_string())));
        all.insert(labels::SELECTOR.to_owned(), self.name.to_owned());
        all.extend(self.discovery_labels(input));
        input.restore.label(&mut all);
        all
    }

    /// Replicas to run now: none before the checkpoint is there that they wait for.
    pub(crate) fn replicas(&self, input: &RenderInput<'_>) -> i32 {
        if matches!(input.restore, Start::Awaited(_)) { 0 } else { self.spec().desired_replicas() }
    }

    /// Annotations of the pods.
    pub(crate) fn pod_annotations(&self, input: &RenderInput<'_>) -> Pairs {
        let mut all = self.workload_annotations();
        input.restore.annotate(&mut all, self.restore_target());
        all
    }

    /// Labels by which Kubernetes discovery finds pods and Services; none with another backend.
    pub(crate) fn discovery_labels(&self, input: &RenderInput<'_>) -> Pairs {
        match self.discovery_backend(input) {
            DiscoveryBackend::Etcd => Pairs::new(),
            backend @ DiscoveryBackend::Kubernetes => Pairs::from([
                (labels::DISCOVERY_BACKEND.to_owned(), backend.as_str().to_owned()),
                (labels::DISCOVERY_ENABLED.to_owned(), labels::TRUE.to_owned()),
            ]),
        }
    }

    /// Annotations of the Deployment, of its pods and of the Service.
    pub(crate) fn workload_annotations(&self) -> Pairs {
        let mut all = self.annotations.clone();
        all.extend(self.model().map(|model| (annotations::BASE_MODEL.to_owned(), model.to_owned())));
        all.remove(annotations::ORIGIN_VERSION);
        let own = self.dcd.metadata.annotations.as_ref();
        for key in TOPOLOGY_KEYS {
            all.remove(key);
            if let Some(value) = own.and_then(|own| own.get(key)).filter(|value| !value.is_empty()) {
                all.insert(key.to_owned(), value.clone());
            }
        }
        all
    }

    /// Metadata of an object of the component.
    pub(crate) fn object_meta(&self, name: String, labels: Pairs, annotations: Pairs) -> ObjectMeta {
        let owner = owner::controller::<DynamoComponentDeployment>(self.name, self.uid);
        ObjectMeta { owner_references: Some(vec![owner]), ..marked(name, self.namespace, labels, annotations) }
    }

    /// An annotation that the user gave the component.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// The kind of worker: the type's, else one that only v1alpha1 could say.
    fn sub_type(&self) -> Option<String> {
        match self.spec().type_ {
            Some(sub_type @ (ComponentType::Prefill | ComponentType::Decode)) => Some(sub_type.to_string()),
            _ => self.preserved.sub_component_type.clone(),
        }
    }

    /// Base model that the component serves.
    pub fn model(&self) -> Option<&str> {
        self.spec().model_ref.as_ref().map(|model| model.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// The annotations that a user gave a component: those of its pod template, over those that only v1alpha1 could say.
pub fn component_annotations(dcd: &DynamoComponentDeployment) -> Pairs {
    let own = dcd.metadata.annotations.as_ref();
    let mut all = own.map(PreservedComponent::of_component_deployment).unwrap_or_default().annotations;
    all.extend(dcd.spec.component.pod_annotations().cloned().unwrap_or_default());
    all
}

/// Metadata of an object without owner.
pub(crate) fn named(name: String, namespace: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
}

/// Metadata of an object without owner, with these labels and annotations.
pub(crate) fn marked(name: String, namespace: &str, labels: Pairs, annotations: Pairs) -> ObjectMeta {
    ObjectMeta { labels: some(labels), annotations: some(annotations), ..named(name, namespace) }
}

/// A pod template with these labels and annotations.
pub(crate) fn pod_template(labels: Pairs, annotations: Pairs, pod: PodSpec) -> PodTemplateSpec {
    let metadata = ObjectMeta { labels: some(labels), annotations: some(annotations), ..ObjectMeta::default() };
    PodTemplateSpec { metadata: Some(metadata), spec: Some(pod) }
}

/// The API server drops empty maps; so do we, that nothing differs.
fn some(pairs: Pairs) -> Option<Pairs> {
    (!pairs.is_empty()).then_some(pairs)
}
