//! Which pods are looked at because they want to know where they are, and what has to be read for that: each topology and each
//! node once, a pod only until it is known to have a node. Nodes are not watched: one that does not say everything is asked again
//! after a pause, and ever more rarely.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::topology::{Copied, Level, Wanted, changes, copies, wanted};

/// How long nobody asks again a node that did not say everything: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What is known of the pods that were looked at, by uid.
#[derive(Debug, Default)]
pub struct Memory(HashMap<String, Known>);

#[derive(Debug)]
enum Known {
    /// It had no node in this version.
    Unplaced(String),
    /// It has this node, for good.
    Placed(String),
    /// There was nothing to do any more in this version, nor is there as long as its labels are these and no look is due.
    Settled { version: String, labels: u64, node: Option<String>, next: Option<NextLook> },
}

/// When a pod is looked at again whose node did not say everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NextLook {
    at: Instant,
    pause: Duration,
}

impl NextLook {
    /// Twice as long a pause as before the last look.
    fn after(last: Option<Self>, now: Instant) -> Self {
        let pause = last.map_or(FIRST_PAUSE, |last| (last.pause * 2).min(LONGEST_PAUSE));
        Self { at: now + pause, pause }
    }
}

impl Memory {
    /// Whether a look at a pod may find something new.
    fn is_news(&self, pod: &ObjectMeta, now: Instant) -> bool {
        match self.0.get(uid(pod)) {
            None | Some(Known::Placed(_)) => true,
            Some(Known::Unplaced(version)) => version != version_of(pod),
            Some(Known::Settled { next: Some(next), .. }) if next.at <= now => true,
            Some(Known::Settled { version, labels, .. }) => version != version_of(pod) && *labels != labels_of(pod),
        }
    }

    /// After how long one of these pods is to be looked at again although nothing of it changes; `None` if none is. Those that are
    /// due already are left out: what kept them from being looked at is tried again by itself.
    pub fn due<'a>(&self, pods: impl IntoIterator<Item = &'a ObjectMeta>, now: Instant) -> Option<Duration> {
        let asking = pods.into_iter().filter(|pod| wanted(pod).is_some());
        let next = asking.filter_map(|pod| self.next_look(pod)).map(|next| next.at).filter(|at| *at > now).min()?;
        Some(next.saturating_duration_since(now))
    }

    fn next_look(&self, pod: &ObjectMeta) -> Option<NextLook> {
        match self.0.get(uid(pod))? {
            Known::Settled { next, .. } => *next,
            Known::Unplaced(_) | Known::Placed(_) => None,
        }
    }

    fn node_of(&self, pod: &ObjectMeta) -> Option<&String> {
        match self.0.get(uid(pod))? {
            Known::Unplaced(_) => None,
            Known::Placed(node) => Some(node),
            Known::Settled { node, .. } => node.as_ref(),
        }
    }

    fn remember(&mut self, pod: &ObjectMeta, known: Known) {
        self.0.insert(uid(pod).to_owned(), known);
    }

    /// There is nothing more to do for this pod, before its node may say what it did not.
    pub fn settle(&mut self, pod: &Finding<'_>, now: Instant) {
        let next = (!pod.missing.is_empty()).then(|| NextLook::after(self.next_look(pod.pod), now));
        let mut after = pod.pod.clone();
        after.labels.get_or_insert_default().extend(pod.found.clone());
        let (version, labels) = (version_of(&after).to_owned(), labels_of(&after));
        self.remember(pod.pod, Known::Settled { version, labels, node: Some(pod.node.clone()), next });
    }

    /// Whether pods are known that cannot be there any more, given how many there are.
    pub fn exceeds(&self, live: usize) -> bool {
        self.0.len() > live
    }

    /// Forgets pods that are gone.
    pub fn keep(&mut self, is_live: impl Fn(&str) -> bool) {
        self.0.retain(|uid, _| is_live(uid));
    }
}

/// A look at the pods of one graph. What it asks for is read in the order of its functions.
#[derive(Debug, Default)]
pub struct Look<'a> {
    pods: Vec<Asking<'a>>,
}

