//! What is live of a graph on Grove.

use std::{collections::BTreeMap, sync::Arc};

use api_types::{
    conditions,
    conversion::preserved::unknown_types_of_graph,
    grove::{self, PodClique, PodCliqueScalingGroup, PodCliqueSet},
    labels,
    v1beta1::{ComponentType, DynamoGraphDeployment, MAIN_CONTAINER},
};
use controller_kit::{
    apply::{Applier, Error, ObjectId},
    claims::claimed_gpus,
    failure::Class,
    pull_secrets::PullSecrets,
    store::{Packed, Store, UnpackError, controller_owner},
};
use kube::{
    ResourceExt,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use workload::PullSecretIndex;

use super::{MARKS, Observed};
use crate::graph::{
    program::Program,
    settings::Settings,
    validate::{Kstatus, Refusal, ValidGraph},
};

/// The kind of the KAI scheduler's queues.
pub fn kai_queues() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.run.ai", "v2", "Queue"))
}

/// The kind of the Volcano scheduler's gangs.
pub fn volcano_groups() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup"))
}

/// The kind of cluster topologies.
pub fn topology_bindings() -> ApiResource {
    let (group, version) = grove::API_VERSION.split_once('/').unwrap_or_default();
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "ClusterTopologyBinding"))
}

/// Caches of what Grove serves; empty while it does not.
#[derive(Clone)]
pub struct GroveCaches {
    /// PodCliqueSets of graphs.
    pub sets: Store<Packed<PodCliqueSet>>,
    /// Cliques of graphs.
    pub cliques: Store<Packed<PodClique>>,
    /// All scaling groups; they carry no label of a graph.
    pub groups: Store<Packed<PodCliqueScalingGroup>>,
    /// Image pull secrets; none if they are not looked for.
    pub pull_secrets: Option<PullSecrets>,
}

/// What is live of a graph on Grove, at one moment.
#[derive(Clone, Debug, Default)]
pub struct LiveGrove {
    /// The graph's PodCliqueSets: those it owns, and orphans of its name that it may adopt. There should be one at most.
    pub sets: Vec<PodCliqueSet>,
    /// Cliques that Grove made for components that are one clique.
    pub cliques: Vec<PodClique>,
    /// Groups that Grove made for components that are several.
    pub groups: Vec<PodCliqueScalingGroup>,
    /// Worker pods that have not ended, by component; counted where a component has no desired replicas.
    pub running_pods: BTreeMap<String, usize>,
    /// Types of components that no version of the API knows, by component: v1alpha1 took any text.
    pub unknown_types: BTreeMap<String, String>,
    /// Image pull secrets of the namespace by registry.
    pub pull_secrets: Arc<PullSecretIndex>,
    /// The queue of the KAI scheduler that the graph shall wait in, if it does not exist.
    pub missing_queue: Option<String>,
    /// Domains of the cluster topology that the graph's policy for key-value caches names; none if there is none such.
    pub topology_domains: Option<Vec<String>>,
}

impl LiveGrove {
    /// The PodCliqueSet that runs the graph.
    pub fn set(&self) -> Option<&PodCliqueSet> {
        self.sets.iter().find(|set| set.metadata.deletion_timestamp.is_none())
    }
}

/// Types in a stored graph that have no meaning, by component. Our conversion keeps them aside, the Go operator's where they
/// were.
pub fn unknown_types(stored: &Value, annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let components = stored.pointer("/spec/components").and_then(Value::as_array).into_iter().flatten();
    let text = |component: &Value, field: &str| component[field].as_str().map(str::to_owned);
    let given = components.filter_map(|component| Some((text(component, "name")?, text(component, "type")?)));
    let unknown = given.filter(|(_, type_)| !type_.is_empty() && ComponentType::named(type_).is_none());
    unknown_types_of_graph(annotations).into_iter().chain(unknown).collect()
}

