//! Copies labels of nodes to pods that ask for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use api_types::{labels, v1beta1::DynamoGraphDeployment};
use controller_kit::{
    apply::{Applier, Error, MetadataPatch},
    events::{Event, EventSink, EventType},
    failure::Class,
    store::{Key, Store},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Resource, ResourceExt, core::PartialObjectMeta};
use serde_json::Value;
use tracing::{debug, info};

use super::tally::bounded;
use crate::graph::{
    decide::{
        topology::{Level, levels},
        whereabouts::{Finding, Look, Memory},
    },
    observe::grove::{get, topology_bindings},
};

/// Reason of the event on a pod whose node does not say where it is.
const MISSING: &str = "TopologyLabelMissing";

/// After how long a cluster topology or a node is looked for again that was not there.
const ABSENT_RETRY: Duration = Duration::from_secs(15);

/// Copies labels of nodes to pods.
#[derive(Clone)]
pub struct Labeller {
    applier: Applier,
    events: EventSink,
    pods: Store<PartialObjectMeta<Pod>>,
    memory: Arc<Mutex<Memory>>,
}

/// A graph whose workers shall know where they are.
#[derive(Debug)]
pub struct Curious {
    graph: Key,
    uid: String,
}

impl Curious {
    /// The graph, if its workers shall know where they are.
    pub fn of(graph: &DynamoGraphDeployment) -> Option<Self> {
        graph.spec.experimental.as_ref()?.kv_transfer_policy.as_ref()?;
        Some(Self { graph: Key::of(graph), uid: graph.uid().unwrap_or_default() })
    }
}

/// What has come of a look at the pods of a graph.
#[derive(Debug, Default)]
pub struct Labelled {
    /// When they are to be looked at again because of something that no watch shows.
    pub again: Option<Duration>,
    /// The first step that failed. It did not hold up the pods that it does not concern.
    pub failed: Option<Error>,
}

impl Labelled {
    /// They are to be looked at again after this long, or sooner.
    fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |sooner| sooner.min(after)));
    }

    /// The answers that there are.
    fn sort<T>(&mut self, answers: Vec<Result<T, Error>>) -> Vec<T> {
        let mut good = Vec::new();
        for answer in answers {
            match answer {
                Ok(answer) => good.push(answer),
                Err(error) => self.failed = self.failed.take().or(Some(error)),
            }
        }
        good
    }
}

impl Labeller {
    /// Works on these pods, which are those of workers that have not ended.
    pub fn new(applier: Applier, events: EventSink, pods: Store<PartialObjectMeta<Pod>>) -> Self {
        Self { applier, events, pods, memory: Arc::default() }
    }

    /// Labels the pods of a graph.
    pub async fn label(&self, curious: &Curious) -> Labelled {
        let now = Instant::now();
        let pods: Vec<_> = self.pods.all().into_iter().filter(|pod| is_of(pod, &curious.graph)).collect();
        let mut look = Look::at(pods.iter().map(|pod| &pod.metadata), &self.memory(), now);
        let mut labelled = Labelled::default();
        let asked = look.topologies();
        let read = bounded(asked.iter().map(|name| self.levels(name)).collect()).await;
        let levels: BTreeMap<String, Vec<Level>> = labelled.sort(read).into_iter().flatten().collect();
        if levels.len() < asked.len() {
            // It may be made any time, and nobody watches for it.
            labelled.look_again(ABSENT_RETRY);
        }
        look.know_levels(&levels, &mut self.memory());
        let unplaced = look.unplaced();
        let read = bounded(unplaced.iter().map(|pod| self.place(&curious.graph.namespace, pod)).collect()).await;
        let places = labelled.sort(read).into_iter().collect();
        look.know_places(&places, &mut self.memory());
        let asked = look.nodes();
        let read = bounded(asked.iter().map(|node| self.node(node)).collect()).await;
        let nodes: BTreeMap<String, NodeLabels> = labelled.sort(read).into_iter().flatten().collect();
        if nodes.len() < asked.len() {
            labelled.look_again(ABSENT_RETRY);
        }
        let known = nodes.iter().map(|(name, node)| (name.clone(), node.labels.clone())).collect();
        let told = look.findings(&known);
        let told = told.iter().map(|finding| self.tell(finding, nodes.get(&finding.node), &curious.uid, now)).collect();
        labelled.sort(bounded(told).await);
        let due = self.memory().due(pods.iter().map(|pod| &pod.metadata), now);
        if let Some(after) = due {
            labelled.look_again(after);
        }
        self.forget_the_gone();
        labelled
    }