#[derive(Debug)]
struct Asking<'a> {
    pod: &'a ObjectMeta,
    wanted: Wanted,
    node: Option<String>,
    copies: Vec<Copied>,
}

/// What is to be told to one pod.
#[derive(Debug)]
pub struct Finding<'a> {
    /// The pod.
    pub pod: &'a ObjectMeta,
    /// Its node.
    pub node: String,
    /// The labels that it gets.
    pub found: BTreeMap<String, String>,
    /// What its node does not say.
    pub missing: Vec<Copied>,
}

impl<'a> Look<'a> {
    /// Picks the pods that want something and were not looked at as they are, or not for long enough.
    pub fn at(pods: impl IntoIterator<Item = &'a ObjectMeta>, memory: &Memory, now: Instant) -> Self {
        let asking = |pod: &'a ObjectMeta| {
            let wanted = wanted(pod).filter(|_| memory.is_news(pod, now))?;
            Some(Asking { pod, wanted, node: memory.node_of(pod).cloned(), copies: Vec::new() })
        };
        Self { pods: pods.into_iter().filter_map(asking).collect() }
    }

    /// The cluster topologies to be read.
    pub fn topologies(&self) -> BTreeSet<String> {
        self.pods.iter().filter_map(|asking| asking.wanted.topology.clone()).collect()
    }

    /// Takes in the levels of the topologies that there are. Pods that want another one are left for the next look.
    pub fn know_levels(&mut self, levels: &BTreeMap<String, Vec<Level>>, memory: &mut Memory) {
        self.pods.retain_mut(|asking| {
            let levels = match &asking.wanted.topology {
                Some(topology) => levels.get(topology).map(Vec::as_slice),
                None => Some(Default::default()),
            };
            let Some(levels) = levels else { return false };
            let none = BTreeMap::new();
            asking.copies = copies(&asking.wanted, levels, asking.pod.labels.as_ref().unwrap_or(&none));
            if asking.copies.is_empty() {
                let (version, labels) = (version_of(asking.pod).to_owned(), labels_of(asking.pod));
                memory.remember(asking.pod, Known::Settled { version, labels, node: asking.node.take(), next: None });
            }
            !asking.copies.is_empty()
        });
    }

    /// Names of the pods to be read, because nobody knows whether they have a node.
    pub fn unplaced(&self) -> Vec<String> {
        let unplaced = self.pods.iter().filter(|asking| asking.node.is_none());
        unplaced.filter_map(|asking| asking.pod.name.clone()).collect()
    }

    /// Takes in the nodes of pods that were read, by the pods' names. Those that were not are left for the next look.
    pub fn know_places(&mut self, nodes: &BTreeMap<String, Option<String>>, memory: &mut Memory) {
        self.pods.retain_mut(|asking| {
            if asking.node.is_some() {
                return true;
            }
            match nodes.get(asking.pod.name.as_deref().unwrap_or_default()) {
                Some(Some(node)) => {
                    memory.remember(asking.pod, Known::Placed(node.clone()));
                    asking.node = Some(node.clone());
                }
                Some(None) => memory.remember(asking.pod, Known::Unplaced(version_of(asking.pod).to_owned())),
                None => {}
            }
            asking.node.is_some()
        });
    }

    /// The nodes to be read.
    pub fn nodes(&self) -> BTreeSet<String> {
        self.pods.iter().filter_map(|asking| asking.node.clone()).collect()
    }

    /// What is to be told to the pods whose nodes were read, by the nodes' labels.
    pub fn findings(self, nodes: &BTreeMap<String, BTreeMap<String, String>>) -> Vec<Finding<'a>> {
        let find = |asking: Asking<'a>| {
            let node = asking.node?;
            let (pod, labels) = (asking.pod, nodes.get(&node)?);
            let (found, missing) = changes(&asking.copies, labels);
            let missing = missing.into_iter().cloned().collect();
            Some(Finding { pod, node, found, missing })
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
