//! Random scripts of edits, reverts, replaced metadata, scaling, renamed components, components that do not start,
//! deleted pods and killed controllers: whatever a user does, workers that can serve never fall below what the
//! strategy allows, nor does what the revisions of the graph can serve as a whole, and in the end it is as if the last
//! spec had been the first.
//!
//! `DYNAMO_ROLLOUT_SCRIPTS` says how many scripts run [default: 3], `DYNAMO_ROLLOUT_SEED` with which one they begin.
//! Every second one is of workers that span nodes. Where a number is given, all of them have to run.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use end_to_end::{BoxError, Harness, Operators, harness};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use rendering::LeaderWorkerSet;
use serde_json::{Value, json};
use tokio::{sync::Mutex, task::JoinHandle};

use crate::{
    graphs::disaggregated,
    nodes::{Player, harness_with_sets, spanning},
};

const PATIENCE: Duration = Duration::from_secs(120);
const SCRIPTS: u64 = 3;
/// The variable that says how many.
const COUNT: &str = "DYNAMO_ROLLOUT_SCRIPTS";
const STEPS: u32 = 6;
pub const TAGS: [&str; 3] = ["1.0.0", "2.0.0", "3.0.0"];
/// The names that the prefill workers can have.
const PREFILL: [&str; 2] = ["Prefill", "Prefetch"];
/// The least common multiple of all replica counts: every share is a whole number of these parts.
const WHOLE: i32 = 60;
/// The name of the graph, and that of the one that is made afresh.
pub const NAMES: [&str; 2] = ["chat", "anew"];

/// A sequence that looks random and can be repeated.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Workload kind of the decode workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Deployment,
    LeaderWorkerSet,
}

/// The spec that the user applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesiredGraph {
    kind: Kind,
    pub tag: usize,
    replicas: i32,
    /// Replicas of the prefill workers.
    pub prefill: i32,
    /// The prefill workers have another name.
    renamed: bool,
    /// The worker component whose pods find no node, by its place.
    stuck: Option<usize>,
}

impl DesiredGraph {
    pub fn new(kind: Kind, tag: usize, replicas: i32) -> Self {
        Self { kind, tag, replicas, prefill: 1, renamed: false, stuck: None }
    }

    pub fn graph(self, name: &str) -> Value {
        let mut graph = match self.kind {
            Kind::Deployment => disaggregated(name, TAGS[self.tag], self.prefill, self.replicas),
            Kind::LeaderWorkerSet => spanning(TAGS[self.tag], self.replicas),
        };
        graph["metadata"]["name"] = name.into();
        if self.kind == Kind::Deployment && self.renamed {
            graph["spec"]["components"][1]["name"] = PREFILL[1].into();
        }
        if let Some(stuck) = self.stuck {
            graph["spec"]["components"][stuck]["podTemplate"]["spec"]["nodeSelector"] = json!({ "no": "such-node" });
        }
        graph
    }

    /// Returns the number of prefill and decode workers that serve while nothing is scaled and no pod fails.
    fn whole(self) -> Option<(i32, i32)> {
        let counts = self.kind == Kind::Deployment && self.prefill > 0 && self.replicas > 0;
        counts.then_some((self.prefill, self.replicas))
    }

    /// Workers that may never be missing: a quarter of them, rounded down, may.
    fn floor(self) -> i32 {
        self.replicas - self.replicas / 4
    }
}

