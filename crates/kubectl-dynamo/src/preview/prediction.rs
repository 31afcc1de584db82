//! What an edit will do.

use std::collections::{BTreeMap, BTreeSet};

use api_types::labels;
use serde::Serialize;
use serde_json::Value;

use super::{
    differences::{FieldChange, content, differences},
    objects::{ObjectKey, Objects, Verb},
    pods::{Pod, PodChange},
    quotas::Excess,
    timeline::Moment,
};

/// What an edit of a graph will do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// Name of the graph.
    pub graph: String,
    /// Its namespace.
    pub namespace: String,
    /// Version of the operator whose code has computed this.
    pub operator_version: String,
    /// Why the graph is refused, by admission or by the controllers; then nothing below it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Warnings of the API server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the preview does not know, and what it assumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Fields of the graph that the edit changes.
    pub edit: Vec<FieldChange>,
    /// Objects that the controllers will write.
    pub changes: Vec<ObjectChange>,
    /// Revisions of workers.
    pub revision: Revision,
    /// Pods that come and go, in their order.
    pub pods: Vec<PodStep>,
    /// Pods, GPUs and capacity in each step; the first is today.
    pub steps: Vec<Moment>,
    /// Limits of quotas that the pods would exceed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Excess>,
}

/// One object that the controllers will write.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectChange {
    /// `create`, `change` or `delete`.
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
pub struct Revision {
    /// Those that run.
    pub before: BTreeSet<String>,
    /// Those that will run.
    pub after: BTreeSet<String>,
}

/// A pod that comes or goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PodStep {
    /// In which step, from 1.
    pub step: usize,
    /// `create` or `delete`.
    pub verb: &'static str,
    /// Its name; of one that does not exist yet, that of its workload with a number.
    pub name: String,
    /// Its component.
    pub component: String,
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
pub fn changes(objects: &Objects, is_shown: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectChange> {
    let written: BTreeSet<&ObjectKey> = objects.writes().iter().map(|write| &write.key).collect();
    let kind = |object: &Value| object["kind"].as_str().unwrap_or_default().to_owned();
    let change = |key: &ObjectKey| {
        let (verb, fields, object) = match (objects.before(key).or_else(|| objects.gained(key)), objects.get(key)) {
            (None, Some(after)) => ("create", Vec::new(), after),
            (Some(before), None) => ("delete", Vec::new(), before),
            (Some(before), Some(after)) if before["metadata"]["uid"] == after["metadata"]["uid"] => {
                ("change", differences(before, after), after)
            }
            (Some(before), Some(after)) => ("replace", differences(before, after), after),
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
    let keys: BTreeSet<&ObjectKey> = written.into_iter().chain(collected).filter(|key| is_shown(key)).collect();
    let mut all: Vec<ObjectChange> = keys.into_iter().filter_map(change).collect();
    all.sort_by(|a, b| {
        (a.verb != "create", a.verb == "delete", &a.kind, &a.name).cmp(&(
            b.verb != "create",
            b.verb == "delete",
            &b.kind,
            &b.name,
        ))
    });
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

/// Changes of pods in one step.
pub fn pod_steps(step: usize, changes: &[PodChange]) -> Vec<PodStep> {
    let of = |change: &PodChange| {
        let verb = if change.verb == Verb::Create { "create" } else { "delete" };
        let Pod { name, component, .. } = change.pod.clone();
        PodStep { step, verb, name, component }
    };
    changes.iter().map(of).collect()
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
