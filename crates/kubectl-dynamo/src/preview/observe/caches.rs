//! The caches of both controllers, filled from objects in memory.

use api_types::{
    grove::{PodClique, PodCliqueScalingGroup},
    labels,
    v1beta1::DynamoComponentDeployment,
};
use component_controller::{checkpoint::observe::CheckpointCaches, component::observe::ComponentCaches};
use controller_kit::{
    pull_secrets::PullSecrets,
    settings::OperatorConfiguration,
    store::{Packed, Store},
};
use graph_controller::graph::caches::{GraphCaches, GroveCaches};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::{
    Resource,
    core::{ApiResource, PartialObjectMeta},
    runtime::watcher::Event,
};
use serde_json::{Value, json};

use crate::preview::{
    objects::PreviewObjects,
    pods::{self, PreviewPods},
};

/// Sources that caches are filled from.
pub struct CacheSources<'a> {
    /// Objects in memory.
    pub objects: &'a PreviewObjects,
    /// Pods.
    pub pods: &'a PreviewPods,
    /// Kinds that are not served, by group and plural.
    pub unserved: &'a [(String, String)],
    /// Docker configuration Secrets, if their discovery is on.
    pub pull_secrets: Option<&'a PullSecrets>,
    /// The operator's configuration.
    pub configuration: &'a OperatorConfiguration,
}

