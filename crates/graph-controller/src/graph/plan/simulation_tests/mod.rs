//! Random scripts of rollouts, simulated without a cluster. Worker components are edited, reverted, scaled, renamed,
//! added and removed, and they come up, lag, fail and flap independently of each other, while the controller dies
//! between any two writes or plans on an old picture. After every single write, what the revisions can serve together
//! is at least what is allowed. In the end, the objects are those of a fresh deployment.
//!
//! `DYNAMO_ROLLOUT_SCRIPTS` is the number of scripts per kind of workload [default: 1000, under control 200],
//! `DYNAMO_ROLLOUT_SEED` the first seed.

mod control_tests;
mod guard_tests;

use api_types::v1beta1::DynamoGraphDeployment;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Value, json};

use self::{
    control_tests::{ControlGuard, Controls},
    guard_tests::{Guard, total},
};
use super::*;
use crate::graph::{
    fixtures::{graph_with, live, observed, owner, set_available, set_image},
    model::{ClusterApis, RunningPods},
    validate::validate,
};

const SCRIPTS: u64 = 1000;
const STEPS: u64 = 40;
const NAMES: [&str; 4] = ["Decode", "Prefill", "Draft", "Other"];

/// A sequence that looks random and can be repeated.
struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn below(&mut self, sides: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % sides).unwrap()
    }

    /// A number of replicas from 0 to `most`.
    fn replicas(&mut self, most: i32) -> i32 {
        i32::try_from(self.below(u64::try_from(most).unwrap() + 1)).unwrap()
    }
}

/// Workload that runs the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkloadKind {
    Deployment,
    LeaderWorkerSet,
}

/// Replacement strategy of a component's workers: as annotations, and as the bounds that they allow.
#[derive(Clone, Copy, Debug)]
enum Steps {
    Default,
    NoSurge,
    NoSurgeAlone,
    FullSurge,
    Mixed,
    Recreate,
}

impl Steps {
    const ALL: [Self; 6] =
        [Self::Default, Self::NoSurge, Self::NoSurgeAlone, Self::FullSurge, Self::Mixed, Self::Recreate];

    fn annotations(self) -> Value {
        let (surge, unavailable) =
            ("nvidia.com/deployment-rolling-update-max-surge", "nvidia.com/deployment-rolling-update-max-unavailable");
        match self {
            Self::Default => json!({}),
            Self::NoSurge => json!({ surge: "0", unavailable: "1" }),
            Self::NoSurgeAlone => json!({ surge: "0" }),
            Self::FullSurge => json!({ surge: "100%", unavailable: "0" }),
            Self::Mixed => json!({ surge: "1", unavailable: "50%" }),
            Self::Recreate => json!({ "nvidia.com/deployment-strategy": "Recreate" }),
        }
    }

    /// Workers above and below the desired count.
    fn bounds(self, desired: i32) -> (i32, i32) {
        let (surge, unavailable) = match self {
            Self::Default => ((desired + 3) / 4, desired / 4),
            Self::NoSurge => (0, 1),
            Self::NoSurgeAlone => (0, (desired / 4).max(1)),
            Self::FullSurge => (desired, 0),
            Self::Mixed => (1, desired / 2),
            Self::Recreate => (0, desired),
        };
        (surge, unavailable.min(desired))
    }
}

/// A worker component in the spec.
#[derive(Clone, Debug)]
struct Desired {
    name: &'static str,
    replicas: i32,
    steps: Steps,
}

/// The API server rejected a write that was planned on another version.
struct Changed;

struct System {
    kind: WorkloadKind,
    image: usize,
    annotated: bool,
    desired: Vec<Desired>,
    components: Vec<DynamoComponentDeployment>,
    /// Pods of each object, terminating ones included, with their component.
    pods: BTreeMap<String, RunningPods>,
    /// Earlier pictures of the components, since the last edit and the last worker that failed by itself.
    past: Vec<Vec<DynamoComponentDeployment>>,
    clock: i64,
    /// User's control of the rollout; `None` for scripts without control.
    controls: Option<Controls>,
}

impl System {
    fn new(kind: WorkloadKind, desired: Vec<Desired>) -> Self {
        let (components, pods, past) = (vec![], BTreeMap::new(), vec![]);
        Self { kind, image: 0, annotated: true, desired, components, pods, past, clock: 1, controls: None }
    }