/// Whether a pod serves.
fn serves(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.filter(|c| c.type_ == "Ready").any(|c| c.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Returns the capacity that the revisions lack as a whole. The capacity of a revision is that of its scarcest
/// component; prefill workers count under either name.
async fn missing(harness: &Harness, (prefill, decode): (i32, i32)) -> Result<Option<String>, BoxError> {
    let selector = format!("nvidia.com/dynamo-graph-deployment-name={}", NAMES[0]);
    let pods = harness.api::<Pod>().list(&ListParams::default().labels(&selector)).await?;
    let mut revisions: BTreeMap<String, (i32, i32)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let (labels, one) = (pod.labels(), i32::from(serves(pod)));
        let Some(revision) = labels.get("nvidia.com/dynamo-worker-hash") else { continue };
        let (of_prefill, of_decode) = revisions.entry(revision.clone()).or_default();
        match labels.get("nvidia.com/dynamo-component").map(String::as_str) {
            Some("Decode") => *of_decode += one,
            Some(name) if PREFILL.contains(&name) => *of_prefill += one,
            _ => {}
        }
    }
    let share = |(of_prefill, of_decode): &(i32, i32)| (of_prefill * WHOLE / prefill).min(of_decode * WHOLE / decode);
    let found: i32 = revisions.values().map(share).sum();
    let lost = [prefill, decode].map(|desired| desired / 4 * WHOLE / desired);
    // Several old revisions may leave fragments.
    let old = i32::try_from(revisions.len().saturating_sub(2))?;
    let allowed = WHOLE - lost[0].max(lost[1]) - old * WHOLE / prefill.min(decode);
    Ok((found < allowed).then(|| format!("{found} of {WHOLE} can be served, and {allowed} must: {revisions:?}")))
}

/// Decode workers of the graph that serve.
async fn serving(harness: &Harness, kind: Kind) -> Result<i32, BoxError> {
    match kind {
        Kind::Deployment => {
            let selector =
                format!("nvidia.com/dynamo-component=Decode,nvidia.com/dynamo-graph-deployment-name={}", NAMES[0]);
            let pods = harness.api::<Pod>().list(&ListParams::default().labels(&selector)).await?;
            Ok(i32::try_from(pods.iter().filter(|pod| serves(pod)).count())?)
        }
        Kind::LeaderWorkerSet => {
            let sets = harness.api::<LeaderWorkerSet>().list(&ListParams::default()).await?;
            let of_graph = sets.iter().filter(|set| set.name_any().starts_with(NAMES[0]));
            let ready = |set: &LeaderWorkerSet| set.status.as_ref().map_or(0, |status| status.ready_replicas);
            Ok(of_graph.map(|set| ready(set).min(set.spec.replicas.unwrap_or(1))).sum())
        }
    }
}

/// Watches that enough workers serve.
pub struct Guard {
    floor: Arc<AtomicI32>,
    whole: Arc<Mutex<Option<(i32, i32)>>>,
    task: JoinHandle<Result<(), BoxError>>,
}

impl Guard {
    pub fn start(harness: &Arc<Harness>, kind: Kind) -> Self {
        let floor = Arc::new(AtomicI32::new(0));
        let whole = Arc::new(Mutex::new(None));
        let (harness, expected, as_whole) = (Arc::clone(harness), Arc::clone(&floor), Arc::clone(&whole));
        let task = tokio::spawn(async move {
            loop {
                // What was allowed before and after the read: the user may have changed it meanwhile.
                let before = expected.load(Ordering::SeqCst);
                let found = serving(&harness, kind).await?;
                let allowed = before.min(expected.load(Ordering::SeqCst));
                if found < allowed {
                    return Err(format!("{found} workers serve, and {allowed} must").into());
                }
                let demand = *as_whole.lock().await;
                if let Some(demand) = demand {
                    let missing = missing(&harness, demand).await?;
                    if let Some(missing) = missing.filter(|_| as_whole.try_lock().is_ok_and(|now| *now == Some(demand)))
                    {
                        return Err(missing.into());
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { floor, whole, task }
    }

    /// From now on fewer may serve.
    async fn lower(&self, floor: i32) {
        self.floor.fetch_min(floor, Ordering::SeqCst);
        *self.whole.lock().await = None;
    }

    /// All workers are there.
    pub async fn raise(&self, desired: DesiredGraph) {
        self.floor.store(desired.floor(), Ordering::SeqCst);
        *self.whole.lock().await = desired.whole();
    }

    /// Whether it has found too few.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    pub async fn end(self) -> Result<(), BoxError> {
        if self.task.is_finished() {
            return self.task.await?;
        }
        self.task.abort();
        Ok(())
    }
}

/// Replaces the graph as `kubectl replace` does: with the spec that the user applies, and no annotation of others.
async fn replace(harness: &Harness, desired: DesiredGraph) -> Result<(), BoxError> {
    let api = harness.api::<DynamoGraphDeployment>();
    loop {
        let live = api.get(NAMES[0]).await?;
        let mut expected: DynamoGraphDeployment = serde_json::from_value(desired.graph(NAMES[0]))?;
        expected.metadata.resource_version = live.metadata.resource_version;
        match api.replace(NAMES[0], &PostParams::default(), &expected).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            answer => return Ok(answer.map(drop)?),
        }
    }
}

async fn step(
    harness: &Harness,
    operators: &Operators,
    dice: &mut Dice,
    guard: &Guard,
    desired: &mut DesiredGraph,
) -> Result<String, BoxError> {
    let history = match dice.below(9) {
        0 | 1 => {
            desired.tag = usize::try_from(dice.below(TAGS.len() as u64))?;
            desired.stuck = None;
            harness.apply(&desired.graph(NAMES[0])).await?;
            format!("image {}", TAGS[desired.tag])
        }
        2 => {
            (desired.replicas, desired.prefill) = (i32::try_from(dice.below(6))?, i32::try_from(dice.below(6))?);
            guard.lower(desired.floor()).await;
            harness.apply(&desired.graph(NAMES[0])).await?;
            format!("{} and {} replicas", desired.prefill, desired.replicas)
        }
        3 => {
            replace(harness, *desired).await?;
            "replaced".to_owned()
        }
        4 => {
            operators.stop().await?;
            operators.start_again().await?;
            "killed".to_owned()
        }
        5 if desired.kind == Kind::Deployment => {
            let stuck = 1 + usize::try_from(dice.below(2))?;
            desired.stuck = Some(stuck);
            harness.apply(&desired.graph(NAMES[0])).await?;
            format!("component {stuck} finds no node")
        }
        6 if desired.kind == Kind::Deployment => {
            desired.renamed = !desired.renamed;
            harness.apply(&desired.graph(NAMES[0])).await?;
            format!("{} by name", PREFILL[usize::from(desired.renamed)])
        }
        7 if desired.kind == Kind::Deployment => {
            guard.lower(0).await;
            let pods = harness.api::<Pod>();
            let all = pods.list(&ListParams::default()).await?.items;
            let victim = all.get(usize::try_from(dice.below(all.len().max(1) as u64))?);
            if let Some(victim) = victim.map(ResourceExt::name_any) {
                // It may be gone by now.
                drop(pods.delete(&victim, &DeleteParams::default()).await);
            }
            "a pod deleted".to_owned()
        }
        _ => {
            if desired.stuck.take().is_some() {
                harness.apply(&desired.graph(NAMES[0])).await?;
            }
            harness.ready(NAMES[0]).await?;
            guard.raise(*desired).await;
            "ready".to_owned()
        }
    };
    tokio::time::sleep(Duration::from_millis(dice.below(900))).await;
    Ok(history)
}

async fn run(seed: u64) -> Result<(), BoxError> {
    let kind = if seed.is_multiple_of(2) { Kind::Deployment } else { Kind::LeaderWorkerSet };
    let harness = match kind {
        Kind::Deployment => harness("script").await?,
        Kind::LeaderWorkerSet => match harness_with_sets("script-nodes").await? {
            Some(harness) => harness,
            None if std::env::var_os(COUNT).is_some() => {
                return Err(format!("{COUNT} is set, and the cluster does not serve LeaderWorkerSets").into());
            }
            None => return Ok(()),
        },
    };
    let harness = Arc::new(harness);
    let _player = (kind == Kind::LeaderWorkerSet).then(|| Player::start(&harness));
    let operators = Operators::of(&harness).await?;
    let mut dice = Dice(seed);
    let mut desired = DesiredGraph { prefill: 2, ..DesiredGraph::new(kind, 0, 4) };
    harness.apply(&desired.graph(NAMES[0])).await?;
    harness.ready(NAMES[0]).await?;
    let guard = Guard::start(&harness, kind);
    guard.raise(desired).await;
    let mut script = Vec::new();
    for _ in 0..STEPS {
        script.push(step(&harness, &operators, &mut dice, &guard, &mut desired).await?);
        if guard.task.is_finished() {
            break;
        }
    }
    if desired.stuck.take().is_some() {
        harness.apply(&desired.graph(NAMES[0])).await?;
    }
    let ended = harness.ready(NAMES[0]).await;
    let history = format!("seed {seed}, {kind:?}: {}", script.join(", "));
    guard.end().await.map_err(|error| format!("{history}: {error}"))?;
    ended.map_err(|error| format!("{history}: {error}"))?;
    harness.apply(&desired.graph(NAMES[1])).await?;
    harness.ready(NAMES[1]).await?;
    let [scripted, anew] = [left(&harness, NAMES[0]).await?, left(&harness, NAMES[1]).await?];
    assert_eq!(scripted, anew, "{history}: not the state of a fresh graph");
    println!("{history}");
    operators.stop().await
}

/// Lists the objects of a graph, without its name and the suffixes of its revisions.
async fn left(harness: &Harness, name: &str) -> Result<Vec<String>, BoxError> {
    let of_graph: Vec<_> = harness.components().await?.into_iter().filter(|d| d.name_any().starts_with(name)).collect();
    let suffixes = of_graph.iter().filter_map(|d| d.labels().get("nvidia.com/dynamo-worker-hash"));
    let suffixes: Vec<String> = suffixes.cloned().collect();
    let mut lines = harness.inventory().await?;
    if let Ok(sets) = harness.api::<LeaderWorkerSet>().list(&ListParams::default()).await {
        lines.extend(sets.iter().map(|set| format!("LeaderWorkerSet {} {:?}", set.name_any(), set.spec.replicas)));
    }
    lines.retain(|line| line.contains(name));
    let hide = |line: String| suffixes.iter().fold(line, |l, suffix| l.replace(suffix, "<revision>"));
    let mut lines: Vec<_> = lines.into_iter().map(|line| hide(line).replace(name, "<graph>")).collect();
    lines.sort();
    Ok(lines)
}

pub fn setting(name: &str, default: u64) -> Result<u64, BoxError> {
    match std::env::var(name) {
        Ok(text) => Ok(text.parse().map_err(|_| format!("{name}: {text:?} is no number"))?),
        Err(_) => Ok(default),
    }
}

#[tokio::test]
async fn no_script_takes_capacity_away_or_leaves_anything_behind() -> Result<(), BoxError> {
    let (first, count) = (setting("DYNAMO_ROLLOUT_SEED", 1)?, setting(COUNT, SCRIPTS)?);
    for seed in first..first + count {
        run(seed).await?;
    }
    Ok(())
}

/// Half of the new decode workers find no place, and the change stays where it is: some old and some new ones serve.
fn half_placed(desired: DesiredGraph) -> Value {
    let mut graph = desired.graph(NAMES[0]);
    let template = &mut graph["spec"]["components"][2]["podTemplate"];
    template["metadata"]["labels"]["example.com/placed"] = "apart".into();
    let places = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["kwok-0", "kwok-1"] });
    template["spec"]["affinity"] = json!({
        "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [places] }] } },
        "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": { "matchLabels": { "example.com/placed": "apart" } },
            "topologyKey": "kubernetes.io/hostname" }] },
    });
    graph
}