    async fn tell(
        &self,
        finding: &Finding<'_>,
        node: Option<&NodeLabels>,
        parent: &str,
        now: Instant,
    ) -> Result<(), Error> {
        let pod = PartialObjectMeta::<Pod> { metadata: finding.pod.clone(), ..PartialObjectMeta::default() };
        if !finding.missing.is_empty() {
            let note = match node.and_then(|node| node.hidden.as_ref()) {
                Some(why) => format!("the labels of node {} cannot be read: {why}", finding.node),
                None => note_on(finding),
            };
            let (reason, action) = (MISSING.to_owned(), "Update".to_owned());
            let happened = Event { type_: EventType::Warning, reason, action, note };
            self.events.publish_once(&pod.object_ref(&()), happened, &finding.node);
        }
        let none = MetadataPatch::default();
        let patch = finding.found.iter().fold(none, |patch, (key, value)| patch.label(key, Some(value)));
        if self.applier.patch_metadata(&pod, parent, &patch).await? {
            info!(pod = %pod.name_any(), node = finding.node, labels = finding.found.len(), "set topology labels");
        }
        self.memory().settle(finding, now);
        Ok(())
    }

    /// The levels of a cluster topology; `None` if there is none of that name, or none that may be read. The status of the graph names
    /// what is missing.
    async fn levels(&self, topology: &str) -> Result<Option<(String, Vec<Level>)>, Error> {
        let binding = match get(&self.applier, &topology_bindings(), topology).await {
            Err(error) if error.class() == Class::Forbidden => None,
            other => other?,
        };
        if binding.is_none() {
            debug!(topology, "there is no such cluster topology yet, or none that may be read");
        }
        Ok(binding.map(|binding| (topology.to_owned(), levels(&binding))))
    }

    /// The node of a pod, which stands in its spec, and no cache holds that.
    async fn place(&self, namespace: &str, pod: &str) -> Result<(String, Option<String>), Error> {
        let live = self.applier.find::<Pod>(namespace, pod).await?;
        let node = live.as_ref().and_then(|live| live.pointer("/spec/nodeName")?.as_str());
        Ok((pod.to_owned(), node.filter(|name| !name.is_empty()).map(str::to_owned)))
    }

    /// The labels of a node; `None` if it does not exist.
    async fn node(&self, name: &str) -> Result<Option<(String, NodeLabels)>, Error> {
        let labels = match self.applier.find::<Node>("", name).await {
            Ok(None) => return Ok(None),
            Ok(Some(node)) => NodeLabels { labels: labels_of(&node), hidden: None },
            Err(error) if error.class() == Class::Forbidden => {
                NodeLabels { labels: BTreeMap::new(), hidden: Some(error.to_string()) }
            }
            Err(error) => return Err(error),
        };
        Ok(Some((name.to_owned(), labels)))
    }

    fn forget_the_gone(&self) {
        if self.memory().exceeds(self.pods.len()) {
            let live: BTreeSet<_> = self.pods.all().iter().filter_map(|pod| pod.uid()).collect();
            self.memory().keep(|uid| live.contains(uid));
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a node says.
struct NodeLabels {
    labels: BTreeMap<String, String>,
    /// Why it could not be asked.
    hidden: Option<String>,
}

fn is_of(pod: &PartialObjectMeta<Pod>, graph: &Key) -> bool {
    pod.metadata.namespace.as_ref() == Some(&graph.namespace) && pod.labels().get(labels::GRAPH) == Some(&graph.name)
}

fn note_on(finding: &Finding<'_>) -> String {
    let list = |each: Vec<&str>| each.join(", ");
    let from = list(finding.missing.iter().map(|copied| copied.from.as_str()).collect());
    let to = list(finding.missing.iter().map(|copied| copied.to.as_str()).collect());
    format!("node {} has no label {from}; {to} stays unknown to the pod", finding.node)
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