    fn graph(&self) -> DynamoGraphDeployment {
        graph_with(|g| {
            set_image(g, &format!("1.{}.0", self.image));
            let pattern = g["spec"]["components"].as_array_mut().unwrap().pop().unwrap();
            for desired in &self.desired {
                let mut worker = pattern.clone();
                worker["name"] = json!(desired.name);
                worker["type"] = json!(if desired.name == "Prefill" { "prefill" } else { "decode" });
                worker["replicas"] = json!(desired.replicas);
                worker["podTemplate"]["metadata"] = json!({ "annotations": desired.steps.annotations() });
                if self.kind == WorkloadKind::LeaderWorkerSet {
                    worker["multinode"] = json!({ "nodeCount": 2 });
                }
                g["spec"]["components"].as_array_mut().unwrap().push(worker);
            }
            if self.annotated {
                g["metadata"]["annotations"] = json!({ "nvidia.com/current-worker-hash": "whatever",
                    "nvidia.com/dynamo-operator-origin-version": "1.4.0" });
            }
            if let Some(controls) = &self.controls {
                let has_recreate = self.desired.iter().any(|desired| matches!(desired.steps, Steps::Recreate));
                controls.write_to(g, has_recreate);
            }
        })
    }

    fn component(&self, name: &str) -> Option<&Desired> {
        self.desired.iter().find(|desired| desired.name == name)
    }

    /// One pass on the picture of the cache, which ends after so many writes.
    fn reconcile(&mut self, picture: &[DynamoComponentDeployment], writes: usize, dice: &mut Dice) {
        let graph = self.graph();
        let served = ClusterApis { leader_worker_sets: true, ..ClusterApis::default() };
        let running_pods = self.pods.clone();
        let observed = GraphObserved { served, running_pods, ..observed(&graph, picture.to_vec()) };
        let valid = validate(&observed, crate::graph::fixtures::settings()).unwrap();
        let now = self.controls.as_ref().map_or(Timestamp::UNIX_EPOCH, Controls::now);
        let mut plan = plan(&valid, &observed, now);
        let target = plan.rollout.target.clone();
        let mut guard = Guard::of(self, target.as_ref(), plan.rollout.is_behind);
        let control = ControlGuard::of(self, &plan, picture == self.components);
        if picture != self.components {
            // A new object can be one too many for a moment. Only what serves is safe from an old picture.
            guard.ceilings.clear();
        }
        // Desired components are written at once, so any of them may be the first.
        let first = dice.below(plan.components.len() as u64);
        plan.components.rotate_left(first);
        let mut left = writes;
        for desired in plan.components.iter().chain(&plan.old) {
            if left == 0 {
                return;
            }
            match self.write(desired, picture.iter().find(|d| d.name_any() == desired.name_any())) {
                Ok(written) => left -= usize::from(written),
                Err(Changed) => return,
            }
            guard.check(self, target.as_ref());
            control.check(self);
        }
        for removal in plan.delete.iter().take(left) {
            let version = |all: &[DynamoComponentDeployment]| {
                let found = all.iter().find(|d| d.metadata.uid.as_ref() == Some(&removal.uid));
                found.and_then(|d| d.metadata.resource_version.clone())
            };
            if version(picture) != version(&self.components) {
                return;
            }
            self.tick();
            self.components.retain(|d| d.metadata.uid.as_ref() != Some(&removal.uid));
            guard.check(self, target.as_ref());
            control.check(self);
        }
        let live = self.components.clone();
        if let Some(controls) = self.controls.as_mut().filter(|_| left > plan.delete.len())
            && controls.write_status(&observed, &plan, live)
        {
            // As with an edit: a process that sees a rejection has seen what was written before it.
            self.past.clear();
        }
    }

    fn tick(&mut self) -> String {
        self.clock += 1;
        self.clock.to_string()
    }

    /// Simulates the write of one object by the apply engine and the API server. `picture` is the object in the cache.
    fn write(
        &mut self,
        desired: &DynamoComponentDeployment,
        picture: Option<&DynamoComponentDeployment>,
    ) -> Result<bool, Changed> {
        let name = desired.name_any();
        let is_desired =
            |d: &DynamoComponentDeployment| d.spec == desired.spec && d.metadata.owner_references.is_some();
        if picture.is_some_and(is_desired) {
            return Ok(false);
        }
        let version = self.tick();
        let known = self.components.iter_mut().find(|d| d.name_any() == name);
        let Some(known) = known else {
            if picture.is_some() {
                return Err(Changed);
            }
            self.start(desired);
            let mut new = live(desired, 0);
            new.metadata.uid = Some(format!("uid-{version}"));
            new.metadata.creation_timestamp = Some(Time(Timestamp::from_second(self.clock).unwrap()));
            (new.metadata.resource_version, new.status) = (Some(version), None);
            self.components.push(new);
            return Ok(true);
        };
        if picture.is_none_or(|picture| picture.metadata.resource_version != known.metadata.resource_version) {
            return Err(Changed);
        }
        known.metadata.owner_references = Some(vec![owner()]);
        known.metadata.resource_version = Some(version);
        let is_more = desired.spec.component.desired_replicas() > known.spec.component.desired_replicas();
        if known.spec != desired.spec {
            known.spec = desired.spec.clone();
            known.metadata.generation = known.metadata.generation.map(|g| g + 1);
        }
        if is_more {
            self.start(desired);
        }
        Ok(true)
    }

