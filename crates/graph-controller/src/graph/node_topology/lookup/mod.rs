//! Plans which worker pods need topology labels and what must be read for them: each topology and each node once, a pod
//! only until it has a node. Nodes are not watched: one that lacks a label is read again with exponential backoff.
//! Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{LabelCopy, TopologyRequest, changes, copies, request};

/// Backoff of reading a node again that lacks a label: first and longest.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Known state of pods, by uid.
#[derive(Debug, Default)]
pub struct TopologyMemory(HashMap<String, KnownTopology>);

#[derive(Debug)]
enum KnownTopology {
    /// It had no node in this version.
    Unplaced(String),
    /// It has this node, for good.
    Placed(String),
    /// Nothing to do while it has this version or these labels, and no retry is due.
    Settled { version: String, labels: u64, node: Option<String>, next: Option<NextLookup> },
}

/// Time of the next read of a pod's node that lacked a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NextLookup {
    at: Instant,
    pause: Duration,
}

impl NextLookup {
    /// Doubles the pause.
    fn after(last: Option<Self>, now: Instant) -> Self {
        let pause = last.map_or(FIRST_PAUSE, |last| (last.pause * 2).min(LONGEST_PAUSE));
        Self { at: now + pause, pause }
    }
}

impl TopologyMemory {
    /// Whether a lookup for a pod may find something new.
    fn is_due(&self, pod: &ObjectMeta, now: Instant) -> bool {
        match self.0.get(uid(pod)) {
            None | Some(KnownTopology::Placed(_)) => true,
            Some(KnownTopology::Unplaced(version)) => version != version_of(pod),
            Some(KnownTopology::Settled { next: Some(next), .. }) if next.at <= now => true,
            Some(KnownTopology::Settled { version, labels, .. }) => {
                version != version_of(pod) && *labels != labels_of(pod)
            }
        }
    }

    /// Time until the next retry for one of these pods; `None` if there is none. Retries that are due already are left
    /// out: the error that delayed them causes its own retry.
    pub fn due<'a>(&self, pods: impl IntoIterator<Item = &'a ObjectMeta>, now: Instant) -> Option<Duration> {
        let pending = pods.into_iter().filter(|pod| request(pod).is_some());
        let next = pending.filter_map(|pod| self.next_lookup(pod)).map(|next| next.at).filter(|at| *at > now).min()?;
        Some(next.saturating_duration_since(now))
    }

    fn next_lookup(&self, pod: &ObjectMeta) -> Option<NextLookup> {
        match self.0.get(uid(pod))? {
            KnownTopology::Settled { next, .. } => *next,
            KnownTopology::Unplaced(_) | KnownTopology::Placed(_) => None,
        }
    }

    fn node_of(&self, pod: &ObjectMeta) -> Option<&String> {
        match self.0.get(uid(pod))? {
            KnownTopology::Unplaced(_) => None,
            KnownTopology::Placed(node) => Some(node),
            KnownTopology::Settled { node, .. } => node.as_ref(),
        }
    }

    /// Records that there is nothing to do for a pod with these labels.
    fn remember_settled(&mut self, pod: &ObjectMeta, node: Option<String>, next: Option<NextLookup>) {
        let (version, labels) = (version_of(pod).to_owned(), labels_of(pod));
        self.remember(pod, KnownTopology::Settled { version, labels, node, next });
    }

    fn remember(&mut self, pod: &ObjectMeta, known: KnownTopology) {
        self.0.insert(uid(pod).to_owned(), known);
    }

    /// Records that a pod got its labels; schedules a retry if its node lacks some.
    pub fn settle(&mut self, pod: &PodTopology<'_>, now: Instant) {
        let next = (!pod.missing.is_empty()).then(|| NextLookup::after(self.next_lookup(pod.pod), now));
        let mut after = pod.pod.clone();
        after.labels.get_or_insert_default().extend(pod.found.clone());
        self.remember_settled(&after, Some(pod.node.clone()), next);
    }

    /// Whether it holds more than twice as many pods as exist. To evict deleted ones, all that exist are read.
    pub fn exceeds(&self, live: usize) -> bool {
        self.0.len() > 2 * live
    }

    /// Evicts deleted pods.
    pub fn keep(&mut self, is_live: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| is_live(uid));
    }
}

