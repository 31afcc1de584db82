//! The live worker revisions of a graph.

use api_types::{names::RevisionSuffix, v1beta1::DynamoComponentDeployment};
use kube::ResourceExt;

use super::suffix_of;
use crate::graph::{model::ValidGraph, plan::rollout::Live};

/// A revision of the graph's workers.
pub struct Revision<'a> {
    /// Its suffix; `None` is a revision older than suffixes.
    pub suffix: Option<RevisionSuffix>,
    /// Its live objects, one a component.
    pub members: Vec<&'a DynamoComponentDeployment>,
}

impl<'a> Revision<'a> {
    /// Its object of a component.
    pub fn of(&self, component: &str) -> Option<&'a DynamoComponentDeployment> {
        self.members.iter().copied().find(|d| d.spec.component.name == component)
    }

    /// Whether one of its components has no worker that can serve, so that the others are of no use.
    pub fn serves_nobody(&self) -> bool {
        self.members.iter().any(|d| live_counts(d).serving() == 0)
    }

    /// Whether each of its components of which the spec desires workers has one that can serve.
    pub fn serves(&self, graph: &ValidGraph<'_>) -> bool {
        let is_desired = |name: &str| graph.workers().any(|c| c.name == name && c.wanted_replicas() > 0);
        let mut desired = self.members.iter().filter(|d| is_desired(&d.spec.component.name)).peekable();
        desired.peek().is_some() && desired.all(|d| live_counts(d).serving() > 0)
    }
}

/// Live workers as revisions, oldest first. The objects are sorted by age, so a revision is as old as its first.
pub fn revisions<'a>(workers: &[&'a DynamoComponentDeployment]) -> Vec<Revision<'a>> {
    let mut revisions: Vec<Revision<'a>> = Vec::new();
    for d in workers.iter().copied() {
        let suffix = suffix_of(d);
        match revisions.iter_mut().find(|known| known.suffix == suffix) {
            Some(revision) => revision.members.push(d),
            None => revisions.push(Revision { suffix, members: vec![d] }),
        }
    }
    revisions
}

/// Sorts live workers by age.
pub fn sort_by_age(workers: &mut [&DynamoComponentDeployment]) {
    workers.sort_by_key(|d| (d.metadata.creation_timestamp.clone(), d.name_any()));
}

/// Replicas of a live worker.
pub fn live_counts(d: &DynamoComponentDeployment) -> Live {
    let status = d.status.as_ref().and_then(|s| s.component.as_ref());
    Live {
        spec: d.spec.component.wanted_replicas(),
        available: status.and_then(|c| c.available_replicas.or(c.ready_replicas)).unwrap_or(0),
    }
}