    /// Pods of an object start.
    fn start(&self, d: &DynamoComponentDeployment) {
        let (name, component) = (d.name_any(), &d.spec.component.name);
        let recreate = self.component(component).is_some_and(|desired| matches!(desired.steps, Steps::Recreate));
        if recreate && d.spec.component.desired_replicas() > 0 {
            let others = self.pods.iter().filter(|(other, pods)| **other != name && pods.component == *component);
            let left: Vec<_> = others.filter(|(_, pods)| pods.count > 0).collect();
            assert!(left.is_empty(), "{name} starts beside {left:?}");
        }
    }

    /// Sets the status that the component controller writes of one object. Its surplus pods have ended, or not.
    fn set_component_status(&mut self, which: usize, ready: i32, ended: bool) {
        let version = self.tick();
        let Some(d) = self.components.get_mut(which) else { return };
        let (name, replicas) = (d.name_any(), d.spec.component.desired_replicas());
        if ready.min(replicas) < serving(d) {
            self.past.clear();
        }
        set_available(d, ready.min(replicas));
        d.metadata.resource_version = Some(version);
        let component = d.spec.component.name.clone();
        let pods = self.pods.entry(name.clone()).or_insert(RunningPods { component, count: 0 });
        let count = usize::try_from(replicas).unwrap();
        pods.count = if ended { count } else { pods.count.max(count) };
        let count = pods.count;
        if let Some(status) = d.status.as_mut().and_then(|status| status.component.as_mut()) {
            status.replicas = i32::try_from(count).unwrap();
        }
        self.pods.retain(|_, pods| pods.count > 0);
    }

    fn step(&mut self, dice: &mut Dice) {
        let worker = dice.below(self.desired.len() as u64);
        let what = dice.below(if self.controls.is_some() { 32 } else { 24 });
        if !(7..=23).contains(&what) {
            // A process that sees an edit has seen what was written before it.
            self.past.clear();
        }
        match what {
            0 | 1 => self.image = dice.below(3),
            2 => self.annotated = false,
            3 => self.components.iter_mut().for_each(|d| d.metadata.owner_references = None),
            4 => self.desired[worker].replicas = dice.replicas(8),
            5 => match self.desired.len() {
                1 => self.rename_or_add(dice, None),
                _ => drop(self.desired.remove(worker)),
            },
            6 => self.rename_or_add(dice, Some(worker).filter(|_| self.desired.len() > 1)),
            7 => {
                // Pods of deleted objects end, and an object goes by hand.
                let names: BTreeSet<_> = self.components.iter().map(ResourceExt::name_any).collect();
                match dice.below(4) {
                    0 if !self.components.is_empty() => {
                        self.components.remove(dice.below(self.components.len() as u64));
                        self.past.clear();
                    }
                    _ => self.pods.retain(|name, _| names.contains(name)),
                }
            }
            8..=10 => self.reconcile(&self.components.clone(), dice.below(5), dice),
            11..=13 => self.reconcile(&self.components.clone(), 99, dice),
            14 if !self.past.is_empty() => {
                let old = self.past[dice.below(self.past.len() as u64)].clone();
                self.reconcile(&old, 99, dice);
            }
            24.. => {
                if let Some(controls) = &mut self.controls {
                    controls.change(dice);
                }
            }
            _ if !self.components.is_empty() => {
                let which = dice.below(self.components.len() as u64);
                let d = &self.components[which];
                let (replicas, before) = (d.spec.component.desired_replicas(), serving(d));
                // Of every third image, one component never comes up.
                let hopeless = self.image == 2 && d.spec.component.name == NAMES[dice.below(2)];
                let ready = match dice.below(4) {
                    _ if hopeless => before,
                    0 => dice.replicas(replicas.max(0)),
                    1 => before,
                    _ => replicas,
                };
                self.set_component_status(which, ready, dice.below(3) > 0);
            }
            _ => {}
        }
        self.past.push(self.components.clone());
    }

    /// A component that there is not yet, instead of another one if it is given.
    fn rename_or_add(&mut self, dice: &mut Dice, instead: Option<usize>) {
        let free: Vec<_> = NAMES.into_iter().filter(|name| self.component(name).is_none()).collect();
        if free.is_empty() {
            return;
        }
        let name = free[dice.below(free.len() as u64)];
        match instead {
            Some(index) => self.desired[index].name = name,
            None => self.desired.push(Desired { name, replicas: dice.replicas(8), steps: any_steps(dice) }),
        }
    }

