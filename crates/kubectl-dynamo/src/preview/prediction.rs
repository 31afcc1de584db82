//! Result of an edit, with capacity and GPUs in each step.

use std::collections::{BTreeMap, BTreeSet};

use api_types::labels;
use serde::Serialize;
use serde_json::Value;

use super::{
    diff::{FieldChange, content, field_changes},
    objects::{ObjectKey, PreviewObjects},
    pods,
    pods::{Excess, Pod, PodStep},
};

/// Predicted effects of an edit of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// Name of the graph.
    pub graph: String,
    /// Its namespace.
    pub namespace: String,
    /// Version of the operator whose code has computed this.
    pub operator_version: String,
    /// Reason for the rejection of the graph, by admission or by the controllers; the fields below are then unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Warnings of the API server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Unknown facts and assumptions of the preview.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Fields of the graph that the edit changes.
    pub edit: Vec<FieldChange>,
    /// Objects that the controllers or the garbage collector will change.
    pub changes: Vec<ObjectChange>,
    /// Revisions of workers.
    pub revision: RevisionNames,
    /// Pods that come and go, in their order.
    pub pods: Vec<PodStep>,
    /// Pods, GPUs and capacity in each step; the first is today.
    pub steps: Vec<Moment>,
    /// Limits of quotas that the pods would exceed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Excess>,
}

/// An object that the controllers or the garbage collector will change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectChange {
    /// `create`, `change`, `replace` or `delete`.
    pub verb: &'static str,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Fields that change of an object that stays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// The object as it will be, without what the API server adds; none if it goes.
    #[serde(skip)]
    pub after: Option<Value>,
}

/// Revisions of workers by their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RevisionNames {
    /// Those that run.
    pub before: BTreeSet<String>,
    /// Those that will run.
    pub after: BTreeSet<String>,
}

impl Prediction {
    /// Whether something changes.
    pub fn changes_something(&self) -> bool {
        !self.edit.is_empty() || !self.changes.is_empty()
    }

    /// Steps in which capacity is below today's, and the least of it in percent.
    pub fn reduced(&self) -> (usize, u32) {
        let today = self.steps.first().map_or(100, |moment| moment.share);
        let shares = || self.steps.iter().map(|moment| moment.share);
        (shares().filter(|share| *share < today).count(), shares().min().unwrap_or(today))
    }

    /// GPUs today, at most, and in the end.
    pub fn gpus(&self) -> (i64, i64, i64) {
        let gpus = || self.steps.iter().map(|moment| moment.gpus);
        (gpus().next().unwrap_or_default(), gpus().max().unwrap_or_default(), gpus().next_back().unwrap_or_default())
    }
}

/// The objects that writes or the garbage collector have changed, of those that are shown. What only had its status
/// written is none of them.
pub fn changes(objects: &PreviewObjects, is_shown: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectChange> {
    let kind = |object: &Value| object["kind"].as_str().unwrap_or_default().to_owned();
    let change = |key: &ObjectKey| {
        let (verb, fields, object) = match (objects.before(key).or_else(|| objects.gained(key)), objects.get(key)) {
            (None, Some(after)) => ("create", Vec::new(), after),
            (Some(before), None) => ("delete", Vec::new(), before),
            (Some(before), Some(after)) if before["metadata"]["uid"] == after["metadata"]["uid"] => {
                ("change", field_changes(before, after), after)
            }
            (Some(before), Some(after)) => ("replace", field_changes(before, after), after),
            (None, None) => return None,
        };
        if verb == "change" && fields.is_empty() {
            return None;
        }
        let after = (verb != "delete").then(|| content(object));
        Some(ObjectChange { verb, kind: kind(object), name: key.name.clone(), fields, after })
    };
    // An object that goes with its owner, or loses one of its owners, has no write of its own.
    let owners = |object: &Value| object.pointer("/metadata/ownerReferences").cloned();
    let collected = |key: &&ObjectKey| {
        objects.before(key).is_some_and(|before| objects.get(key).is_none_or(|after| owners(before) != owners(after)))
    };
    let collected = objects.keys().into_iter().filter(collected);
    let keys: BTreeSet<&ObjectKey> = objects.writes().iter().chain(collected).filter(|key| is_shown(key)).collect();
    let mut all: Vec<ObjectChange> = keys.into_iter().filter_map(change).collect();
    all.sort_by_cached_key(|one| (one.verb != "create", one.verb == "delete", one.kind.clone(), one.name.clone()));
    all
}

/// The revisions of the workers of a graph, by its components or the cliques of its PodCliqueSet.
pub fn revisions(children: &[&Value]) -> BTreeSet<String> {
    let label = |all: &Value| all[labels::WORKER_HASH].as_str().filter(|hash| !hash.is_empty()).map(str::to_owned);
    let of_child = |object: &&Value| {
        let cliques = object.pointer("/spec/template/cliques").and_then(Value::as_array);
        let of_cliques = cliques.into_iter().flatten().filter_map(|clique| label(&clique["labels"]));
        label(&object["metadata"]["labels"]).into_iter().chain(of_cliques).collect::<Vec<_>>()
    };
    children.iter().flat_map(of_child).collect()
}

/// Changes of pods by component: how many come, and how many go.
pub fn replaced(steps: &[PodStep]) -> BTreeMap<&str, (usize, usize)> {
    let mut all: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for step in steps {
        let counts = all.entry(&step.component).or_default();
        if step.verb == "create" { counts.0 += 1 } else { counts.1 += 1 }
    }
    all
}

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
    pub fn new(pods: &[Pod], desired: BTreeSet<String>) -> Self {
        let mut today: BTreeMap<String, (usize, bool)> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| pod.ready) {
            let known = today.entry(pod.component.clone()).or_insert((0, pods::is_worker(&pod.labels)));
            known.0 += 1;
        }
        let revisions = pods.iter().map(|pod| revision_of(pod).to_owned()).collect();
        Self { today, revisions, desired }
    }

    /// The present moment.
    pub fn moment(&self, pods: &[Pod]) -> Moment {
        let mut components: BTreeMap<String, Count> = BTreeMap::new();
        for pod in pods {
            let count = components.entry(pod.component.clone()).or_default();
            count.pods += 1;
            count.ready += usize::from(pod.ready);
        }
        Moment { components, gpus: pods::gpus(pods), share: self.share(pods) }
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

    fn pods(all: &[(&str, &str, &str, usize, usize)]) -> Vec<Pod> {
        let pod = |component: &str, type_: &str, revision: &str, ready: bool| {
            let text = str::to_owned;
            let labels = [(text(labels::COMPONENT_TYPE), text(type_)), (text(labels::WORKER_HASH), text(revision))];
            Pod { component: text(component), labels: labels.into(), ready, ..Pod::default() }
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
            Measure::new(&today, desired).share(&pods(now))
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
        let measure = Measure::new(&pods(&[("D", "decode", "a", 3, 0)]), ["D".to_owned()].into());
        for old in 0..=3 {
            assert_eq!(measure.share(&pods(&[("D", "decode", "a", old, 0), ("D", "decode", "b", 3 - old, 0)])), 100);
        }
    }
}
