//! The annotation of a worker's DynamoComponentDeployment that lists replaced revisions of its graph. It is written
//! when the object is created, and kept as it is from then on.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::{annotations::PREVIOUS_REVISIONS, labels, v1beta1::DynamoComponentDeployment};

/// The most revisions in one annotation.
pub const MOST_REVISIONS: usize = 10;

/// The most bytes of one annotation. Caches keep 8 KiB of an object whose metadata is too large, with all that the
/// controllers need.
pub const MOST_BYTES: usize = 4 * 1024;

/// A revision of a graph's workers that was live before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousRevision {
    /// Its suffix in names and labels.
    pub revision: String,
    /// Creation time of its oldest worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// Images of its main containers, each once.
    #[serde(default)]
    pub images: Vec<String>,
}

/// Reads the annotation, newest revision first. A value that cannot be read has no revisions.
#[must_use]
pub fn parse(text: &str) -> Vec<PreviousRevision> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Name of the revision that a worker belongs to, also of one older than revisions.
#[must_use]
pub fn revision_of(worker: &DynamoComponentDeployment) -> &str {
    let label = worker.metadata.labels.as_ref().and_then(|all| all.get(labels::WORKER_HASH));
    label.map_or(labels::LEGACY_REVISION, String::as_str)
}

/// The revisions that live workers list and that are not live, newest first.
#[must_use]
pub fn replaced(workers: &[&DynamoComponentDeployment]) -> Vec<PreviousRevision> {
    remembered(workers, workers.iter().map(|worker| revision_of(worker).to_owned()).collect())
}

/// The annotation of a new worker of the revision `own`, from all live workers of its graph; nothing for the first
/// revision.
#[must_use]
pub fn extended(own: &str, workers: &[&DynamoComponentDeployment]) -> Option<String> {
    let mut all = live(own, workers);
    let known = all.iter().map(|one| one.revision.clone()).chain([own.to_owned()]).collect();
    all.extend(remembered(workers, known));
    newest_first(&mut all);
    all.truncate(MOST_REVISIONS);
    while !all.is_empty() {
        let text = serde_json::to_string(&all).ok()?;
        if text.len() <= MOST_BYTES {
            return Some(text);
        }
        all.pop();
    }
    None
}

/// Live revisions but for `own`, newest first.
fn live(own: &str, workers: &[&DynamoComponentDeployment]) -> Vec<PreviousRevision> {
    let mut all: BTreeMap<&str, PreviousRevision> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| revision_of(worker) != own) {
        let (revision, created) = (revision_of(worker), worker.metadata.creation_timestamp.clone());
        let entry = all.entry(revision).or_insert_with(|| PreviousRevision {
            revision: revision.to_owned(),
            created: created.clone(),
            images: Vec::new(),
        });
        entry.created = entry.created.take().into_iter().chain(created).min();
        let image = worker.spec.component.main_container().and_then(|main| main.image.clone());
        entry.images.extend(image.filter(|image| !image.is_empty()));
    }
    let mut all: Vec<_> = all.into_values().collect();
    for one in &mut all {
        // The order of components must not show.
        one.images.sort();
        one.images.dedup();
    }
    newest_first(&mut all);
    all
}

/// Returns the revisions that annotations list in addition to the known ones, newest first.
fn remembered(workers: &[&DynamoComponentDeployment], mut known: BTreeSet<String>) -> Vec<PreviousRevision> {
    let annotations = workers.iter().filter_map(|worker| worker.metadata.annotations.as_ref());
    let values = annotations.filter_map(|all| all.get(PREVIOUS_REVISIONS));
    let mut all: Vec<_> = values.flat_map(|text| parse(text)).collect();
    newest_first(&mut all);
    all.retain(|one| known.insert(one.revision.clone()));
    all
}

/// Sorts by age. What was created in the same second keeps its order.
fn newest_first(all: &mut [PreviousRevision]) {
    all.sort_by(|a, b| b.created.cmp(&a.created));
}

#[cfg(test)]
mod tests;
