//! From what is live to what shall be: pure, so that it can be read, tested and simulated.

pub mod accounts;
pub mod adapters;
pub mod bookkeeping;
mod canonical;
pub mod checkpoints;
pub mod claims;
pub mod component;
pub mod discovery;
pub mod endpoint_picker;
pub mod generation;
pub mod grove;
pub mod objects;
pub mod restart;
pub mod rollout;
pub mod spread;
pub mod topology;
pub mod whereabouts;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    conditions,
    names::GenerationSuffix,
    v1alpha1::DynamoCheckpoint,
    v1beta1::{ComponentSpec, DynamoComponentDeployment, RestartStatus},
};
use controller_kit::{apply::MetadataPatch, conditions::is_true};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use self::{
    checkpoints::ComponentCheckpoint,
    component::{Placement, component_deployment},
    grove::GroveDecision,
    objects::Objects,
    workers::decide_workers,
};
use super::{
    observe::Observed,
    program::Program,
    validate::{Refusal, ValidGraph},
};

/// What shall be done, in the order of the fields: an account before the pods that run under it, new workers before old
/// ones go, and deletion last.
#[derive(Default)]
pub struct Decision {
    /// What the graph needs beside its components.
    pub objects: Objects,
    /// The checkpoints that components start from.
    pub checkpoints: Vec<ComponentCheckpoint>,
    /// Checkpoints of the graph's own that nothing starts from any more.
    pub stale_checkpoints: Vec<DynamoCheckpoint>,
    /// The components as they shall be, without owner.
    pub components: Vec<DynamoComponentDeployment>,
    /// Live components that the spec no longer names, workers of old generations above all: as they are, with the replicas
    /// they shall have now, without owner. Orphans among them become the graph's by this, and can be deleted later.
    pub old: Vec<DynamoComponentDeployment>,
    /// Objects that nothing needs any more.
    pub delete: Vec<Removal>,
    /// How far the change of worker generation is.
    pub rollout: Rollout,
    /// How far a restart is.
    pub restart: Option<RestartStatus>,
    /// What shall be done on Grove, if the graph runs there.
    pub grove: Option<GroveDecision>,
    /// Components on Grove whose engine could not be told how the nodes of a replica find each other.
    pub unjoined: Vec<String>,
    /// What the graph's annotations shall tell.
    pub bookkeeping: MetadataPatch,
    /// Why nothing else than [`Self::objects`] is decided on; what is live of the components stays.
    pub obstacle: Option<Refusal>,
}

/// A live DynamoComponentDeployment that shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its name.
    name: String,
    /// Its uid: another object of that name is left alone.
    pub uid: String,
}

/// How far the change of worker generation is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The generation that the spec asks for, if the graph has workers and generations.
    pub target: Option<GenerationSuffix>,
    /// Names of the live workers of other generations, oldest first.
    pub old: Vec<String>,
    /// Worker components whose target generation serves alone.
    pub updated: Vec<String>,
    /// What the change waits for, one line an object.
    pub waits: Vec<String>,
}

impl Rollout {
    /// Whether workers of another generation are left.
    pub fn in_progress(&self) -> bool {
        !self.old.is_empty()
    }
}

/// Decides on a valid graph that is not being deleted.
pub fn decide(graph: &ValidGraph<'_>, observed: &Observed) -> Decision {
    let mut decision = Decision { objects: objects::objects(graph, observed), ..Decision::default() };
    if graph.obstacle.is_some() {
        return Decision { obstacle: graph.obstacle.clone(), old: scaled(graph, observed), ..decision };
    }
    match graph.program {
        Program::Component => decide_components(graph, observed, &mut decision),
        Program::Grove => grove::decide(graph, observed, &mut decision),
    }
    decision.bookkeeping = bookkeeping::bookkeeping(&observed.graph, graph.program, &decision.rollout);
    decision
}

/// While an image is awaited, components that are not changing generation can still be scaled.
fn scaled(graph: &ValidGraph<'_>, observed: &Observed) -> Vec<DynamoComponentDeployment> {
    let scale = |component: &ComponentSpec| {
        let mut live = observed.present().filter(|d| d.spec.component.name == component.name);
        let (Some(only), None) = (live.next(), live.next()) else { return None };
        let wanted = component.wanted_replicas();
        let differs = observed.owns(only) && only.spec.component.wanted_replicas() != wanted;
        differs.then(|| with_replicas(only, wanted))
    };
    let waits = observed.expansion.awaited.is_some();
    graph.spec.components.iter().filter(|_| waits).filter_map(scale).collect()
}

