//! I/O in: one snapshot of everything that a decision needs.

pub mod pods;

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use api_types::{
    LEGACY_FINALIZER, conversion::preserved::archive::PreservedService, external::VirtualService, names,
    v1alpha1::DynamoComponent, v1beta1::DynamoComponentDeployment,
};
use controller_kit::{
    failure::ErrorType,
    pull_secrets::PullSecrets,
    read::{Interruption, find},
    store::{Key, Packed, Store, UnpackError, controller_owner},
};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{PersistentVolumeClaim, Secret, Service, ServiceAccount},
        networking::v1::Ingress,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{NamespaceResourceScope, PartialObjectMeta},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tracing::warn;
pub use workload::checkpoint::CheckpointFacts;
use workload::{LeaderWorkerSet, PullSecretIndex, checkpoint::identity_id};

use super::{
    archive::{ArchiveFacts, Expansion, claim_name},
    forbidden::Forbidden,
    leftover::{Leftover, PodGroup, others},
    pull_secrets::{self, NamedPullSecrets},
    workload::{LiveWorkload, WorkloadKind},
};
use crate::snapshots::Snapshots;

/// Everything that a decision needs.
#[derive(Debug)]
pub struct Observed {
    /// The component.
    pub component: DynamoComponentDeployment,
    /// Its uid: the mark of what is ours.
    pub uid: String,
    /// The Deployment of its name, whoever it belongs to.
    pub deployment: Option<Live<Deployment>>,
    /// The LeaderWorkerSet of its name, whoever it belongs to.
    pub leader_worker_set: Option<Live<LeaderWorkerSet>>,
    /// Whether LeaderWorkerSets can be made.
    pub serves_leader_worker_sets: bool,
    /// Its namespace.
    pub namespace: String,
    /// The Service of its name, whoever it belongs to.
    pub service: Option<Live<Service>>,
    /// The Ingress of that name, likewise.
    pub ingress: Option<Live<Ingress>>,
    /// The VirtualService of that name, likewise.
    pub virtual_service: Option<Live<VirtualService>>,
    /// Whether VirtualServices can be made.
    pub serves_virtual_services: bool,
    /// Who serves its base model; `None` if it serves none.
    pub model: Option<ModelFacts>,
    /// What is ours and needed no more.
    pub leftovers: Vec<Leftover>,
    /// Image pull secrets of the namespace by registry.
    pub pull_secrets: Arc<PullSecretIndex>,
    /// The image pull secrets that the author names.
    pub named_pull_secrets: NamedPullSecrets,
    /// ServiceAccounts of the namespace that are labelled for component pods, sorted by name.
    pub accounts: Vec<String>,
    /// What is known about its checkpoint.
    pub checkpoint: CheckpointFacts,
    /// What is known of it as a component of 2025.
    pub archive: ArchiveFacts,
    /// What it needs as a component of 2025. The component itself is an ordinary one then.
    pub expansion: Expansion,
}

/// Who serves a base model in a namespace.
#[derive(Debug, Default)]
pub struct ModelFacts {
    /// The model's Service, whoever it belongs to.
    pub service: Option<Live<Service>>,
    /// All components of the namespace that serve it, the oldest first.
    pub owners: Vec<OwnerReference>,
}

impl Observed {
    /// The live workload of the kind that the component needs, if it is ours.
    pub fn own_workload(&self) -> Option<LiveWorkload> {
        match WorkloadKind::of(&self.component) {
            WorkloadKind::LeaderWorkerSet => {
                let live = self.leader_worker_set.as_ref().map(|live| &live.object)?;
                self.is_ours(live).then(|| LiveWorkload::LeaderWorkerSet(Box::new(live.clone())))
            }
            WorkloadKind::Deployment => {
                let live = self.deployment.as_ref().map(|live| &live.object)?;
                self.is_ours(live).then(|| LiveWorkload::Deployment(Box::new(live.clone())))
            }
        }
    }

    fn is_ours<K: Resource>(&self, live: &K) -> bool {
        controller_owner(live).is_some_and(|owner| owner.uid == self.uid)
    }
}

