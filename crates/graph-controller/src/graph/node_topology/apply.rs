//! Reads nodes and topologies and sets topology labels on pods.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use api_types::{labels, v1beta1::DynamoGraphDeployment};
use controller_kit::{
    apply::{MetadataPatch, RequestError},
    controller::Outputs,
    events::Event,
    failure::Class,
    store::{Key, Store},
    sync::locked,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Resource, ResourceExt, core::PartialObjectMeta};
use serde_json::Value;
use tracing::{debug, info};

use super::{
    LabelCopy, levels,
    lookup::{PodTopology, TopologyLookup, TopologyMemory},
};
use crate::graph::{
    apply::bounded,
    model::LabelingResult,
    observe::{
        grove::topology_bindings,
        read::{get, unless_forbidden},
    },
};

/// Reason of the event on a pod whose node lacks a label.
const MISSING: &str = "TopologyLabelMissing";

/// Retry interval for a cluster topology or node that does not exist.
const ABSENT_RETRY: Duration = Duration::from_secs(15);

/// Sets topology labels on worker pods.
#[derive(Clone)]
pub struct TopologyLabeler {
    outputs: Outputs,
    pods: Store<PartialObjectMeta<Pod>>,
    memory: Arc<Mutex<TopologyMemory>>,
}

impl TopologyLabeler {
    /// `pods`: those of workers that have not ended.
    pub fn new(outputs: &Outputs, pods: Store<PartialObjectMeta<Pod>>) -> Self {
        Self { outputs: outputs.clone(), pods, memory: Arc::default() }
    }

    /// Labels the pods of a graph, if it has a KV-transfer policy.
    pub async fn label(&self, graph: &DynamoGraphDeployment) -> LabelingResult {
        let mut labeled = LabelingResult::default();
        if graph.spec.kv_transfer_policy().is_none() {
            return labeled;
        }
        let (key, uid, now) = (Key::of(graph), graph.uid().unwrap_or_default(), Instant::now());
        let here = self.pods.in_namespace(&key.namespace).into_iter();
        let pods: Vec<_> = here.filter(|pod| pod.labels().get(labels::GRAPH) == Some(&key.name)).collect();
        let mut lookup = TopologyLookup::at(pods.iter().map(|pod| &pod.metadata), &locked(&self.memory), now);
        let needed = lookup.topologies();
        let read = bounded(needed.iter().map(|name| self.levels(name)).collect()).await;
        let levels: BTreeMap<String, Vec<LabelCopy>> = labeled.collect(read).into_iter().flatten().collect();
        if levels.len() < needed.len() {
            // It may be created at any time and is not watched.
            labeled.retry_after(ABSENT_RETRY);
        }
        lookup.resolve_levels(&levels, &mut locked(&self.memory));
        let unplaced = lookup.unplaced();
        let read = bounded(unplaced.iter().map(|pod| self.node_of(&key.namespace, pod)).collect()).await;
        let placed = labeled.collect(read).into_iter().collect();
        lookup.resolve_nodes(&placed, &mut locked(&self.memory));
        let needed = lookup.nodes();
        let read = bounded(needed.iter().map(|node| self.node(node)).collect()).await;
        let nodes: BTreeMap<String, NodeLabels> = labeled.collect(read).into_iter().flatten().collect();
        if nodes.len() < needed.len() {
            labeled.retry_after(ABSENT_RETRY);
        }
        let known = nodes.iter().map(|(name, labels)| (name.clone(), labels.clone().unwrap_or_default())).collect();
        let topologies = lookup.resolve_labels(&known);
        let writes = topologies.iter().map(|pod| self.set_labels(pod, nodes.get(&pod.node), &uid, now)).collect();
        labeled.collect(bounded(writes).await);
        let due = locked(&self.memory).due(pods.iter().map(|pod| &pod.metadata), now);
        if let Some(after) = due {
            labeled.retry_after(after);
        }
        self.evict_deleted();
        labeled
    }

    async fn set_labels(
        &self,
        topology: &PodTopology<'_>,
        node: Option<&NodeLabels>,
        parent: &str,
        now: Instant,
    ) -> Result<(), RequestError> {
        let pod = PartialObjectMeta::<Pod> { metadata: topology.pod.clone(), ..PartialObjectMeta::default() };
        if !topology.missing.is_empty() {
            let note = if let Some(Err(why)) = node {
                format!("the labels of node {} cannot be read: {why}", topology.node)
            } else {
                note_on(topology)
            };
            let event = Event::warning(MISSING, "Update", note);
            self.outputs.events.publish_once(&pod.object_ref(&()), event, &topology.node);
        }
        let none = MetadataPatch::default();
        let patch = topology.found.iter().fold(none, |patch, (key, value)| patch.label(key, Some(value)));
        if self.outputs.applier.patch_metadata(&pod, parent, &patch).await? {
            info!(pod = %pod.name_any(), node = topology.node, labels = topology.found.len(), "set topology labels");
        }
        locked(&self.memory).settle(topology, now);
        Ok(())
    }

    /// The levels of a cluster topology; `None` if it does not exist or must not be read, which the graph's status
    /// says.
    async fn levels(&self, topology: &str) -> Result<Option<(String, Vec<LabelCopy>)>, RequestError> {
        let binding = get(&self.outputs.applier, &topology_bindings(), topology).await;
        let binding = unless_forbidden(binding)?.flatten();
        if binding.is_none() {
            debug!(topology, "cluster topology not found or not readable");
        }
        Ok(binding.map(|binding| (topology.to_owned(), levels(&binding))))
    }

    /// The node of a pod, from its spec, which no cache holds.
    async fn node_of(&self, namespace: &str, pod: &str) -> Result<(String, Option<String>), RequestError> {
        let live = self.outputs.applier.find::<Pod>(namespace, pod).await?;
        let node = live.as_ref().and_then(|live| live.pointer("/spec/nodeName")?.as_str());
        Ok((pod.to_owned(), node.filter(|name| !name.is_empty()).map(str::to_owned)))
    }

    /// The labels of a node; `None` if it does not exist.
    async fn node(&self, name: &str) -> Result<Option<(String, NodeLabels)>, RequestError> {
        let labels = match self.outputs.applier.find::<Node>("", name).await {
            Ok(None) => return Ok(None),
            Ok(Some(node)) => Ok(labels_of(&node)),
            Err(error) if error.class() == Class::Forbidden => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        Ok(Some((name.to_owned(), labels)))
    }

    fn evict_deleted(&self) {
        if locked(&self.memory).exceeds(self.pods.len()) {
            let live = self.pods.uids();
            locked(&self.memory).keep(|uid| live.contains(uid));
        }
    }
}

/// Labels of a node, or the reason why it must not be read.
type NodeLabels = Result<BTreeMap<String, String>, String>;

fn note_on(topology: &PodTopology<'_>) -> String {
    let list = |each: Vec<&str>| each.join(", ");
    let from = list(topology.missing.iter().map(|copy| copy.from.as_str()).collect());
    let to = list(topology.missing.iter().map(|copy| copy.to.as_str()).collect());
    format!("node {} has no label {from}; {to} stays unknown to the pod", topology.node)
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
