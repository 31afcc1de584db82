//! The workers of a graph: which revision is the target, how many replicas each has, which are done with.

use api_types::{
    annotations, labels,
    names::RevisionSuffix,
    revision_history,
    v1beta1::{ComponentSpec, DynamoComponentDeployment},
};
use k8s_openapi::{apimachinery::pkg::util::intstr::IntOrString, jiff::Timestamp};
use kube::ResourceExt;
use rendering::RolloutStrategy;

use super::{
    checkpoints,
    control::{Course, Deadline, deadline},
    removal, revision,
    revision::{Revision, live_counts, revisions, sort_by_age},
    rollout,
    rollout::LiveCounts,
    spread, with_replicas,
};
use crate::graph::{
    merge::{PlannedFields, component_deployment},
    model::{Capture, ComponentCheckpoint, GraphObserved, GraphPlan, Rollout, ValidGraph, is_current, is_stalled},
};

/// Plans the revisions of all workers: which is the target, how many replicas each has, which are done with.
pub(super) fn plan_workers(
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    workers: &[&DynamoComponentDeployment],
    (course, origin_version, now): (&Course, &str, Timestamp),
    plan: &mut GraphPlan,
) {
    let target = &course.target;
    // What a revision has beyond the spec goes, unless the workers stay of that revision.
    let stays = |d: &DynamoComponentDeployment| !course.is_of_spec || graph.has_worker(&d.spec.component.name);
    let (new, mut old): (Vec<_>, Vec<_>) =
        workers.iter().copied().partition(|d| revision::suffix_of(d) == target.suffix && stays(d));
    sort_by_age(&mut old);
    let revisions = revisions(&old);

    let live = live_workers(graph, (workers, &new), &revisions, (course, origin_version), &plan.checkpoints);
    // Components that the spec does not have any more.
    let beyond = new.iter().filter(|d| !graph.has_worker(&d.spec.component.name));
    plan.components.extend(beyond.map(|d| with_replicas(d, d.spec.component.desired_replicas())));

    let (components, targets) = planned(course, observed, &live, &plan.checkpoints);
    let hold = course.hold(graph, &components, !old.is_empty());
    let is_awaited = plan.checkpoints.iter().any(|one| one.awaited.is_some() && graph.has_worker(&one.component));
    let deadline = match is_awaited {
        true => Deadline::default(),
        false => deadline(course, graph, observed, &components, (&new, &revisions), now),
    };
    let all = if course.is_of_spec { graph.workers().count() } else { live.len() };
    let mut updated = Vec::new();
    for ((live, component), targets) in live.into_iter().zip(&components).zip(targets) {
        let LiveWorkers { mut desired, new, olds, .. } = live;
        desired.spec.component.replicas = Some(targets.new);
        plan.components.push(desired);
        let olds = || olds.iter().zip(&targets.old).filter_map(|(d, replicas)| Some(((*d)?, *replicas)));
        let recreate = component.strategy == RolloutStrategy::Recreate;
        if recreate && !course.is_frozen {
            // One that its controller cannot act on would never drain.
            let stuck = olds().filter(|(d, to)| *to == 0 && d.spec.component.desired_replicas() == 0 && is_stalled(d));
            plan.delete.extend(stuck.filter_map(|(d, _)| removal(observed, d)));
        }
        plan.old.extend(olds().map(|(d, replicas)| with_replicas(d, replicas)));
        if serves_alone(new, component.desired, olds().map(|(d, _)| d)) && (!recreate || component.drained) {
            updated.push(component.name.clone());
        }
    }
    // In a frozen rollout objects stay as well, so that only the user ends it.
    let is_replaced = !course.is_frozen && all > 0 && updated.len() == all;
    if is_replaced {
        // Every component's new workers carry the load: what is left of the old revisions can go, in one go.
        // Orphans are adopted first and go with the next pass: only what is ours is deleted.
        plan.old.retain(|d| old.iter().any(|o| o.name_any() == d.name_any() && !observed.is_owner(*o)));
        plan.delete.extend(old.iter().filter_map(|d| removal(observed, d)));
    } else if !course.is_frozen {
        collect_superseded(graph, observed, &revisions, plan);
    }
    plan.rollout = Rollout {
        target: target.suffix.clone(),
        is_behind: !course.is_of_spec,
        old: old.iter().map(|d| d.name_any()).collect(),
        updated,
        waits: old.iter().filter_map(|d| remains_of(observed, d)).collect(),
        hold: deadline.hold.or(hold),
        condition: deadline.condition,
        again: deadline.again,
    };
}

