//! Reads everything that the plan of a component depends on.

pub mod pods;
mod pull_secrets;

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Instant,
};

use api_types::{
    LEGACY_FINALIZER, annotations, conversion::preserved::legacy::PreservedService, external::VirtualService, names,
    v1alpha1::DynamoComponent, v1beta1::DynamoComponentDeployment,
};
use controller_kit::{
    failure::ErrorType,
    pull_secrets::PullSecrets,
    request::{Interruption, find},
    store::{Key, Packed, StaticKind, Store, UnpackError, is_controlled_by},
    sync::locked,
    uid_map::UidMap,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{PersistentVolumeClaim, Secret, Service, ServiceAccount},
    networking::v1::Ingress,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{NamespaceResourceScope, PartialObjectMeta},
};
use rendering::{
    LeaderWorkerSet,
    checkpoint::{CheckpointFacts, identity_id},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tracing::warn;

use self::pull_secrets::ForbiddenNamespaces;
use super::model::{
    ComponentObserved, LegacyNeeds, LiveObject, NamedPullSecrets, ObservedLegacy, ObservedModel, ObsoleteObject,
    PodGroup, WorkloadKind, volume_name,
};
use crate::checkpoint::observe::CheckpointCaches;

/// The cache of components.
pub type ComponentStore = Store<Packed<DynamoComponentDeployment>>;

/// The caches.
pub struct ComponentCaches {
    /// Deployments.
    pub deployments: Store<Packed<Deployment>>,
    /// LeaderWorkerSets; `None` if the configuration excludes them.
    pub leader_worker_sets: Option<Store<Packed<LeaderWorkerSet>>>,
    /// Pod groups of older operators.
    pub pod_groups: Option<Store<Packed<PodGroup>>>,
    /// Services.
    pub services: Store<Packed<Service>>,
    /// Ingresses of components.
    pub ingresses: Store<Packed<Ingress>>,
    /// VirtualServices of components.
    pub virtual_services: Store<Packed<VirtualService>>,
    /// Autoscalers of standalone components.
    pub autoscalers: Store<Packed<HorizontalPodAutoscaler>>,
    /// Services of base models.
    pub model_services: Store<Packed<Service>>,
    /// All components.
    pub components: ComponentStore,
    /// DynamoComponents, which build images.
    pub builds: Store<Packed<DynamoComponent>>,
    /// ServiceAccounts that are labelled for component pods.
    pub accounts: Store<PartialObjectMeta<ServiceAccount>>,
}

/// Reads the caches, and with a client what no cache holds.
pub struct ComponentObserver {
    client: Client,
    caches: ComponentCaches,
    secrets: Option<PullSecrets>,
    checkpoints: CheckpointCaches,
    /// Where Secrets may not be read.
    forbidden: ForbiddenNamespaces,
    /// Kinds of exposure of which a component owns no object outside the caches.
    unexposed: Mutex<UidMap<BTreeSet<Cow<'static, str>>>>,
}

impl ComponentObserver {
    /// Reads these caches. Without `secrets`, no pull secrets are discovered.
    pub fn new(
        client: Client,
        caches: ComponentCaches,
        secrets: Option<PullSecrets>,
        checkpoints: CheckpointCaches,
    ) -> Self {
        let (forbidden, unexposed) = Default::default();
        Self { client, caches, secrets, checkpoints, forbidden, unexposed }
    }

    /// Looks at once for what a component needs and the cluster did not serve.
    pub fn need(&self, workload: WorkloadKind, virtual_service: bool) {
        if workload == WorkloadKind::LeaderWorkerSet {
            self.caches.leader_worker_sets.iter().for_each(Store::need);
        }
        if virtual_service {
            self.caches.virtual_services.need();
        }
    }

    /// Observes one component. A legacy component is not converted yet, and no GPUs are counted.
    ///
    /// # Errors
    /// An unreadable cached child, or a failed request.
    pub async fn observe(&self, component: DynamoComponentDeployment) -> Result<ComponentObserved, Interruption> {
        self.checkpoints.wait_until_ready().await;
        let Key { namespace, name } = Key::of(&component);
        let uid = component.metadata.uid.clone().unwrap_or_default();
        let sets = self.caches.leader_worker_sets.as_ref();
        let set = sets.map(|sets| live(sets, &namespace, &names::leader_worker_set(&name))).transpose()?.flatten();
        let named_pull_secrets = self.named_secrets(&component).await?;
        Ok(ComponentObserved {
            deployment: live(&self.caches.deployments, &namespace, &name)?,
            leader_worker_set: set,
            serves_leader_worker_sets: sets.is_some_and(Store::is_served),
            service: live(&self.caches.services, &namespace, &names::service(&name))?,
            ingress: self.exposure(&self.caches.ingresses, &component).await?,
            virtual_service: self.exposure(&self.caches.virtual_services, &component).await?,
            autoscaler: live(&self.caches.autoscalers, &namespace, &name)?,
            serves_virtual_services: self.caches.virtual_services.is_served(),
            models: self.models(&component)?,
            obsolete: self.obsolete(&component, &uid)?,
            uid,
            checkpoint: self.checkpoint(&component)?,
            legacy: self.legacy(&component).await?,
            legacy_needs: Ok(LegacyNeeds::NONE),
            claimed_gpus: Ok(0),
            component,
            pull_secrets: self.secrets.as_ref().map(|secrets| secrets.index(&namespace)).unwrap_or_default(),
            named_pull_secrets,
            accounts: self.accounts(&namespace),
            namespace,
        })
    }

    /// The object of this kind that exposes a component. Objects of the upstream operator lack the label by which
    /// caches select: for a component with its finalizer, the API server is read until it has answered that there is
    /// none.
    async fn exposure<K>(
        &self,
        store: &Store<Packed<K>>,
        component: &DynamoComponentDeployment,
    ) -> Result<Option<LiveObject<K>>, Interruption>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let Key { namespace, name } = Key::of(component);
        let name = names::service(&name);
        let uid = component.uid().unwrap_or_default();
        let cached = live(store, &namespace, &name)?;
        let is_taken_over = component.finalizers().iter().any(|finalizer| finalizer == LEGACY_FINALIZER);
        let is_unexposed =
            || locked(&self.unexposed).get(&uid).is_some_and(|kinds| kinds.contains(K::kind(&()).as_ref()));
        if cached.is_some() || !is_taken_over || !store.is_served() || is_unexposed() {
            return Ok(cached);
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let what = || format!("get {} {namespace}/{name}", K::kind(&()));
        let found = find(&name, what, api.get_opt(&name)).await?;
        if let Some(object) = found
            && is_controlled_by(&object, &uid)
        {
            let value = serde_json::to_value(&object).unwrap_or_default();
            return Ok(Some(LiveObject { object, value }));
        }
        let mut unexposed = locked(&self.unexposed);
        let kinds = unexposed.get_or_insert_with(&uid, BTreeSet::new, || self.caches.components.uids());
        kinds.insert(K::kind(&()));
        Ok(None)
    }

    /// The model that the component serves, and those whose Services it still owns.
    fn models(&self, component: &DynamoComponentDeployment) -> Result<Vec<ObservedModel>, UnpackError> {
        let namespace = namespace_of(component);
        let current = component.spec.component.model_ref.as_ref().map(|model| &model.name);
        let current = current.filter(|name| !name.is_empty());
        let services = self.caches.model_services.in_namespace(namespace);
        let owned = services.iter().filter(|service| {
            let owners = service.metadata.owner_references.iter().flatten();
            owners.map(|owner| &owner.uid).any(|uid| Some(uid) == component.metadata.uid.as_ref())
        });
        let former = owned.filter_map(|service| {
            let model = service.metadata.annotations.as_ref()?.get(annotations::BASE_MODEL)?;
            let is_its = service.metadata.name.as_deref() == Some(names::model_service(model).as_str());
            (is_its && Some(model) != current).then_some(model)
        });
        let former: BTreeSet<_> = former.collect();
        current.into_iter().chain(former).map(|model| self.model(namespace, model)).collect()
    }

    fn model(&self, namespace: &str, name: &str) -> Result<ObservedModel, UnpackError> {
        let service = live(&self.caches.model_services, namespace, &names::model_service(name))?;
        let serving = components_of_model(&self.caches.components, namespace, &names::base_model_hash(name));
        let mut serving: Vec<_> =
            serving.into_iter().filter(|component| component.metadata.deletion_timestamp.is_none()).collect();
        serving.sort_by_key(|c| (c.metadata.creation_timestamp.clone(), c.metadata.uid.clone()));
        let owners = serving.iter().filter_map(|component| component.owner_ref(&())).collect();
        Ok(ObservedModel { name: name.to_owned(), service, owners })
    }

    fn checkpoint(&self, component: &DynamoComponentDeployment) -> Result<CheckpointFacts, UnpackError> {
        let namespace = namespace_of(component);
        let Some(usage) = component.spec.component.enabled_checkpoint() else {
            return Ok(CheckpointFacts::default());
        };
        let live = match (usage.reference(), &usage.identity) {
            (Some(name), _) => {
                let found = self.checkpoints.checkpoints.get(&Key::new(namespace, name));
                found.map(|packed| packed.unpack()).transpose()?
            }
            (None, Some(identity)) => {
                let all = self.checkpoints.with_id(namespace, &identity_id(identity));
                all.into_iter().min_by_key(|found| found.metadata.name.clone())
            }
            (None, None) => None,
        };
        Ok(CheckpointFacts {
            namespace: namespace.to_owned(),
            settings: self.checkpoints.config.clone(),
            live,
            place: self.checkpoints.storage_location(namespace),
        })
    }

    /// Reads only for legacy components.
    async fn legacy(&self, component: &DynamoComponentDeployment) -> Result<ObservedLegacy, Interruption> {
        let namespace = namespace_of(component);
        let Some(fields) = PreservedService::of_component_deployment(component.annotations()) else {
            return Ok(ObservedLegacy::default());
        };
        let name = fields.source.as_deref().map(names::dynamo_component);
        let build = name.and_then(|name| self.caches.builds.get(&Key::new(namespace, &name)));
        let volume_exists = match volume_name(component, &fields) {
            Some(name) => {
                let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
                let what = || format!("get PersistentVolumeClaim {namespace}/{name}");
                find(&name, what, api.get_metadata_opt(&name)).await?.is_some()
            }
            None => false,
        };
        Ok(ObservedLegacy { fields, build: build.map(|build| build.unpack()).transpose()?, volume_exists })
    }

    /// Owned workloads of the other kind, and objects that older operators made for each replica.
    fn obsolete(&self, component: &DynamoComponentDeployment, uid: &str) -> Result<Vec<ObsoleteObject>, UnpackError> {
        let ComponentCaches { deployments, leader_worker_sets, pod_groups, .. } = &self.caches;
        let set = names::leader_worker_set(&component.name_any());
        let is_set = WorkloadKind::of(component) == WorkloadKind::LeaderWorkerSet;
        let deployments = is_set.then(|| children_but(deployments, uid, None)).into_iter().flatten();
        let sets = leader_worker_sets.iter().flat_map(|sets| children_but(sets, uid, is_set.then_some(&set)));
        let groups = pod_groups.iter().flat_map(|groups| children_but(groups, uid, None));
        let deployments = deployments.map(|packed| packed.unpack().map(Box::new).map(ObsoleteObject::Deployment));
        let sets = sets.map(|packed| packed.unpack().map(Box::new).map(ObsoleteObject::LeaderWorkerSet));
        let groups = groups.map(|packed| packed.unpack().map(Box::new).map(ObsoleteObject::PodGroup));
        deployments.chain(sets).chain(groups).collect()
    }

    /// Reads from the API server only Secrets that no cache shows, by their metadata.
    async fn named_secrets(&self, component: &DynamoComponentDeployment) -> Result<NamedPullSecrets, Interruption> {
        let mut missing = Vec::new();
        for name in pull_secrets::unknown(component, self.secrets.as_ref()) {
            if !self.secret_exists(namespace_of(component), name).await? {
                missing.push(name.to_owned());
            }
        }
        Ok(NamedPullSecrets { any: !pull_secrets::named(component).is_empty(), missing })
    }

    /// Without the right to read, a Secret counts as existing: it may exist.
    async fn secret_exists(&self, namespace: &str, name: &str) -> Result<bool, Interruption> {
        if self.forbidden.is_marked(namespace, Instant::now()) {
            return Ok(true);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match find(name, || format!("get Secret {namespace}/{name}"), api.get_metadata_opt(name)).await {
            Err(error) if error.error_type() == ErrorType::Forbidden => {
                self.forbidden.mark(namespace, Instant::now());
                warn!(namespace, "cannot read Secrets: missing image pull secrets are not reported");
                Ok(true)
            }
            answer => Ok(answer?.is_some()),
        }
    }

    fn accounts(&self, namespace: &str) -> Vec<String> {
        let here = self.caches.accounts.in_namespace(namespace);
        let mut names: Vec<String> = here.iter().filter_map(|account| account.metadata.name.clone()).collect();
        names.sort_unstable();
        names
    }
}

fn namespace_of(component: &DynamoComponentDeployment) -> &str {
    component.metadata.namespace.as_deref().unwrap_or_default()
}

/// The components of a namespace that serve the base model of this hash.
pub fn components_of_model(
    components: &ComponentStore,
    namespace: &str,
    hash: &str,
) -> Vec<Arc<Packed<DynamoComponentDeployment>>> {
    let mut here = components.in_namespace(namespace);
    here.retain(|component| model_of(component).is_some_and(|model| names::base_model_hash(&model) == hash));
    here
}

/// Name of the base model that a component serves.
fn model_of(component: &Packed<DynamoComponentDeployment>) -> Option<String> {
    let component = component.value();
    let model = component.pointer("/spec/modelRef/name").and_then(Value::as_str);
    model.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The live object of that name.
fn live<K>(store: &Store<Packed<K>>, namespace: &str, name: &str) -> Result<Option<LiveObject<K>>, UnpackError>
where
    K: StaticKind + DeserializeOwned,
{
    store.get(&Key::new(namespace, name)).as_deref().map(LiveObject::from_packed).transpose()
}

/// The children of `uid` of a kind, without the one of a name and those that are being deleted.
fn children_but<K: StaticKind>(store: &Store<Packed<K>>, uid: &str, name: Option<&str>) -> Vec<Arc<Packed<K>>> {
    let mut all = store.children_of(uid);
    all.retain(|one| one.metadata.deletion_timestamp.is_none() && one.metadata.name.as_deref() != name);
    all
}