/// Reads what is live of a graph.
///
/// # Errors
/// If a PodCliqueSet of the graph has a form that this version does not know.
pub(super) fn observe(caches: &GroveCaches, graph: &DynamoGraphDeployment) -> Result<LiveGrove, UnpackError> {
    let (name, namespace) = (graph.name_any(), graph.namespace());
    let owned = caches.sets.children_of(&graph.uid().unwrap_or_default());
    let mut sets = owned.iter().map(|set| set.unpack()).collect::<Result<Vec<_>, _>>()?;
    let is_orphan = |set: &Packed<PodCliqueSet>| {
        controller_owner(set).is_none()
            && set.namespace() == namespace
            && set.labels().get(labels::GRAPH) == Some(&name)
            && MARKS.iter().any(|mark| set.annotations().contains_key(*mark))
    };
    let orphans = caches.sets.all().into_iter().filter(|set| is_orphan(set));
    sets.extend(orphans.filter_map(|set| set.unpack().ok()));

    let (mut cliques, mut groups) = (Vec::new(), Vec::new());
    for set in &sets {
        let uid = set.uid().unwrap_or_default();
        // What Grove writes in a form that we do not know is as good as not there yet.
        cliques.extend(caches.cliques.children_of(&uid).iter().filter_map(|clique| clique.unpack().ok()));
        groups.extend(caches.groups.children_of(&uid).iter().filter_map(|group| group.unpack().ok()));
    }
    let secrets = caches.pull_secrets.as_ref();
    let pull_secrets = secrets.map(|secrets| secrets.index(namespace.as_deref().unwrap_or_default()));
    Ok(LiveGrove { sets, cliques, groups, pull_secrets: pull_secrets.unwrap_or_default(), ..LiveGrove::default() })
}

/// Looks for what no cache holds, once it is known that Grove runs the graph: the queue that a new graph shall wait in, and
/// the topology that it names.
///
/// # Errors
/// The API server does not answer.
pub async fn look_further(applier: &Applier, settings: &Settings, observed: &mut Observed) -> Result<(), Error> {
    let live = observed.grove.set();
    if let Some(set) = live.filter(|_| settings.grove.kai.is_none()) {
        // Nobody has decided on a scheduler: pods are not replaced because another one has come, or is gone.
        observed.served.kai = is_kai(set);
    }
    let known_domains = live.and_then(domains_in);
    let scheduler = settings.grove.rendering(observed.served.kai).scheduler;
    if let Some(queue) = scheduler.kai_queue(observed.graph.annotations()).map(str::to_owned)
        && observed.served.grove
        && !waits_in(&observed.grove, &queue)
        && !exists(applier, &queue).await?
    {
        observed.grove.missing_queue = Some(queue);
    }
    let experimental = observed.graph.spec.experimental.as_ref();
    let policy = experimental.and_then(|experimental| experimental.kv_transfer_policy.as_ref());
    if let Some((topology, domain)) = policy.and_then(|p| Some((p.cluster_topology_name.clone()?, p.domain.clone()))) {
        observed.grove.topology_domains = match get(applier, &topology_bindings(), &topology).await {
            Ok(found) => found.map(|binding| domains(&binding)),
            // An install for one namespace may not look. What pods know already stays; of a new graph, the domain that it names is
            // taken for the only one. The status says what is missing.
            Err(error) if error.class() == Class::Forbidden => {
                observed.served.topology_hidden = true;
                Some(known_domains.filter(|known| known.contains(&domain)).unwrap_or_else(|| vec![domain]))
            }
            Err(error) => return Err(error),
        };
    }
    Ok(())
}

/// Counts the GPUs that engines have through claims, where their command lines depend on it. What cannot be counted is an
/// obstacle: nodes that were not told of each other would each start alone.
///
/// # Errors
/// The API server does not answer.
pub async fn count_gpus(applier: &Applier, graph: &mut ValidGraph<'_>) -> Result<(), Error> {
    if graph.program != Program::Grove {
        return Ok(());
    }
    let mut uncountable = Vec::new();
    for (&component, claims) in &graph.gpu_claims {
        match claimed_gpus(applier, &graph.namespace, claims).await? {
            Ok(count) => drop(graph.claimed_gpus.insert(component, count)),
            Err(why) => uncountable.push(format!(
                "spec.components[{component}]: the GPUs of container {MAIN_CONTAINER} cannot be counted: {why}"
            )),
        }
    }
    if !uncountable.is_empty() && graph.obstacle.is_none() {
        graph.obstacle = Some(Refusal {
            ready_reason: conditions::graph::SOME_NOT_READY,
            kstatus: Kstatus::Reconciling(conditions::graph::GPUS_UNKNOWN),
            message: uncountable.join("; "),
        });
    }
    Ok(())
}