/// A live object, typed for decisions and as JSON for comparisons.
#[derive(Debug)]
pub struct Live<K> {
    /// Typed.
    pub object: K,
    /// As the API server sent it.
    pub value: Value,
}

impl<K> Live<K>
where
    K: Resource + DeserializeOwned,
    K::DynamicType: Default,
{
    /// Reads a cached object.
    ///
    /// # Errors
    /// If it does not have the shape of its kind.
    pub fn of(packed: &Packed<K>) -> Result<Self, UnpackError> {
        Ok(Self { object: packed.unpack()?, value: packed.value() })
    }
}

/// The caches that decisions rest on.
pub struct Caches {
    /// Deployments.
    pub deployments: Store<Packed<Deployment>>,
    /// LeaderWorkerSets; `None` if they shall not be used.
    pub leader_worker_sets: Option<Store<Packed<LeaderWorkerSet>>>,
    /// Pod groups that older operators made.
    pub pod_groups: Option<Store<Packed<PodGroup>>>,
    /// Services.
    pub services: Store<Packed<Service>>,
    /// Ingresses of components.
    pub ingresses: Store<Packed<Ingress>>,
    /// VirtualServices of components.
    pub virtual_services: Store<Packed<VirtualService>>,
    /// Services of base models.
    pub model_services: Store<Packed<Service>>,
    /// All components.
    pub components: Store<Packed<DynamoComponentDeployment>>,
    /// Builds of images.
    pub builds: Store<Packed<DynamoComponent>>,
    /// ServiceAccounts that are labelled for component pods.
    pub accounts: Store<PartialObjectMeta<ServiceAccount>>,
}

/// The caches, and a client for what no cache holds.
pub struct Observer {
    client: Client,
    caches: Caches,
    /// `None` if none are looked for.
    secrets: Option<PullSecrets>,
    snapshots: Snapshots,
    forbidden: Forbidden,
    /// Kinds of exposure and uids of components that are known to own none of that kind outside the caches.
    unexposed: Mutex<HashSet<(String, String)>>,
}

impl Observer {
    /// Looks into these caches. No `secrets`: none are looked for by registry.
    pub fn new(client: Client, caches: Caches, secrets: Option<PullSecrets>, snapshots: Snapshots) -> Self {
        Self { client, caches, secrets, snapshots, forbidden: Forbidden::default(), unexposed: Mutex::default() }
    }

    /// The snapshot for one component.
    ///
    /// # Errors
    /// A cached child that cannot be read, or an API server that does not answer.
    pub async fn observe(&self, component: DynamoComponentDeployment) -> Result<Observed, Interruption> {
        let Key { namespace, name } = Key::of(&component);
        let uid = component.metadata.uid.clone().unwrap_or_default();
        let sets = self.caches.leader_worker_sets.as_ref();
        let set = sets.map(|sets| live(sets, &namespace, &names::leader_worker_set(&name))).transpose()?.flatten();
        let named_pull_secrets = self.named_pull_secrets(&namespace, &component).await?;
        Ok(Observed {
            deployment: live(&self.caches.deployments, &namespace, &name)?,
            leader_worker_set: set,
            serves_leader_worker_sets: sets.is_some_and(Store::is_served),
            service: live(&self.caches.services, &namespace, &names::service(&name))?,
            ingress: self.exposure(&self.caches.ingresses, &component).await?,
            virtual_service: self.exposure(&self.caches.virtual_services, &component).await?,
            serves_virtual_services: self.caches.virtual_services.is_served(),
            model: self.model(&namespace, &component)?,
            leftovers: self.leftovers(&component, &uid)?,
            uid,
            checkpoint: self.checkpoint(&namespace, &component)?,
            archive: self.archive(&namespace, &component).await?,
            expansion: Expansion::default(),
            component,
            pull_secrets: self.secrets.as_ref().map(|secrets| secrets.index(&namespace)).unwrap_or_default(),
            named_pull_secrets,
            accounts: self.accounts(&namespace),
            namespace,
        })
    }