/// The parts of a label selector as the controllers' watches have them.
enum LabelMatch {
    All,
    Has(&'static str),
    Is(&'static [(&'static str, &'static str)]),
    HasButNot(&'static str, &'static str),
    OfModels,
}

impl LabelMatch {
    fn select(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"][key].as_str();
        match self {
            Self::All => true,
            Self::Has(key) => label(key).is_some(),
            Self::Is(pairs) => pairs.iter().all(|(key, value)| label(key) == Some(value)),
            Self::HasButNot(key, other) => label(key).is_some() && label(other).is_none(),
            Self::OfModels => {
                label(labels::MODEL_MANAGED_BY) == Some(labels::OPERATOR) && label(labels::BASE_MODEL_HASH).is_some()
            }
        }
    }
}

const ACCOUNTS: LabelMatch =
    LabelMatch::Is(&[(labels::MANAGED_BY, labels::OPERATOR), (labels::APP_COMPONENT, labels::RBAC)]);
const AGENTS: LabelMatch = LabelMatch::Is(&[(labels::APP_COMPONENT, labels::SNAPSHOT_AGENT)]);
/// Those of components are the component controller's.
const WAYS_IN: LabelMatch = LabelMatch::HasButNot(labels::OWN_GRAPH, labels::OWN_COMPONENT);

impl CacheSources<'_> {
    /// The caches of the graph controller.
    pub fn of_graphs(&self) -> GraphCaches {
        let agents = self.configuration.checkpoint.if_enabled().is_some()
            && self.configuration.orchestrators.grove.enabled != Some(false);
        GraphCaches {
            graphs: self.store(&LabelMatch::All),
            components: self.store(&LabelMatch::Has(labels::GRAPH)),
            accounts: self.store(&ACCOUNTS),
            roles: self.store(&ACCOUNTS),
            bindings: self.store(&ACCOUNTS),
            worker_pods: self.worker_pods(),
            config_maps: self.store(&LabelMatch::Has(labels::GRAPH)),
            claim_templates: self.store(&LabelMatch::Has(labels::OWN_GRAPH)),
            pools: self.store(&LabelMatch::Has(labels::GRAPH)),
            destination_rules: self.store(&LabelMatch::Has(labels::OWN_GRAPH)),
            adapters: self.store(&LabelMatch::All),
            autoscalers: self.store(&WAYS_IN),
            mpi_keys: self.mpi_keys(),
            checkpoints: self.store(&LabelMatch::All),
            agents: agents.then(|| self.store(&AGENTS)),
            services: self.store(&LabelMatch::Has(labels::OWN_GRAPH)),
            ingresses: self.store(&WAYS_IN),
            virtual_services: self.store(&WAYS_IN),
            model_services: self.store(&LabelMatch::OfModels),
            builds: self.store(&LabelMatch::All),
            grove: GroveCaches {
                sets: self.store(&LabelMatch::Has(labels::GRAPH)),
                cliques: self.store::<PodClique>(&LabelMatch::Has(labels::GRAPH)),
                groups: self.store::<PodCliqueScalingGroup>(&LabelMatch::All),
                pull_secrets: self.pull_secrets.cloned(),
            },
        }
    }

    /// The caches of the component controller.
    pub fn of_components(&self) -> ComponentCaches {
        let uses_sets = self.configuration.orchestrators.lws.enabled != Some(false);
        ComponentCaches {
            deployments: self.store(&LabelMatch::Has(labels::COMPONENT)),
            leader_worker_sets: uses_sets.then(|| self.store(&LabelMatch::Has(labels::COMPONENT))),
            pod_groups: uses_sets.then(|| self.store(&LabelMatch::Has(labels::LEGACY_INSTANCE))),
            services: self.store(&LabelMatch::Has(labels::COMPONENT)),
            ingresses: self.store(&LabelMatch::Has(labels::OWN_COMPONENT)),
            virtual_services: self.store(&LabelMatch::Has(labels::OWN_COMPONENT)),
            autoscalers: self.store(&LabelMatch::Has(labels::OWN_COMPONENT)),
            model_services: self.store(&LabelMatch::OfModels),
            components: self.store::<DynamoComponentDeployment>(&LabelMatch::All),
            builds: self.store(&LabelMatch::All),
            accounts: self
                .metadata::<ServiceAccount>(&LabelMatch::Is(&[(labels::COMPONENT_POD_ACCOUNT, labels::TRUE)])),
        }
    }

    /// The caches of checkpoints.
    pub fn of_checkpoints(&self) -> CheckpointCaches {
        let config = self.configuration.checkpoint.if_enabled();
        let claim = config.as_ref().and_then(|config| config.storage.storage().ok().flatten()).map(|named| named.claim);
        let volumes = claim.map(|claim| {
            let all = self.list::<PersistentVolumeClaim>(&LabelMatch::All).unwrap_or_default();
            let named = all.into_iter().filter(|volume| volume["metadata"]["name"] == claim.as_str());
            Store::snapshot(Some(named.filter_map(metadata_of).collect()))
        });
        CheckpointCaches { config, checkpoints: self.store(&LabelMatch::All), agents: self.store(&AGENTS), volumes }
    }

    fn list<K: Resource<DynamicType = ()>>(&self, labels: &LabelMatch) -> Option<Vec<Value>> {
        let resource = ApiResource::erase::<K>(&());
        let kind = (resource.group, resource.plural);
        if self.unserved.contains(&kind) {
            return None;
        }
        let all = self.objects.of_kind(&kind.0, &kind.1).map(|(_, object)| object);
        Some(all.filter(|object| labels.select(object)).cloned().collect())
    }

    fn store<K: Resource<DynamicType = ()>>(&self, labels: &LabelMatch) -> Store<Packed<K>> {
        let pack =
            |objects: Vec<Value>| objects.into_iter().filter_map(|object| Packed::from_value(object).ok()).collect();
        Store::snapshot(self.list::<K>(labels).map(pack))
    }

    fn metadata<K: Resource<DynamicType = ()>>(&self, labels: &LabelMatch) -> Store<PartialObjectMeta<K>> {
        Store::snapshot(self.list::<K>(labels).map(|all| all.into_iter().filter_map(metadata_of).collect()))
    }

    fn worker_pods(&self) -> Store<PartialObjectMeta<Pod>> {
        let workers = self.pods.all().iter().filter(|pod| pods::is_worker(&pod.labels));
        let metadata = workers.filter_map(|pod| {
            metadata_of(json!({ "metadata": { "name": pod.name, "namespace": pod.workload.namespace,
                "labels": pod.labels } }))
        });
        Store::snapshot(Some(metadata.collect()))
    }

    /// Secrets are not read: the key counts as existing, as the webhook server makes it where it is missing.
    fn mpi_keys(&self) -> Store<PartialObjectMeta<Secret>> {
        let name = &self.configuration.mpi.ssh_secret_name;
        let graphs = self.objects.of_kind(api_types::GROUP, "dynamographdeployments");
        let namespaces: std::collections::BTreeSet<&str> = graphs.map(|(key, _)| key.namespace.as_str()).collect();
        let keys = namespaces
            .into_iter()
            .filter_map(|namespace| metadata_of(json!({ "metadata": { "name": name, "namespace": namespace } })));
        Store::snapshot(Some(keys.collect()))
    }
}

/// Docker configuration Secrets as in the caches of the controllers.
pub fn pull_secrets(secrets: &[Value]) -> PullSecrets {
    let known = PullSecrets::default();
    known.handle(Event::Init);
    for secret in secrets {
        if let Ok(secret) = serde_json::from_value::<Secret>(secret.clone()) {
            known.handle(Event::InitApply(secret));
        }
    }
    known.handle(Event::InitDone);
    known
}

fn metadata_of<K: Resource>(object: Value) -> Option<PartialObjectMeta<K>> {
    serde_json::from_value(json!({ "metadata": object["metadata"] })).ok()
}
