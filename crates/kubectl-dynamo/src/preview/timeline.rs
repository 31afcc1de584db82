//! Capacity and GPUs in each step.

use std::collections::{BTreeMap, BTreeSet};

use api_types::labels;
use serde::Serialize;

use super::pods::{self, Pod, Pods};

/// Pods of a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Pods that exist.
    pub pods: usize,
    /// Pods that serve.
    pub ready: usize,
}

/// The pods of a graph at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// By component.
    pub components: BTreeMap<String, Count>,
    /// GPUs of all pods.
    pub gpus: i64,
    /// Part of today's capacity, in percent.
    pub share: u32,
}

/// Capacity is measured by what serves when the preview begins.
pub struct Measure {
    /// Ready pods of each component, and whether they are workers.
    today: BTreeMap<String, (usize, bool)>,
    /// Revisions of today; they need all components of today.
    revisions: BTreeSet<String>,
    /// Components of the edited graph; later revisions need no others.
    desired: BTreeSet<String>,
}

impl Measure {
    /// By these pods, for a graph that desires these components.
    pub fn new(pods: &Pods, desired: BTreeSet<String>) -> Self {
        let mut today: BTreeMap<String, (usize, bool)> = BTreeMap::new();
        for pod in pods.all().iter().filter(|pod| pod.ready) {
            let known = today.entry(pod.component.clone()).or_insert((0, pods::is_worker(&pod.labels)));
            known.0 += 1;
        }
        let revisions = pods.all().iter().map(|pod| revision_of(pod).to_owned()).collect();
        Self { today, revisions, desired }
    }

    /// The present moment.
    pub fn moment(&self, pods: &Pods) -> Moment {
        let mut components: BTreeMap<String, Count> = BTreeMap::new();
        for pod in pods.all() {
            let count = components.entry(pod.component.clone()).or_default();
            count.pods += 1;
            count.ready += usize::from(pod.ready);
        }
        Moment { components, gpus: pods::gpus(pods.all().iter()), share: self.share(pods.all()) }
    }

    /// A revision of workers serves as much as its scarcest component, and revisions add up. Components that have no
    /// revision limit the graph by themselves.
    fn share(&self, pods: &[Pod]) -> u32 {
        // In millionths: thirds of two revisions are to add up to a whole.
        let millionths = |ready: usize, today: usize| ready * 1_000_000 / today.max(1);
        let part = |component: &str, revision: Option<&str>| {
            let counts = |pod: &&Pod| {
                pod.ready && pod.component == component && revision.is_none_or(|revision| revision_of(pod) == revision)
            };
            let today = self.today.get(component).map_or(0, |(today, _)| *today);
            millionths(pods.iter().filter(counts).count(), today)
        };
        let components = |worker: bool| {
            self.today.iter().filter(move |(_, (_, is_worker))| *is_worker == worker).map(|(name, _)| name.as_str())
        };
        let of_revision = |revision: &str| {
            let is_needed = |name: &&str| self.revisions.contains(revision) || self.desired.contains(*name);
            components(true).filter(is_needed).map(|name| part(name, Some(revision))).min().unwrap_or_default()
        };
        let revisions: BTreeSet<&str> =
            pods.iter().filter(|pod| pods::is_worker(&pod.labels)).map(revision_of).collect();
        let workers: Option<usize> =
            components(true).next().map(|_| revisions.iter().map(|revision| of_revision(revision)).sum());
        let others = components(false).filter(|name| self.desired.contains(*name)).map(|name| part(name, None));
        let least = others.chain(workers).min().unwrap_or(1_000_000);
        u32::try_from((least + 5_000) / 10_000).unwrap_or(u32::MAX)
    }
}

/// The revision of a worker's pod; empty for others.
fn revision_of(pod: &Pod) -> &str {
    pod.labels.get(labels::WORKER_HASH).map(String::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preview::objects::ObjectKey;

    fn pods(all: &[(&str, &str, &str, usize, usize)]) -> Vec<Pod> {
        let key =
            ObjectKey { group: String::new(), plural: String::new(), namespace: String::new(), name: String::new() };
        let pod = |component: &str, type_: &str, revision: &str, ready: bool| {
            let text = str::to_owned;
            let labels = [(text(labels::COMPONENT_TYPE), text(type_)), (text(labels::WORKER_HASH), text(revision))];
            let mut pod = Pod::of_test(key.clone(), &BTreeMap::new());
            (pod.component, pod.labels, pod.ready) = (text(component), labels.into(), ready);
            pod
        };
        let of = |(component, type_, revision, ready, others): &(&str, &str, &str, usize, usize)| {
            let all = (0..ready + others).map(|index| pod(component, type_, revision, index < *ready));
            all.collect::<Vec<_>>()
        };
        all.iter().flat_map(of).collect()
    }

    #[test]
    fn a_graph_serves_as_much_as_its_scarcest_component() {
        let today = pods(&[("F", "frontend", "", 1, 0), ("P", "prefill", "a", 2, 0), ("D", "decode", "a", 4, 0)]);
        let share = |desired: &[&str], now: &[(&str, &str, &str, usize, usize)]| {
            let desired = desired.iter().map(|name| (*name).to_owned()).collect();
            Measure::new(&Pods::of_test(today.clone()), desired).share(&pods(now))
        };
        let all = ["F", "P", "D"];
        let frontend = ("F", "frontend", "", 1, 0);
        for (desired, now, expected) in [
            (&all[..], vec![frontend, ("P", "prefill", "a", 2, 0), ("D", "decode", "a", 4, 0)], 100),
            (&all[..], vec![frontend, ("P", "prefill", "a", 1, 0), ("D", "decode", "a", 4, 0)], 50),
            (&all[..], vec![frontend, ("P", "prefill", "a", 1, 1), ("D", "decode", "b", 4, 0)], 0),
            (&all[..], vec![("P", "prefill", "a", 2, 0), ("D", "decode", "a", 4, 0)], 0),
            (
                &all[..],
                vec![
                    frontend,
                    ("P", "prefill", "a", 1, 0),
                    ("D", "decode", "a", 2, 0),
                    ("P", "prefill", "b", 1, 0),
                    ("D", "decode", "b", 2, 0),
                ],
                100,
            ),
            (&["F", "D"][..], vec![frontend, ("P", "prefill", "a", 1, 0), ("D", "decode", "b", 4, 0)], 100),
        ] {
            assert_eq!(share(desired, &now), expected, "{desired:?} {now:?}");
        }
    }

    #[test]
    fn thirds_of_two_revisions_are_a_whole() {
        let measure = Measure::new(&Pods::of_test(pods(&[("D", "decode", "a", 3, 0)])), ["D".to_owned()].into());
        for old in 0..=3 {
            assert_eq!(measure.share(&pods(&[("D", "decode", "a", old, 0), ("D", "decode", "b", 3 - old, 0)])), 100);
        }
    }
}