/// One worker component: its desired object of the target revision, but for the replicas, and what is live.
struct LiveWorkers<'a> {
    component: &'a ComponentSpec,
    strategy: RolloutStrategy,
    desired: DynamoComponentDeployment,
    new: Option<&'a DynamoComponentDeployment>,
    olds: Vec<Option<&'a DynamoComponentDeployment>>,
}

/// The worker components that the target revision has, or gets.
fn live_workers<'a>(
    graph: &'a ValidGraph<'_>,
    (workers, new): (&[&DynamoComponentDeployment], &[&'a DynamoComponentDeployment]),
    revisions: &[Revision<'a>],
    (course, origin_version): (&Course, &str),
    checkpoints: &[ComponentCheckpoint],
) -> Vec<LiveWorkers<'a>> {
    let of_component = |component: &'a ComponentSpec| {
        let new = new.iter().copied().find(|d| d.spec.component.name == component.name);
        if new.is_none() && (course.is_frozen || !course.is_of_spec) {
            // A frozen rollout creates nothing, and no revision but that of the spec gets components.
            return None;
        }
        let checkpoint = checkpoints::of(checkpoints, &component.name);
        let suffix = course.target.suffix.as_ref();
        // A live object keeps its value or none, so that an upgrade or a takeover writes nothing.
        let previous_revisions = match new {
            Some(live) => live.annotations().get(annotations::PREVIOUS_REVISIONS).cloned(),
            None => {
                let own = suffix.map_or(labels::LEGACY_REVISION, RevisionSuffix::as_str);
                revision_history::extended(own, workers)
            }
        };
        let placement = PlannedFields {
            revision: suffix,
            fingerprint: Some(&course.target.fingerprint),
            replicas: component.desired_replicas(),
            origin_version,
            previous_revisions: previous_revisions.as_deref(),
            checkpoint: checkpoint.map(|checkpoint| checkpoint.name.as_str()),
        };
        let of_spec = component_deployment(graph, component, placement);
        let strategy = strategy_of(&of_spec);
        let desired = match new.filter(|_| !course.is_of_spec) {
            Some(kept) => with_replicas(kept, kept.spec.component.desired_replicas()),
            None => {
                let mut desired = of_spec;
                spread::scope(&mut desired, new);
                desired
            }
        };
        let olds = revisions.iter().map(|revision| revision.of(&component.name)).collect();
        Some(LiveWorkers { component, strategy, desired, new, olds })
    };
    graph.workers().filter_map(of_component).collect()
}