    /// From now on nothing fails: everything desired comes up, and pods end.
    fn settle(&mut self, dice: &mut Dice) {
        for round in 0..200 {
            let before = self.clock;
            self.reconcile(&self.components.clone(), 99, dice);
            let settled = self.clock == before && round > 0;
            let names: BTreeSet<_> = self.components.iter().map(ResourceExt::name_any).collect();
            self.pods.retain(|name, _| names.contains(name));
            for which in 0..self.components.len() {
                let replicas = self.components[which].spec.component.desired_replicas();
                self.set_component_status(which, replicas, true);
            }
            if settled {
                return;
            }
        }
        panic!("the rollout does not end");
    }

    fn objects(&self) -> BTreeSet<(String, Option<i32>)> {
        self.components.iter().map(|d| (d.name_any(), d.spec.component.replicas)).collect()
    }
}

/// Workers that can serve by the reports, less those that a written scale-down takes away.
fn serving(d: &DynamoComponentDeployment) -> i32 {
    let status = d.status.as_ref().and_then(|s| s.component.as_ref());
    let available = status.and_then(|c| c.available_replicas).unwrap_or(0);
    available.min(d.spec.component.desired_replicas())
}

fn any_steps(dice: &mut Dice) -> Steps {
    Steps::ALL[dice.below(Steps::ALL.len() as u64)]
}

fn play(kind: WorkloadKind, controls: Option<Controls>, seed: u64) {
    let mut dice = Dice(seed);
    let mut system = System { controls, ..System::new(kind, vec![]) };
    for _ in 0..=dice.below(3) {
        system.rename_or_add(&mut dice, None);
    }
    if dice.below(4) > 0 {
        system.settle(&mut dice);
    }
    for _ in 0..STEPS {
        system.step(&mut dice);
    }
    if let Some(controls) = &mut system.controls {
        let was_refused = controls.resume();
        if was_refused {
            // A refused revision comes back with a change only.
            system.image = 3;
        }
    }
    system.settle(&mut dice);
    let ended = system.objects();
    let mut fresh = System { components: vec![], pods: BTreeMap::new(), past: vec![], controls: None, ..system };
    fresh.settle(&mut dice);
    assert_eq!(ended, fresh.objects());
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn play_all(kind: WorkloadKind, controls: Option<&Controls>) {
    let scripts = if controls.is_some() { SCRIPTS / 5 } else { SCRIPTS };
    let (first, count) = (setting("DYNAMO_ROLLOUT_SEED", 1), setting("DYNAMO_ROLLOUT_SCRIPTS", scripts));
    for seed in first..first + count {
        let played = std::panic::catch_unwind(|| play(kind, controls.cloned(), seed));
        assert!(played.is_ok(), "DYNAMO_ROLLOUT_SEED={seed} DYNAMO_ROLLOUT_SCRIPTS=1 plays the script that failed");
    }
}

#[test]
fn no_script_takes_away_what_deployments_serve() {
    play_all(WorkloadKind::Deployment, None);
}

#[test]
fn no_script_takes_away_what_leader_worker_sets_serve() {
    play_all(WorkloadKind::LeaderWorkerSet, None);
}

fn two_workers(steps: Steps) -> System {
    let desired = |name| Desired { name, replicas: 4, steps };
    System::new(WorkloadKind::Deployment, vec![desired("Decode"), desired("Prefill")])
}

/// A pipeline deploys a broken image under a new tag with every commit, and renames a component now and then.
#[test]
fn superseded_revisions_are_collected_at_once() {
    let mut dice = Dice(1);
    let mut system = two_workers(Steps::Default);
    system.settle(&mut dice);
    for image in 1..50 {
        system.image = image;
        system.desired[1].name = NAMES[1 + image / 10 % 3];
        for _ in 0..4 {
            system.reconcile(&system.components.clone(), 99, &mut dice);
            for which in 0..system.components.len() {
                let ready = serving(&system.components[which]);
                system.set_component_status(which, ready, true);
            }
        }
        // A frontend, the revision that serves, and the target.
        assert_eq!(system.components.len(), 5, "{:?}", system.objects());
        assert_eq!(total(&system.serving("Decode")), 3);
    }
    system.settle(&mut dice);
    assert_eq!(system.components.len(), 3);
}

#[test]
fn recreate_waits_for_pods_of_a_deleted_object() {
    let mut dice = Dice(1);
    let mut system = two_workers(Steps::Recreate);
    system.settle(&mut dice);
    system.image = 1;
    system.components.retain(|d| d.spec.component.name != "Decode");
    for pods_end in [false, true] {
        if pods_end {
            system.pods.retain(|_, pods| pods.component != "Decode");
        }
        system.reconcile(&system.components.clone(), 99, &mut dice);
        let requested = NAMES[..2].iter().map(|name| system.requested(name)).collect::<Vec<_>>();
        assert_eq!(requested, [if pods_end { 4 } else { 0 }, 0]);
    }
}