/// The component program: an object for each component, and for each generation of its workers.
fn decide_components(graph: &ValidGraph<'_>, observed: &Observed, decision: &mut Decision) {
    let origin_version = component::origin_version(&observed.graph, &observed.components);
    let (workers, others): (Vec<_>, Vec<_>) = observed.present().partition(|d| d.spec.component.is_worker());
    let target = graph.workers().next().map(|_| generation::target(graph, &workers));
    let suffix = target.as_ref().and_then(|target| target.suffix.as_ref());
    decision.checkpoints = checkpoints::checkpoints(graph, observed, suffix, &origin_version);
    for component in graph.spec.components.iter().filter(|c| !c.is_worker()) {
        let checkpoint = checkpoints::of(&decision.checkpoints, &component.name);
        let placement = Placement {
            origin_version: &origin_version,
            checkpoint: checkpoint.map(|checkpoint| checkpoint.name.as_str()),
            ..Placement::default()
        };
        let mut wanted = component_deployment(graph, component, placement);
        let live =
            others.iter().find(|d| d.name_any() == wanted.name_any()).map(|d| d.spec.component.wanted_replicas());
        let replicas = component.wanted_replicas();
        let waits = checkpoint.is_some_and(|checkpoint| checkpoint.awaited.is_some());
        wanted.spec.component.replicas = Some(if waits { checkpoints::held(live, replicas) } else { replicas });
        decision.components.push(wanted);
    }
    match &target {
        Some(target) => decide_workers(graph, observed, &workers, (target, &origin_version), decision),
        None => decision.delete.extend(workers.iter().filter_map(|d| removal(observed, d))),
    }
    if !decision.rollout.in_progress() {
        let stale = checkpoints::stale(graph, observed, &decision.checkpoints);
        decision.stale_checkpoints = stale.into_iter().cloned().collect();
    }

    decision.delete.extend(others.iter().filter_map(|d| removal(observed, d)));
    keep_engines(observed, decision);
    restart::decide_restart(observed, decision);
    keep_what_is_wanted_and_adopt_the_rest(observed, decision);
}

/// The engine that a component was stored with stays for its life, as admission has it. Older versions of the Go operator left
/// it open, and what pods run does not change by a word that says what they run already.
fn keep_engines(observed: &Observed, decision: &mut Decision) {
    for wanted in &mut decision.components {
        if let Some(live) = observed.present().find(|d| d.metadata.name == wanted.metadata.name) {
            wanted.spec.backend_framework = live.spec.backend_framework;
        }
    }
}

/// An object that is wanted under its name is never deleted, whatever else it was before; one that nobody owns and nobody
/// wants is adopted, so that it can be deleted in the next pass.
fn keep_what_is_wanted_and_adopt_the_rest(observed: &Observed, decision: &mut Decision) {
    let wanted: BTreeSet<String> = decision.components.iter().map(ResourceExt::name_any).collect();
    decision.delete.retain(|removal| !wanted.contains(&removal.name));
    decision.old.retain(|d| !wanted.contains(&d.name_any()));
    let known: BTreeSet<String> = decision.old.iter().map(ResourceExt::name_any).collect();
    let strays = observed.present().filter(|d| {
        let name = d.name_any();
        !observed.owns(d) && !wanted.contains(&name) && !known.contains(&name)
    });
    let strays: Vec<_> = strays.map(|d| with_replicas(d, d.spec.component.wanted_replicas())).collect();
    decision.old.extend(strays);
}

/// Whether a component's controller cannot act on its present spec.
pub fn is_stalled(d: &DynamoComponentDeployment) -> bool {
    is_current(d) && d.status.as_ref().is_some_and(|s| is_true(&s.conditions, conditions::STALLED))
}

/// Whether the status of a live object speaks of its present spec.
pub fn is_current(d: &DynamoComponentDeployment) -> bool {
    let observed = d.status.as_ref().and_then(|s| s.observed_generation).unwrap_or(0);
    observed >= d.metadata.generation.unwrap_or(0)
}

/// A live worker of an old generation with other replicas and everything else as it is.
fn with_replicas(d: &DynamoComponentDeployment, replicas: i32) -> DynamoComponentDeployment {
    let own = d.annotations().iter().filter(|(key, _)| component::sets_annotation(key));
    let own: BTreeMap<_, _> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut spec = d.spec.clone();
    spec.component.replicas = Some(replicas);
    DynamoComponentDeployment {
        metadata: ObjectMeta {
            name: d.metadata.name.clone(),
            namespace: d.metadata.namespace.clone(),
            labels: d.metadata.labels.clone(),
            annotations: Some(own).filter(|own| !own.is_empty()),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

fn removal(observed: &Observed, d: &DynamoComponentDeployment) -> Option<Removal> {
    let uid = d.metadata.uid.clone().filter(|_| observed.owns(d))?;
    Some(Removal { name: d.name_any(), uid })
}

#[cfg(test)]
mod simulation_tests;
