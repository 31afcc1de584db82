//! The same scripts under control: paused and resumed, undone, held at steps that move, and with deadlines that pass.

use api_types::{
    annotations::{PROGRESS_DEADLINE, ROLLOUT, ROLLOUT_STEP},
    names::RevisionSuffix,
    rollout_control::rollout_control,
    v1beta1::DynamoGraphDeploymentStatus,
};

use super::*;
use crate::graph::{
    model::{GraphApplied, RolloutCondition, RolloutRecord},
    status::status,
};

/// Seconds of the deadline.
const DEADLINE: i64 = 60;

/// User's control of the rollout, and the recorded status.
#[derive(Clone, Debug, Default)]
pub(super) struct Controls {
    stop: Option<&'static str>,
    step: Option<&'static str>,
    has_deadline: bool,
    seconds: i64,
    status: Option<DynamoGraphDeploymentStatus>,
}

impl Controls {
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_second(self.seconds).unwrap()
    }

    pub(super) fn write_to(&self, graph: &mut Value, has_recreate: bool) {
        let deadline = self.has_deadline.then(|| format!("{DEADLINE}s"));
        let step = self.step.filter(|_| !has_recreate);
        for (key, value) in [(ROLLOUT, self.stop), (ROLLOUT_STEP, step), (PROGRESS_DEADLINE, deadline.as_deref())] {
            if let Some(value) = value {
                graph["metadata"]["annotations"][key] = json!(value);
            }
        }
        if let Some(status) = &self.status {
            graph["status"] = json!(status);
        }
    }

    pub(super) fn change(&mut self, dice: &mut Dice) {
        match dice.below(8) {
            0 => self.stop = Some("paused"),
            1 => self.stop = Some("undone"),
            2 | 3 => self.stop = None,
            4 => self.step = [None, Some("1"), Some("25%"), Some("50%"), Some("100%")][dice.below(5)],
            5 => self.has_deadline = !self.has_deadline,
            _ => self.seconds += i64::from(dice.replicas(100)),
        }
    }

    /// Writes the status. Gives whether another revision is refused than before, or none any more.
    pub(super) fn write_status(
        &mut self,
        observed: &GraphObserved,
        plan: &GraphPlan,
        live: Vec<DynamoComponentDeployment>,
    ) -> bool {
        let applied = GraphApplied { live, ..GraphApplied::default() };
        let before = self.refused();
        self.status = Some(status(observed, plan, &applied, None, self.now()));
        before != self.refused()
    }

    /// Removes all annotations. Gives whether a revision is refused.
    pub(super) fn resume(&mut self) -> bool {
        (self.stop, self.step, self.has_deadline) = (None, None, false);
        self.refused().is_some()
    }

    /// The record of a refused revision.
    fn refused(&self) -> Option<RolloutRecord> {
        let (_, record) = RolloutCondition::stored(&self.status.as_ref()?.conditions)?;
        matches!(record, RolloutRecord::Undone { .. }).then_some(record)
    }
}

/// Changes that a controlled pass must not make.
pub(super) struct ControlGuard {
    /// Replicas of worker objects before the pass that must not change; a bound where the second is true.
    frozen: BTreeMap<String, (i32, bool)>,
    /// The most replicas of objects of a target that is held at a step.
    caps: BTreeMap<String, i32>,
}

impl ControlGuard {
    pub(super) fn of(system: &System, plan: &GraphPlan, is_current: bool) -> Self {
        let none = Self { frozen: BTreeMap::new(), caps: BTreeMap::new() };
        let graph = system.graph();
        let control = rollout_control(graph.annotations(), false, &[]).unwrap();
        if system.controls.is_none() || !is_current {
            return none;
        }
        let workers: Vec<_> = system.components.iter().filter(|d| d.spec.component.is_worker()).collect();
        let of_target = |d: &DynamoComponentDeployment| revision::suffix_of(d) == plan.rollout.target;
        let is_paused = system.controls.as_ref().is_some_and(|controls| controls.stop == Some("paused"));
        if is_paused && workers.iter().any(|d| !of_target(d)) {
            let frozen = workers.iter().map(|d| {
                let desired = system.component(&d.spec.component.name);
                let lacks = desired.is_some_and(|desired| {
                    let floor = desired.replicas - desired.steps.bounds(desired.replicas).1;
                    system.requested(desired.name) < floor
                });
                (d.name_any(), (d.spec.component.desired_replicas(), lacks))
            });
            return Self { frozen: frozen.collect(), ..none };
        }
        let oldest = workers.iter().map(|d| &d.metadata.creation_timestamp).min();
        let is_oldest = workers.iter().any(|d| of_target(d) && Some(&d.metadata.creation_timestamp) == oldest);
        let Some(step) = control.step.filter(|_| plan.rollout.in_progress() && !plan.rollout.is_behind && !is_oldest)
        else {
            return none;
        };
        let capped = plan.components.iter().filter(|d| d.spec.component.is_worker()).map(|d| {
            let (name, desired) = (d.name_any(), system.component(&d.spec.component.name).unwrap());
            let live = workers.iter().find(|live| live.name_any() == name);
            let before = live.map_or(0, |live| live.spec.component.desired_replicas());
            (name, step.workers(desired.replicas).max(before))
        });
        Self { caps: capped.collect(), ..none }
    }

