//! The revisions of a graph's workers: replaced ones that live workers list, and live ones.

use std::collections::BTreeMap;

use api_types::{revision_history, revision_history::PreviousRevision};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use status_view::Table;

use super::{Family, age};

/// A revision: workers of one spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HistoryRevision {
    /// Its suffix in names and labels.
    pub revision: String,
    /// Whether it has objects.
    pub live: bool,
    /// Creation time of its first component.
    pub created: Option<String>,
    /// Its components, each with its desired replicas; not known of a replaced revision.
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

impl From<PreviousRevision> for HistoryRevision {
    fn from(previous: PreviousRevision) -> Self {
        let since = previous.created.map(|time| time.0);
        Self {
            revision: previous.revision,
            created: since.map(|time| time.to_string()),
            images: previous.images,
            since,
            ..Self::default()
        }
    }
}

/// Replaced revisions, then the live ones; the oldest of each first.
pub fn history(family: &Family) -> Vec<HistoryRevision> {
    let workers: Vec<_> = family.components.iter().filter(|one| one.spec.component.is_worker()).collect();
    let mut revisions: BTreeMap<&str, HistoryRevision> = BTreeMap::new();
    for component in &workers {
        let suffix = revision_history::revision_of(component);
        let spec = &component.spec.component;
        let created = component.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let counts = component.status.as_ref().and_then(|status| status.component.as_ref());
        let entry = revisions.entry(suffix).or_insert_with(|| HistoryRevision {
            revision: suffix.to_owned(),
            live: true,
            since: created,
            ..HistoryRevision::default()
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
    let mut live: Vec<_> = revisions.into_values().collect();
    live.sort_by_key(|revision| revision.since);
    let replaced = revision_history::replaced(&workers).into_iter().rev().map(HistoryRevision::from);
    replaced.chain(live).collect()
}

/// The revisions as a table.
pub fn history_table(revisions: &[HistoryRevision], now: Timestamp) -> String {
    let mut table = Table::new(&["REVISION", "AGE", "READY", "COMPONENTS", "IMAGES"]);
    for one in revisions {
        let of_live = |text: String| if one.live { text } else { "-".to_owned() };
        table.row([
            one.revision.clone(),
            age(now, one.since),
            of_live(format!("{}/{}", one.ready, one.desired)),
            of_live(one.components.join(",")),
            one.images.join(","),
        ]);
    }
    table.text()
}