    /// The object of this kind that exposes a component. Those of the upstream operator lack the label by which caches
    /// select: for a component with its finalizer, the API server is asked until it has answered that there is none.
    async fn exposure<K>(
        &self,
        store: &Store<Packed<K>>,
        component: &DynamoComponentDeployment,
    ) -> Result<Option<Live<K>>, Interruption>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let Key { namespace, name } = Key::of(component);
        let name = names::service(&name);
        let uid = component.uid().unwrap_or_default();
        let known = (K::kind(&()).into_owned(), uid.clone());
        let cached = live(store, &namespace, &name)?;
        let is_taken_over = component.finalizers().iter().any(|finalizer| finalizer == LEGACY_FINALIZER);
        if cached.is_some() || !is_taken_over || !store.is_served() || self.unexposed().contains(&known) {
            return Ok(cached);
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let what = || format!("look for {} {namespace}/{name}", K::kind(&()));
        let found = find(&name, what, api.get_opt(&name)).await?;
        if let Some(object) = found
            && controller_owner(&object).is_some_and(|owner| owner.uid == uid)
        {
            let value = serde_json::to_value(&object).unwrap_or_default();
            return Ok(Some(Live { object, value }));
        }
        let components = &self.caches.components;
        let uids: HashSet<_> = components.all().iter().filter_map(|component| component.metadata.uid.clone()).collect();
        let mut unexposed = self.unexposed();
        unexposed.retain(|(_, uid)| uids.contains(uid));
        unexposed.insert(known);
        Ok(None)
    }

