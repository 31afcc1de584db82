//! The revisions of a graph's workers that are live.

use std::collections::BTreeMap;

use api_types::labels;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use status_view::Table;

use super::{age, model::Family};

/// A revision: workers of one spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Revision {
    /// Its suffix in names and labels.
    pub revision: String,
    /// When its first component was created.
    pub created: Option<String>,
    /// Its components, each with its desired replicas.
    pub components: Vec<String>,
    /// Ready and desired pods or groups.
    pub ready: i32,
    /// Desired pods or groups.
    pub desired: i32,
    /// Images of its main containers.
    pub images: Vec<String>,
    #[serde(skip)]
    since: Option<Timestamp>,
}

/// The live revisions, the oldest first.
pub fn history(family: &Family) -> Vec<Revision> {
    let mut revisions: BTreeMap<&str, Revision> = BTreeMap::new();
    for component in family.components.iter().filter(|one| one.spec.component.is_worker()) {
        let suffix = component.labels().get(labels::WORKER_HASH).map_or("-", String::as_str);
        let spec = &component.spec.component;
        let created = component.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let counts = component.status.as_ref().and_then(|status| status.component.as_ref());
        let entry = revisions.entry(suffix).or_insert_with(|| Revision {
            revision: suffix.to_owned(),
            created: None,
            components: Vec::new(),
            ready: 0,
            desired: 0,
            images: Vec::new(),
            since: created,
        });
        entry.since = entry.since.min(created);
        entry.created = entry.since.map(|time| time.to_string());
        entry.components.push(format!("{}={}", spec.name, spec.desired_replicas()));
        entry.desired += spec.desired_replicas();
        entry.ready += counts.and_then(|counts| counts.serving()).unwrap_or_default();
        let image = spec.main_container().and_then(|container| container.image.clone()).unwrap_or_default();
        if !image.is_empty() && !entry.images.contains(&image) {
            entry.images.push(image);
        }
    }
    let mut all: Vec<_> = revisions.into_values().collect();
    all.sort_by_key(|revision| revision.since);
    all
}

/// The revisions as a table.
pub fn history_table(revisions: &[Revision], now: Timestamp) -> String {
    let mut table = Table::new(&["REVISION", "AGE", "READY", "COMPONENTS", "IMAGES"]);
    for one in revisions {
        table.row([
            one.revision.clone(),
            age(now, one.since),
            format!("{}/{}", one.ready, one.desired),
            one.components.join(","),
            one.images.join(","),
        ]);
    }
    table.text()
}