/// Whether pods of the graph wait in that queue already. Then it has been looked for.
fn waits_in(live: &LiveGrove, queue: &str) -> bool {
    let cliques = live.set().into_iter().flat_map(|set| &set.spec.template.cliques);
    let queues: Vec<_> = cliques.filter_map(|clique| clique.labels.get(labels::KAI_QUEUE)).collect();
    !queues.is_empty() && queues.iter().all(|found| *found == queue)
}

/// Whether the KAI scheduler was asked to place the pods.
fn is_kai(set: &PodCliqueSet) -> bool {
    set.spec.template.cliques.iter().any(|clique| clique.labels.contains_key(labels::KAI_QUEUE))
}

/// The domains of the topology that pods know.
fn domains_in(set: &PodCliqueSet) -> Option<Vec<String>> {
    set.spec.template.cliques.iter().find_map(|clique| workload::topology_domains(&clique.spec.pod_spec))
}

/// Whether a queue exists. An install for one namespace may not look; then it counts as there, and pods that wait for ever
/// tell of it.
async fn exists(applier: &Applier, queue: &str) -> Result<bool, Error> {
    match get(applier, &kai_queues(), queue).await {
        Ok(found) => Ok(found.is_some()),
        Err(error) if error.class() == Class::Forbidden => Ok(true),
        Err(error) => Err(error),
    }
}

/// A cluster-scoped object.
pub async fn get(applier: &Applier, resource: &ApiResource, name: &str) -> Result<Option<Value>, Error> {
    applier.get(resource, &ObjectId::new(resource, "", name)).await
}

/// The domains of a cluster topology, the widest first.
fn domains(binding: &Value) -> Vec<String> {
    let levels = binding.pointer("/spec/levels").and_then(Value::as_array).into_iter().flatten();
    levels.filter_map(|level| level["domain"].as_str()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use api_types::grove::PodCliqueTemplate;
    use serde_json::json;

    use super::*;

    /// Pods are not replaced because a scheduler was installed, or because the right to read a topology has gone.
    #[test]
    fn the_scheduler_and_the_domains_of_live_pods_are_read_from_them() {
        let set = |clique: Value| -> PodCliqueSet {
            let template = json!({ "cliques": [{ "name": "frontend", "spec": { "roleName": "frontend", "replicas": 1,
                "podSpec": { "containers": [] } } }, clique] });
            serde_json::from_value(json!({ "metadata": {}, "spec": { "replicas": 1, "template": template } })).unwrap()
        };
        let clique = |labels: Value, volumes: Value| {
            json!({ "name": "decode", "labels": labels, "spec": { "roleName": "decode", "replicas": 1,
                "podSpec": { "containers": [], "volumes": volumes } } })
        };
        let files = json!([{ "path": "zone" }, { "path": "rack" }]);
        let told = json!([{ "name": "topology-labels", "downwardAPI": { "items": files } }]);
        let on_kai = set(clique(json!({ labels::KAI_QUEUE: "team" }), told));
        assert!(is_kai(&on_kai));
        assert_eq!(domains_in(&on_kai).unwrap(), ["zone", "rack"]);
        let plain = set(clique(json!({}), json!([])));
        assert!(!is_kai(&plain));
        assert_eq!(domains_in(&plain), None);
    }

    /// Reference: it is looked for at every step.
    #[test]
    fn a_queue_in_which_a_graph_waits_already_is_not_looked_for_again() {
        let live = |queues: &[Option<&str>]| {
            let clique = |queue: &Option<&str>| PodCliqueTemplate {
                labels: queue.iter().map(|queue| (labels::KAI_QUEUE.to_owned(), (*queue).to_owned())).collect(),
                ..PodCliqueTemplate::default()
            };
            let mut set: PodCliqueSet = serde_json::from_value(json!({ "metadata": {}, "spec": {} })).unwrap();
            set.spec.template.cliques = queues.iter().map(clique).collect();
            LiveGrove { sets: vec![set], ..LiveGrove::default() }
        };
        assert!(waits_in(&live(&[Some("team"), Some("team")]), "team"));
        assert!(!waits_in(&live(&[Some("team"), Some("other")]), "team"), "it is to move");
        assert!(!waits_in(&live(&[None]), "team"), "it waited in none");
        assert!(!waits_in(&LiveGrove::default(), "team"), "it is new");
    }
}