    fn unexposed(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.unexposed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn model(&self, namespace: &str, component: &DynamoComponentDeployment) -> Result<Option<ModelFacts>, UnpackError> {
        let Some(model) = component.spec.component.model_ref.as_ref().map(|model| model.name.as_str()) else {
            return Ok(None);
        };
        let service = live(&self.caches.model_services, namespace, &names::model_service(model))?;
        let serving = components_of_model(&self.caches.components, namespace, &names::base_model_hash(model));
        let mut serving: Vec<_> =
            serving.into_iter().filter(|component| component.metadata.deletion_timestamp.is_none()).collect();
        serving.sort_by_key(|c| (c.metadata.creation_timestamp.clone(), c.metadata.uid.clone()));
        let owners = serving.iter().filter_map(|component| component.owner_ref(&())).collect();
        Ok(Some(ModelFacts { service, owners }))
    }

    fn checkpoint(
        &self,
        namespace: &str,
        component: &DynamoComponentDeployment,
    ) -> Result<CheckpointFacts, UnpackError> {
        let experimental = component.spec.component.experimental.as_ref();
        let usage = experimental.and_then(|experimental| experimental.checkpoint.as_ref());
        let Some(usage) = usage.filter(|usage| usage.enabled) else { return Ok(CheckpointFacts::default()) };
        let named = usage.checkpoint_ref.as_deref().filter(|name| !name.is_empty());
        let live = match (named, &usage.identity) {
            (Some(name), _) => self.snapshots.checkpoint(namespace, name)?,
            (None, Some(identity)) => {
                let all = self.snapshots.with_id(namespace, &identity_id(identity));
                all.into_iter().min_by_key(|found| found.metadata.name.clone())
            }
            (None, None) => None,
        };
        Ok(CheckpointFacts {
            namespace: namespace.to_owned(),
            settings: self.snapshots.settings.clone(),
            live,
            place: self.snapshots.place(namespace),
        })
    }

    /// Only components of 2025 cost something.
    async fn archive(
        &self,
        namespace: &str,
        component: &DynamoComponentDeployment,
    ) -> Result<ArchiveFacts, Interruption> {
        let Some(said) = PreservedService::of_component_deployment(component.annotations()) else {
            return Ok(ArchiveFacts::default());
        };
        let name = said.source.as_deref().map(names::dynamo_component);
        let build = name.and_then(|name| self.caches.builds.get(&Key::new(namespace, &name)));
        let claim_exists = match claim_name(component, &said) {
            Some(name) => {
                let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
                let what = || format!("look for PersistentVolumeClaim {namespace}/{name}");
                find(&name, what, api.get_metadata_opt(&name)).await?.is_some()
            }
            None => false,
        };
        Ok(ArchiveFacts { said, build: build.map(|build| build.unpack()).transpose()?, claim_exists })
    }

    /// Workloads of the kind that the component no longer needs, and what older operators made for each replica.
    fn leftovers(&self, component: &DynamoComponentDeployment, uid: &str) -> Result<Vec<Leftover>, UnpackError> {
        let mut all = Vec::new();
        let name = component.metadata.name.as_deref().unwrap_or_default();
        let set = names::leader_worker_set(name);
        let is_set = WorkloadKind::of(component) == WorkloadKind::LeaderWorkerSet;
        if is_set {
            for packed in others(&self.caches.deployments, uid, None) {
                all.push(Leftover::Deployment(Box::new(packed.unpack()?)));
            }
        }
        for packed in self.caches.leader_worker_sets.iter().flat_map(|sets| others(sets, uid, is_set.then_some(&set))) {
            all.push(Leftover::LeaderWorkerSet(Box::new(packed.unpack()?)));
        }
        for packed in self.caches.pod_groups.iter().flat_map(|groups| others(groups, uid, None)) {
            all.push(Leftover::PodGroup(Box::new(packed.unpack()?)));
        }
        Ok(all)
    }

    /// Asks the API server only for what nothing else tells, and only whether it exists.
    async fn named_pull_secrets(
        &self,
        namespace: &str,
        component: &DynamoComponentDeployment,
    ) -> Result<NamedPullSecrets, Interruption> {
        let mut missing = Vec::new();
        for name in pull_secrets::unknown(component, self.secrets.as_ref()) {
            if !self.secret_exists(namespace, name).await? {
                missing.push(name.to_owned());
            }
        }
        Ok(NamedPullSecrets { any: !pull_secrets::named(component).is_empty(), missing })
    }

    /// Without the right to look, a Secret counts as there: nobody shall be told of a lack that cannot be seen.
    async fn secret_exists(&self, namespace: &str, name: &str) -> Result<bool, Interruption> {
        if self.forbidden.is_marked(namespace, Instant::now()) {
            return Ok(true);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match find(name, || format!("look for Secret {namespace}/{name}"), api.get_metadata_opt(name)).await {
            Err(error) if error.error_type() == ErrorType::Forbidden => {
                self.forbidden.mark(namespace, Instant::now());
                warn!(namespace, "no right to read Secrets: missing image pull secrets are not reported");
                Ok(true)
            }
            answer => Ok(answer?.is_some()),
        }
    }

    fn accounts(&self, namespace: &str) -> Vec<String> {
        let all = self.caches.accounts.all();
        let here = all.iter().filter(|account| account.metadata.namespace.as_deref() == Some(namespace));
        let mut names: Vec<String> = here.filter_map(|account| account.metadata.name.clone()).collect();
        names.sort_unstable();
        names
    }
}

/// The components of a namespace that serve the base model of this hash.
pub fn components_of_model(
    components: &Store<Packed<DynamoComponentDeployment>>,
    namespace: &str,
    hash: &str,
) -> Vec<Arc<Packed<DynamoComponentDeployment>>> {
    let mut all = components.all();
    all.retain(|component| {
        let serves = |spec: Value| {
            let model = spec.pointer("/spec/modelRef/name").and_then(Value::as_str).filter(|name| !name.is_empty());
            model.is_some_and(|model| names::base_model_hash(model) == hash)
        };
        component.metadata.namespace.as_deref() == Some(namespace) && serves(component.value())
    });
    all
}

/// The live object of that name.
fn live<K>(store: &Store<Packed<K>>, namespace: &str, name: &str) -> Result<Option<Live<K>>, UnpackError>
where
    K: Resource + DeserializeOwned,
    K::DynamicType: Default,
{
    store.get(&Key::new(namespace, name)).as_deref().map(Live::of).transpose()
}