    pub(super) fn check(&self, system: &System) {
        let replicas: BTreeMap<_, _> =
            system.components.iter().map(|d| (d.name_any(), d.spec.component.desired_replicas())).collect();
        for (name, (before, may_grow)) in &self.frozen {
            let now = replicas.get(name).unwrap_or_else(|| panic!("{name} is deleted in a paused rollout"));
            assert!(now == before || (now > before && *may_grow), "{name}: {before} -> {now} in a paused rollout");
        }
        for (name, cap) in &self.caps {
            assert!(replicas.get(name).is_none_or(|now| now <= cap), "{name}: {replicas:?} above {cap}");
        }
        if !self.frozen.is_empty() {
            let workers = system.components.iter().filter(|d| d.spec.component.is_worker());
            let names: BTreeSet<_> = workers.map(ResourceExt::name_any).collect();
            assert!(names.iter().all(|name| self.frozen.contains_key(name)), "{names:?} in a paused rollout");
        }
    }
}

#[test]
fn no_controlled_script_takes_away_what_deployments_serve() {
    play_all(WorkloadKind::Deployment, Some(&Controls::default()));
}

#[test]
fn no_controlled_script_takes_away_what_leader_worker_sets_serve() {
    play_all(WorkloadKind::LeaderWorkerSet, Some(&Controls::default()));
}

fn suffixes(system: &System) -> BTreeSet<Option<RevisionSuffix>> {
    let workers = system.components.iter().filter(|d| d.spec.component.is_worker());
    workers.map(revision::suffix_of).collect()
}

fn controlled(controls: Controls, dice: &mut Dice) -> System {
    let mut system = System { controls: Some(controls), ..two_workers(Steps::Default) };
    system.settle(dice);
    system
}

/// Passes in which new workers of the live revisions come up, or, of `broken`, do not.
fn pass(system: &mut System, broken: Option<&RevisionSuffix>, dice: &mut Dice) {
    let writes = if dice.below(3) == 0 { dice.below(4) } else { 99 };
    system.reconcile(&system.components.clone(), writes, dice);
    for which in 0..system.components.len() {
        let d = &system.components[which];
        let is_broken = revision::suffix_of(d).as_ref() == broken && broken.is_some();
        let replicas = d.spec.component.desired_replicas();
        system.set_component_status(which, if is_broken { 0 } else { replicas }, true);
    }
    let names: BTreeSet<_> = system.components.iter().map(ResourceExt::name_any).collect();
    system.pods.retain(|name, _| names.contains(name));
}

#[test]
fn a_rollout_without_progress_is_undone_and_stays_undone_until_the_spec_changes() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let mut system = controlled(Controls { has_deadline: true, ..Controls::default() }, &mut dice);
        let first = suffixes(&system);
        system.image = 1;
        let graph = system.graph();
        let observed = observed(&graph, vec![]);
        let valid = validate(&observed, crate::graph::fixtures::settings()).unwrap();
        let refused = RevisionSuffix::of(&revision::fingerprint(&valid), 0);
        for _ in 0..200 {
            pass(&mut system, Some(&refused), &mut dice);
            system.controls.as_mut().unwrap().seconds += i64::from(dice.replicas(5));
        }
        assert_eq!(suffixes(&system), first, "seed {seed}");
        assert_eq!((system.requested("Decode"), system.requested("Prefill")), (4, 4));
        // Neither time, failing workers, scaling nor a removed annotation brings it back.
        for _ in 0..50 {
            let controls = system.controls.as_mut().unwrap();
            controls.seconds += i64::from(dice.replicas(100));
            controls.has_deadline = dice.below(2) == 0;
            system.desired[0].replicas = 1 + dice.replicas(5);
            let which = dice.below(system.components.len() as u64);
            system.set_component_status(which, 0, true);
            system.reconcile(&system.components.clone(), 99, &mut dice);
            assert_eq!(suffixes(&system), first, "seed {seed}");
        }
        system.image = 3;
        system.settle(&mut dice);
        assert_ne!(suffixes(&system), first, "another spec rolls out");
        let fresh = suffixes(&system);
        system.image = 1;
        system.settle(&mut dice);
        assert_ne!(suffixes(&system), fresh, "the refused one is tried again after another");
    }
}

#[test]
fn a_paused_edit_starts_nothing_and_the_live_revision_scales() {
    let mut dice = Dice(1);
    let mut system = controlled(Controls { stop: Some("paused"), ..Controls::default() }, &mut dice);
    let first = suffixes(&system);
    system.image = 1;
    for replicas in [6, 2] {
        system.desired[0].replicas = replicas;
        system.settle(&mut dice);
        assert_eq!((suffixes(&system), system.requested("Decode")), (first.clone(), replicas));
    }
    system.controls.as_mut().unwrap().stop = None;
    system.settle(&mut dice);
    assert!(suffixes(&system).is_disjoint(&first));
}

#[test]
fn a_canary_keeps_its_share_while_the_graph_is_scaled() {
    let mut dice = Dice(1);
    let mut system = controlled(Controls { step: Some("25%"), ..Controls::default() }, &mut dice);
    let first = suffixes(&system).pop_first().unwrap();
    system.image = 1;
    // desired -> of the new revision, of the old one
    for (desired, new, old) in [(4, 1, 3), (8, 2, 6), (16, 4, 12), (12, 4, 8)] {
        (system.desired[0].replicas, system.desired[1].replicas) = (desired, desired);
        for _ in 0..20 {
            pass(&mut system, None, &mut dice);
        }
        let serving = system.serving("Decode");
        assert_eq!((total(&serving), serving[&first]), (new + old, old), "{desired} desired");
    }
    system.controls.as_mut().unwrap().step = Some("50%");
    for _ in 0..20 {
        pass(&mut system, None, &mut dice);
    }
    assert_eq!(system.serving("Decode")[&first], 6);
    system.image = 0;
    system.settle(&mut dice);
    assert_eq!(suffixes(&system), BTreeSet::from([first]), "a revert is not held");
}