/// The replicas of all worker components, with what they were planned from.
fn planned(
    course: &Course,
    observed: &GraphObserved,
    live: &[LiveWorkers<'_>],
    checkpoints: &[ComponentCheckpoint],
) -> (Vec<rollout::Component>, Vec<rollout::Targets>) {
    // Old and new workers do not talk to each other: none goes before all can come.
    let own = |live: &LiveWorkers<'_>| checkpoints::of(checkpoints, &live.component.name);
    let waits = live.iter().filter_map(own).any(|checkpoint| checkpoint.awaited.is_some());
    let lost = live.iter().filter_map(own).any(|checkpoint| checkpoint.capture == Capture::Lost);
    let component = |live: &LiveWorkers<'_>| {
        let component = live.component;
        let others_ended = observed.running_pods.iter().all(|(object, pods)| {
            pods.component != component.name || Some(object) == live.desired.metadata.name.as_ref() || pods.count == 0
        });
        rollout::Component {
            name: component.name.clone(),
            strategy: live.strategy.clone(),
            desired: component.desired_replicas(),
            new: live.new.map(new_counts).unwrap_or_default(),
            old: live.olds.iter().map(|old| old.map(live_counts)).collect(),
            drained: others_ended && live.olds.iter().flatten().all(|d| is_drained(observed, d)),
            capture: match own(live).map(|checkpoint| checkpoint.capture).unwrap_or_default() {
                // What it was emptied for is of no use without the others.
                Capture::Done if lost => Capture::Lost,
                own => own,
            },
            cap: course.step.map(|step| step.workers(component.desired_replicas())),
        }
    };
    let components: Vec<_> = live.iter().map(component).collect();
    let targets = if course.is_frozen {
        rollout::freeze(&components, course.is_oldest)
    } else if waits {
        rollout::hold(&components)
    } else {
        rollout::plan_capped(&components)
    };
    (components, targets)
}

/// Old revisions but for the oldest, which served alone before the rollout, were superseded before they were complete.
/// A worker that the user has removed from the spec goes with a revision that serves no requests, and a drained
/// revision is deleted at once.
fn collect_superseded(
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    revisions: &[Revision<'_>],
    plan: &mut GraphPlan,
) {
    for superseded in revisions.iter().skip(1) {
        let removed = superseded.members.iter().filter(|d| !graph.has_worker(&d.spec.component.name));
        if superseded.has_unserved_component() {
            plan.old.extend(removed.map(|d| with_replicas(d, 0)));
        }
        if superseded.members.iter().all(|d| is_drained(observed, d)) {
            plan.delete.extend(superseded.members.iter().filter_map(|d| removal(observed, d)));
        }
    }
}

/// Returns the rollout strategy of a component's workers. Annotations that cannot be read are reported by the component
/// itself; until they are corrected, the default is the careful choice.
fn strategy_of(desired: &DynamoComponentDeployment) -> RolloutStrategy {
    let quarter = || IntOrString::String("25%".to_owned());
    RolloutStrategy::from_annotations(Some(&rendering::component_annotations(desired)))
        .unwrap_or_else(|_| RolloutStrategy::RollingUpdate { max_surge: quarter(), max_unavailable: quarter() })
}

/// Replicas of a live worker of the target revision. A status of an older spec may count workers that are being removed.
fn new_counts(d: &DynamoComponentDeployment) -> LiveCounts {
    let counts = live_counts(d);
    LiveCounts { available: if is_current(d) { counts.available } else { 0 }, ..counts }
}

/// Describes the remains of an old worker; none if nothing is left.
fn remains_of(observed: &GraphObserved, d: &DynamoComponentDeployment) -> Option<String> {
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
fn is_drained(observed: &GraphObserved, d: &DynamoComponentDeployment) -> bool {
    let pods_reported = d.status.as_ref().and_then(|s| s.component.as_ref()).map_or(0, |c| c.replicas);
    d.spec.component.desired_replicas() == 0
        && is_current(d)
        && pods_reported == 0
        && !observed.running_pods.contains_key(&d.name_any())
}

/// Whether the target revision of a component has all its workers and the old ones serve no requests.
fn serves_alone<'a>(
    new: Option<&DynamoComponentDeployment>,
    desired: i32,
    mut old: impl Iterator<Item = &'a DynamoComponentDeployment>,
) -> bool {
    let new_serves = new.is_some_and(|d| {
        is_current(d) && d.spec.component.desired_replicas() == desired && ready_replicas(d) >= desired
    });
    // An old worker that its controller cannot act on keeps its pods until it is deleted.
    let is_done = |d: &DynamoComponentDeployment| {
        d.spec.component.desired_replicas() == 0 && is_current(d) && (ready_replicas(d) == 0 || is_stalled(d))
    };
    new_serves && old.all(is_done)
}