/// Reference: going back in the middle counts as the end of the change, and the new workers that serve by then are
/// deleted at once, although the old ones have been taken away for them.
#[tokio::test]
async fn going_back_in_the_middle_takes_no_capacity_away() -> Result<(), BoxError> {
    let harness = Arc::new(harness("back").await?);
    let operators = Operators::of(&harness).await?;
    let [before, after] = [0, 1].map(|tag| DesiredGraph::new(Kind::Deployment, tag, 4));
    harness.apply(&before.graph(NAMES[0])).await?;
    harness.ready(NAMES[0]).await?;
    let decode = async || -> Result<Vec<(String, Option<i32>, i32)>, BoxError> {
        let all = harness.components().await?.into_iter().filter(|d| d.spec.component.name == "Decode");
        let ready = |d: &DynamoComponentDeployment| d.status.as_ref()?.component.as_ref()?.ready_replicas;
        Ok(all.map(|d| (d.name_any(), d.spec.component.replicas, ready(&d).unwrap_or(0))).collect())
    };
    let old = decode().await?.remove(0).0;
    let guard = Guard::start(&harness, Kind::Deployment);
    guard.raise(before).await;
    harness.apply(&half_placed(after)).await?;
    let in_the_middle = async || {
        let all = decode().await.map_err(|e| e.to_string())?;
        let (olds, news): (Vec<_>, Vec<_>) = all.iter().partition(|(name, ..)| *name == old);
        let is_there =
            olds.iter().any(|(_, expected, _)| *expected == Some(1)) && news.iter().any(|(.., ready)| *ready == 2);
        if is_there { Ok(()) } else { Err(format!("{all:?}")) }
    };
    test_cluster::wait::until("two new workers and one old", PATIENCE, in_the_middle).await?;
    harness.apply(&before.graph(NAMES[0])).await?;
    harness.ready(NAMES[0]).await?;
    guard.end().await?;
    let left = decode().await?;
    assert_eq!(left, [(old, Some(4), 4)], "the revision that was there first serves alone");
    operators.stop().await
}
