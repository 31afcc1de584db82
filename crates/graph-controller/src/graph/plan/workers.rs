//! The workers of a graph: which revision is the target, how many replicas each has, which are done with.

use api_types::{
    names::RevisionSuffix,
    v1beta1::{ComponentSpec, DynamoComponentDeployment},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use rendering::RolloutStrategy;

use super::{checkpoints, removal, revision, revision::Target, rollout, rollout::Live, spread, with_replicas};
use crate::graph::{
    merge::{Placement, component_deployment},
    model::{Capture, ComponentCheckpoint, Observed, Plan, Rollout, ValidGraph, is_current, is_stalled},
};

/// An old revision of the graph's workers.
struct Revision<'a> {
    /// Its live objects, one a component.
    members: Vec<&'a DynamoComponentDeployment>,
}

impl<'a> Revision<'a> {
    fn of(&self, component: &str) -> Option<&'a DynamoComponentDeployment> {
        self.members.iter().copied().find(|d| d.spec.component.name == component)
    }

    /// Whether one of its components has no worker that can serve, so that all the others serve nobody.
    fn serves_nobody(&self) -> bool {
        self.members.iter().any(|d| live_counts(d).serving() == 0)
    }
}

/// All revisions but the target, oldest first.
fn revisions<'a>(old: &[&'a DynamoComponentDeployment]) -> Vec<Revision<'a>> {
    let mut revisions: Vec<(Option<RevisionSuffix>, Revision<'a>)> = Vec::new();
    // The objects are sorted by age, so a revision is as old as its first.
    for d in old.iter().copied() {
        let suffix = revision::suffix_of(d);
        match revisions.iter_mut().find(|(known, _)| *known == suffix) {
            Some((_, revision)) => revision.members.push(d),
            None => revisions.push((suffix, Revision { members: vec![d] })),
        }
    }
    revisions.into_iter().map(|(_, revision)| revision).collect()
}

/// Plans the revisions of all workers: which is the target, how many replicas each has, which are done with.
pub(super) fn plan_workers(
    graph: &ValidGraph<'_>,
    observed: &Observed,
    workers: &[&DynamoComponentDeployment],
    (target, origin_version): (&Target, &str),
    plan: &mut Plan,
) {
    let (new, mut old): (Vec<_>, Vec<_>) = workers
        .iter()
        .copied()
        .partition(|d| revision::suffix_of(d) == target.suffix && graph.has_worker(&d.spec.component.name));
    old.sort_by_key(|d| (d.metadata.creation_timestamp.clone(), d.name_any()));
    let revisions = revisions(&old);

    let mut live = Vec::new();
    for component in graph.workers() {
        let new = new.iter().copied().find(|d| d.spec.component.name == component.name);
        let checkpoint = checkpoints::of(&plan.checkpoints, &component.name);
        let placement = Placement {
            revision: target.suffix.as_ref(),
            fingerprint: Some(&target.fingerprint),
            replicas: component.wanted_replicas(),
            origin_version,
            checkpoint: checkpoint.map(|checkpoint| checkpoint.name.as_str()),
        };
        let mut desired = component_deployment(graph, component, placement);
        spread::scope(&mut desired, new);
        let olds: Vec<_> = revisions.iter().map(|revision| revision.of(&component.name)).collect();
        live.push(LiveWorkers { desired, new, olds });
    }

    let planned = planned(graph, observed, &live, &plan.checkpoints);
    let mut updated = Vec::new();
    for (LiveWorkers { mut desired, new, olds }, (component, targets)) in live.into_iter().zip(planned) {
        desired.spec.component.replicas = Some(targets.new);
        let name = desired.spec.component.name.clone();
        plan.components.push(desired);
        let olds = || olds.iter().zip(&targets.old).filter_map(|(d, replicas)| Some(((*d)?, *replicas)));
        let recreate = component.strategy == RolloutStrategy::Recreate;
        if recreate {
            // One that its controller cannot act on would never drain.
            let stuck = olds().filter(|(d, to)| *to == 0 && d.spec.component.wanted_replicas() == 0 && is_stalled(d));
            plan.delete.extend(stuck.filter_map(|(d, _)| removal(observed, d)));
        }
        plan.old.extend(olds().map(|(d, replicas)| with_replicas(d, replicas)));
        if serves_alone(new, component.desired, olds().map(|(d, _)| d)) && (!recreate || component.drained) {
            updated.push(name);
        }
    }
    let waits = old.iter().filter_map(|d| remains_of(observed, d)).collect();
    if updated.len() == graph.workers().count() {
        // Every component's new workers carry the load: what is left of the old revisions can go, in one go.
        // Orphans are adopted first and go with the next pass: only what is ours is deleted.
        plan.old.retain(|d| old.iter().any(|o| o.name_any() == d.name_any() && !observed.owns(o)));
        plan.delete.extend(old.iter().filter_map(|d| removal(observed, d)));
    } else {
        collect_superseded(graph, observed, &revisions, plan);
    }
    let names = old.iter().map(|d| d.name_any()).collect();
    plan.rollout = Rollout { target: target.suffix.clone(), old: names, updated, waits };
}

/// One worker component: its object of the target revision as it shall be, but for the replicas, and what is live.
struct LiveWorkers<'a> {
    desired: DynamoComponentDeployment,
    new: Option<&'a DynamoComponentDeployment>,
    olds: Vec<Option<&'a DynamoComponentDeployment>>,
}