/// The lookup for the pods of one graph. Its needs are read in the order of its functions.
#[derive(Debug, Default)]
pub struct TopologyLookup<'a> {
    pods: Vec<PendingPod<'a>>,
}

#[derive(Debug)]
struct PendingPod<'a> {
    pod: &'a ObjectMeta,
    request: TopologyRequest,
    node: Option<String>,
    copies: Vec<LabelCopy>,
}

/// The topology labels of one pod.
#[derive(Debug)]
pub struct PodTopology<'a> {
    /// The pod.
    pub pod: &'a ObjectMeta,
    /// Its node.
    pub node: String,
    /// Labels to set on it.
    pub found: BTreeMap<String, String>,
    /// Labels that its node lacks.
    pub missing: Vec<LabelCopy>,
}

impl<'a> TopologyLookup<'a> {
    /// Selects the pods that request labels and are due.
    pub fn at(pods: impl IntoIterator<Item = &'a ObjectMeta>, memory: &TopologyMemory, now: Instant) -> Self {
        let pending = |pod: &'a ObjectMeta| {
            let request = request(pod).filter(|_| memory.is_due(pod, now))?;
            Some(PendingPod { pod, request, node: memory.node_of(pod).cloned(), copies: Vec::new() })
        };
        Self { pods: pods.into_iter().filter_map(pending).collect() }
    }

    /// The cluster topologies to read.
    pub fn topologies(&self) -> BTreeSet<String> {
        self.pods.iter().filter_map(|pending| pending.request.topology.clone()).collect()
    }

    /// Resolves the topologies that exist. Pods of others wait for the next lookup.
    pub fn resolve_levels(&mut self, levels: &BTreeMap<String, Vec<LabelCopy>>, memory: &mut TopologyMemory) {
        self.pods.retain_mut(|pending| {
            let levels = match &pending.request.topology {
                Some(topology) => levels.get(topology).map(Vec::as_slice),
                None => Some(Default::default()),
            };
            let Some(levels) = levels else { return false };
            let none = BTreeMap::new();
            pending.copies = copies(&pending.request, levels, pending.pod.labels.as_ref().unwrap_or(&none));
            if pending.copies.is_empty() {
                memory.remember_settled(pending.pod, pending.node.take(), None);
            }
            !pending.copies.is_empty()
        });
    }

    /// Names of the pods to read because their node is not known.
    pub fn unplaced(&self) -> Vec<String> {
        let unplaced = self.pods.iter().filter(|pending| pending.node.is_none());
        unplaced.filter_map(|pending| pending.pod.name.clone()).collect()
    }

    /// Resolves the nodes of pods, by the names of pods. Others wait for the next lookup.
    pub fn resolve_nodes(&mut self, nodes: &BTreeMap<String, Option<String>>, memory: &mut TopologyMemory) {
        self.pods.retain_mut(|pending| {
            if pending.node.is_some() {
                return true;
            }
            match nodes.get(pending.pod.name.as_deref().unwrap_or_default()) {
                Some(Some(node)) => {
                    memory.remember(pending.pod, KnownTopology::Placed(node.clone()));
                    pending.node = Some(node.clone());
                }
                Some(None) => memory.remember(pending.pod, KnownTopology::Unplaced(version_of(pending.pod).to_owned())),
                None => {}
            }
            pending.node.is_some()
        });
    }

    /// The nodes to read.
    pub fn nodes(&self) -> BTreeSet<String> {
        self.pods.iter().filter_map(|pending| pending.node.clone()).collect()
    }

    /// The labels of the pods whose nodes were read, by the labels of nodes.
    pub fn resolve_labels(self, nodes: &BTreeMap<String, BTreeMap<String, String>>) -> Vec<PodTopology<'a>> {
        let find = |pending: PendingPod<'a>| {
            let node = pending.node?;
            let (pod, labels) = (pending.pod, nodes.get(&node)?);
            let (found, missing) = changes(&pending.copies, labels);
            Some(PodTopology { pod, node, found, missing })
        };
        self.pods.into_iter().filter_map(find).collect()
    }
}

fn uid(pod: &ObjectMeta) -> &str {
    pod.uid.as_deref().unwrap_or_default()
}

fn version_of(pod: &ObjectMeta) -> &str {
    pod.resource_version.as_deref().unwrap_or_default()
}

fn labels_of(pod: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    pod.labels.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
