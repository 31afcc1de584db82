//! Everything a decision needs, read from the caches in one go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::labels;
use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
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
    /// Whether the graph is the controller of a live component.
    pub fn owns(&self, d: &DynamoComponentDeployment) -> bool {
        controller_owner(d).is_some_and(|owner| Some(&owner.uid) == self.graph.metadata.uid.as_ref())
    }
}

/// Reads a graph and its children.
///
/// # Errors
/// If the graph itself has a form that its type does not know. A component that cannot be read is left out: it can only
/// be one that nobody wants, for ours are written from the same types.
pub fn observe(caches: &Caches, graph: &Packed<DynamoGraphDeployment>) -> Result<Observed, UnpackError> {
    let typed = graph.unpack()?;
    let mut components = Vec::new();
    for packed in live_components(caches, graph) {
        match packed.unpack() {
            Ok(component) => components.push(component),
            Err(error) => tracing::warn!(%error, "ignoring a component"),
        }
    }
    // Pods are only asked about while generations change.
    let generations: BTreeSet<_> = components.iter().map(|d| d.labels().get(labels::WORKER_HASH)).collect();
    let running_pods = if generations.len() > 1 { running_pods(caches, graph) } else { BTreeMap::new() };
    Ok(Observed { graph: typed, components, running_pods })
}

fn live_components(
    caches: &Caches,
    graph: &Packed<DynamoGraphDeployment>,
) -> Vec<Arc<Packed<DynamoComponentDeployment>>> {
    let mut live = caches.components.children_of(&graph.uid().unwrap_or_default());
    let name = graph.name_any();
    let is_orphan = |d: &Packed<DynamoComponentDeployment>| {
        d.namespace() == graph.namespace()
            && d.labels().get(labels::GRAPH) == Some(&name)
            && controller_owner(d).is_none()
    };
    live.extend(caches.components.all().into_iter().filter(|d| is_orphan(d)));
    live
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