/// The replicas of all worker components, with what they were planned from.
fn planned(
    graph: &ValidGraph<'_>,
    observed: &Observed,
    live: &[LiveWorkers<'_>],
    checkpoints: &[ComponentCheckpoint],
) -> Vec<(rollout::Component, rollout::Targets)> {
    // Old and new workers do not talk to each other: none goes before all can come.
    let own = |c: &ComponentSpec| checkpoints::of(checkpoints, &c.name);
    let waits = graph.workers().filter_map(own).any(|checkpoint| checkpoint.awaited.is_some());
    let lost = graph.workers().filter_map(own).any(|checkpoint| checkpoint.capture == Capture::Lost);
    let component = |(live, component): (&LiveWorkers<'_>, &ComponentSpec)| {
        let others_ended = observed.running_pods.iter().all(|(object, pods)| {
            pods.component != component.name || Some(object) == live.desired.metadata.name.as_ref() || pods.count == 0
        });
        rollout::Component {
            strategy: strategy_of(&live.desired),
            desired: component.wanted_replicas(),
            new: live.new.map(new_counts).unwrap_or_default(),
            old: live.olds.iter().map(|old| old.map(live_counts)).collect(),
            drained: others_ended && live.olds.iter().flatten().all(|d| is_drained(observed, d)),
            capture: match own(component).map(|checkpoint| checkpoint.capture).unwrap_or_default() {
                // What it was emptied for is of no use without the others.
                Capture::Done if lost => Capture::Lost,
                own => own,
            },
        }
    };
    let components: Vec<_> = live.iter().zip(graph.workers()).map(component).collect();
    let targets = if waits { rollout::hold(&components) } else { rollout::plan(&components) };
    components.into_iter().zip(targets).collect()
}

/// Old revisions but for the oldest, which served alone before the rollout, were superseded before they were complete.
/// What the user has removed from the spec goes with a revision that serves nobody, and a drained revision is deleted
/// at once.
fn collect_superseded(graph: &ValidGraph<'_>, observed: &Observed, revisions: &[Revision<'_>], plan: &mut Plan) {
    for superseded in revisions.iter().skip(1) {
        let removed = superseded.members.iter().filter(|d| !graph.has_worker(&d.spec.component.name));
        if superseded.serves_nobody() {
            plan.old.extend(removed.map(|d| with_replicas(d, 0)));
        }
        if superseded.members.iter().all(|d| is_drained(observed, d)) {
            plan.delete.extend(superseded.members.iter().filter_map(|d| removal(observed, d)));
        }
    }
}

/// How a component's workers change revision. Annotations that cannot be read are reported by the component itself;
/// until they are mended, the default is the careful choice.
fn strategy_of(desired: &DynamoComponentDeployment) -> RolloutStrategy {
    let quarter = || IntOrString::String("25%".to_owned());
    RolloutStrategy::from_annotations(Some(&rendering::component_annotations(desired)))
        .unwrap_or_else(|_| RolloutStrategy::RollingUpdate { max_surge: quarter(), max_unavailable: quarter() })
}

fn live_counts(d: &DynamoComponentDeployment) -> Live {
    let status = d.status.as_ref().and_then(|s| s.component.as_ref());
    Live {
        spec: d.spec.component.wanted_replicas(),
        available: status.and_then(|c| c.available_replicas.or(c.ready_replicas)).unwrap_or(0),
    }
}

/// The same for the target revision. A status that speaks of an older spec may count workers that were told to go.
fn new_counts(d: &DynamoComponentDeployment) -> Live {
    let counts = live_counts(d);
    Live { available: if is_current(d) { counts.available } else { 0 }, ..counts }
}

/// What is left of an old worker, in words; nothing if nothing is.
fn remains_of(observed: &Observed, d: &DynamoComponentDeployment) -> Option<String> {
    let name = d.name_any();
    let reported = d.status.as_ref().and_then(|s| s.component.as_ref()).map_or(0, |c| c.replicas);
    match (reported, observed.running_pods.get(&name)) {
        (0, None) => None,
        (0, Some(pods)) => Some(format!("{name}: {} old pods have not ended", pods.count)),
        (replicas, _) => Some(format!("{name}: {replicas} workers of the old revision")),
    }
}

fn ready_replicas(d: &DynamoComponentDeployment) -> i32 {
    d.status.as_ref().and_then(|s| s.component.as_ref()).and_then(|c| c.ready_replicas).unwrap_or(0)
}

/// Whether no pod of an old worker is left, not even a terminating one.
fn is_drained(observed: &Observed, d: &DynamoComponentDeployment) -> bool {
    let pods_reported = d.status.as_ref().and_then(|s| s.component.as_ref()).map_or(0, |c| c.replicas);
    d.spec.component.wanted_replicas() == 0
        && is_current(d)
        && pods_reported == 0
        && !observed.running_pods.contains_key(&d.name_any())
}

/// Whether the target revision of a component has all its workers and the old ones serve nobody.
fn serves_alone<'a>(
    new: Option<&DynamoComponentDeployment>,
    desired: i32,
    mut old: impl Iterator<Item = &'a DynamoComponentDeployment>,
) -> bool {
    let new_serves = new.is_some_and(|d| {
        is_current(d) && d.spec.component.wanted_replicas() == desired && ready_replicas(d) >= desired
    });
    // An old worker that its controller cannot act on keeps its pods until it is deleted.
    let is_done = |d: &DynamoComponentDeployment| {
        d.spec.component.wanted_replicas() == 0 && is_current(d) && (ready_replicas(d) == 0 || is_stalled(d))
    };
    new_serves && old.all(is_done)
}
