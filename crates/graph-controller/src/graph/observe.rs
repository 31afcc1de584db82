//! Everything a decision needs, read from the caches in one go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use api_types::{annotations, labels};
use controller_kit::apply::APPLIED_ANNOTATION;
use controller_kit::store::{Key, Packed, Store, UnpackError, controller_owner};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;
use kube::core::PartialObjectMeta;

/// The caches of this controller.
#[derive(Clone)]
pub struct Caches {
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Components of all graphs.
    pub components: Store<Packed<DynamoComponentDeployment>>,
    /// Discovery accounts.
    pub accounts: Store<Packed<ServiceAccount>>,
    /// Their roles.
    pub roles: Store<Packed<Role>>,
    /// Their role bindings.
    pub bindings: Store<Packed<RoleBinding>>,
    /// Worker pods that have not ended, metadata only.
    pub worker_pods: Store<PartialObjectMeta<Pod>>,
}

/// One graph and all that is live of it, at one moment.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The graph.
    pub graph: DynamoGraphDeployment,
    /// Its components: those it owns, and orphans of the same graph name that it may adopt.
    pub components: Vec<DynamoComponentDeployment>,
    /// Worker pods that have not ended, by the name of their DynamoComponentDeployment.
    pub running_pods: BTreeMap<String, usize>,
}

impl Observed {
    /// The components that are not on their way out.
    pub fn present(&self) -> impl Iterator<Item = &DynamoComponentDeployment> {
        self.components.iter().filter(|d| d.metadata.deletion_timestamp.is_none())
    }

    /// Whether the graph is the controller of a live component.
    pub fn owns(&self, d: &DynamoComponentDeployment) -> bool {
        controller_owner(d).is_some_and(|owner| Some(&owner.uid) == self.graph.metadata.uid.as_ref())
    }
}

/// Annotations of which at least one is on everything that an operator made, ours or the Go operator.
pub const MARKS: [&str; 2] = [APPLIED_ANNOTATION, annotations::LAST_APPLIED_HASH];

/// Reads a graph and its children.
///
/// # Errors
/// If the graph, or a component that it owns, has a form that this version does not know. Deciding without it could start
/// its workers a second time.
pub fn observe(caches: &Caches, graph: &Packed<DynamoGraphDeployment>) -> Result<Observed, UnpackError> {
    let typed = graph.unpack()?;
    let owned = caches.components.children_of(&graph.uid().unwrap_or_default());
    let mut components = owned.iter().map(|d| d.unpack()).collect::<Result<Vec<_>, _>>()?;
    components.extend(orphans(caches, graph).iter().filter_map(|d| d.unpack().ok()));
    // Pods are only asked about while generations change.
    let workers = components.iter().filter(|d| d.spec.component.is_worker());
    let generations: BTreeSet<_> = workers.map(|d| d.labels().get(labels::WORKER_HASH)).collect();
    let running_pods = if generations.len() > 1 { running_pods(caches, graph) } else { BTreeMap::new() };
    Ok(Observed { graph: typed, components, running_pods })
}

/// Components that an earlier graph of this name left behind (`--cascade=orphan`).
fn orphans(caches: &Caches, graph: &Packed<DynamoGraphDeployment>) -> Vec<Arc<Packed<DynamoComponentDeployment>>> {
    let name = graph.name_any();
    let is_orphan = |d: &Packed<DynamoComponentDeployment>| {
        controller_owner(d).is_none()
            && d.namespace() == graph.namespace()
            && d.labels().get(labels::GRAPH) == Some(&name)
            && MARKS.iter().any(|mark| d.annotations().contains_key(*mark))
    };
    caches.components.all().into_iter().filter(|d| is_orphan(d)).collect()
}

/// Pods count as long as they exist and have not ended, terminating ones included: they still hold their GPUs.
fn running_pods(caches: &Caches, graph: &Packed<DynamoGraphDeployment>) -> BTreeMap<String, usize> {
    let (namespace, name) = (graph.namespace(), graph.name_any());
    let mut running = BTreeMap::new();
    for pod in caches.worker_pods.all() {
        let labels = pod.labels();
        if pod.namespace() == namespace
            && labels.get(labels::GRAPH) == Some(&name)
            && let Some(selector) = labels.get(labels::SELECTOR)
        {
            *running.entry(selector.clone()).or_default() += 1;
        }
    }
    running
}

/// The live object of a wanted one, as the apply engine compares it.
pub fn live_value<K>(store: &Store<Packed<K>>, namespace: &str, name: &str) -> Option<serde_json::Value>
where
    K: kube::Resource,
    K::DynamicType: Default,
{
    store.get(&Key::new(namespace, name)).map(|packed| packed.value())
}
