//! The API of 2025: a graph whose image is built from an archive, and whose components have volumes of their own, becomes an
//! ordinary graph. Pure.
//!
//! The image is a DynamoComponent's, which the component controller looks for and builds. As long as it is not there, nothing
//! of the graph changes but replicas: what serves goes on.

use std::collections::BTreeMap;

use api_types::{
    annotations, conditions,
    conversion::preserved::{PreservedClaim, archive::PreservedGraph},
    env as env_names, labels, names,
    v1alpha1::{DynamoComponent, DynamoComponentSpec},
    v1beta1::{ComponentSpec, DynamoGraphDeployment, DynamoGraphDeploymentSpec, MAIN_CONTAINER},
};
use controller_kit::store::controller_owner;
use k8s_openapi::api::core::v1::EnvVar;
use kube::ResourceExt;
use workload::{
    Violation,
    legacy::{self, Awaited, names_image, pull_with, use_image},
};

use super::validate::{Kstatus, Refusal, refusal};

/// Annotations that a graph hands on to the build of its image.
const HANDED_ON: [&str; 3] = [annotations::FORCE_BUILD, annotations::INSECURE_REGISTRY, annotations::STORAGE_NAMESPACE];

/// What a graph of 2025 needs beside the graph that it becomes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expansion {
    /// The DynamoComponent that builds the image, without owner; none if no image is built, or by one that is not the graph's.
    pub build: Option<DynamoComponent>,
    /// Claims of single components.
    pub claims: Vec<PreservedClaim>,
    /// Why the image cannot be run yet.
    pub awaited: Option<Refusal>,
}

/// Name of the DynamoComponent that builds a graph's image, by the graph's annotations.
pub fn build_of(annotations: &BTreeMap<String, String>) -> Option<String> {
    PreservedGraph::of(annotations)?.source.as_deref().map(names::dynamo_component)
}

/// The graph as an ordinary one, and what it needs beside; `None` if it is one already. `live` is the DynamoComponent that
/// builds its image, whoever made it.
///
/// # Errors
/// The author's mistakes, all at once.
pub fn expand(
    graph: &DynamoGraphDeployment,
    live: Option<&DynamoComponent>,
) -> Result<Option<(DynamoGraphDeploymentSpec, Expansion)>, Refusal> {
    let Some(said) = PreservedGraph::of(graph.annotations()) else { return Ok(None) };
    let (mut spec, mut expansion, mut problems) = (graph.spec.clone(), Expansion::default(), Vec::new());
    let is_run = spec.components.is_empty() || !spec.components.iter().all(names_image);
    if let Some(source) = said.source.as_ref().filter(|_| is_run) {
        check(source, &spec, &mut problems);
        expansion.build = build(graph, source, live);
        let running = legacy::image(&names::dynamo_component(source), live).or_source(source);
        expansion.awaited = running.awaited.map(refuse);
        let env = spec.env.clone().unwrap_or_default();
        for component in spec.components.iter_mut().filter(|component| !names_image(component)) {
            let said = said.services.get(&component.name).cloned().unwrap_or_default();
            use_image(component, &said, &running.image, &env);
            pull_with(component, &running.pull_secrets);
            problems.extend(configure(component, &env));
        }
    }
    for component in &mut spec.components {
        let Some(volume) = said.services.get(&component.name).and_then(|said| said.volume.as_ref()) else { continue };
        let name = names::component_deployment(&graph.name_any(), &component.name, None);
        match legacy::mount(component, volume, &name) {
            Ok(claim) => expansion.claims.push(claim),
            Err(mistake) => problems.push(below(mistake, &component.name, "pvc.")),
        }
    }
    if problems.is_empty() { Ok(Some((spec, expansion))) } else { Err(refusal(&problems)) }
}

/// The spec of a graph that runs as components, with what its `DYN_DEPLOYMENT_CONFIG` says of them; `None` if it has none.
///
/// # Errors
/// The author's mistakes, all at once.
pub fn configured(spec: &DynamoGraphDeploymentSpec) -> Result<Option<DynamoGraphDeploymentSpec>, Refusal> {
    let inherited = spec.env.as_deref().unwrap_or_default();
    if !spec.components.iter().any(|component| legacy::is_configured(component, inherited)) {
        return Ok(None);
    }
    let (mut spec, env, mut problems) = (spec.clone(), inherited.to_vec(), Vec::new());
    for component in &mut spec.components {
        if let Err(mistake) = legacy::configure(component, &env) {
            let at = format!("spec.components[{}].podTemplate.spec.containers[{MAIN_CONTAINER}]", component.name);
            let field = format!("{at}.env[{}]", env_names::DYN_DEPLOYMENT_CONFIG);
            problems.push(Violation { field, ..mistake });
        }
    }
    if problems.is_empty() { Ok(Some(spec)) } else { Err(refusal(&problems)) }
}

fn check(source: &str, spec: &DynamoGraphDeploymentSpec, problems: &mut Vec<Violation>) {
    problems.extend(legacy::check_source(source).err());
    if spec.components.is_empty() {
        let problem = "names no service, and the manifest in the archive is not read";
        problems.push(Violation::new("spec.services", "", problem, "name each service that shall run"));
    }
}

/// Configures a component that runs a built image. Gives its author's mistakes.
fn configure(component: &mut ComponentSpec, env: &[EnvVar]) -> Vec<Violation> {
    let checked = [legacy::configure(component, env), legacy::check_told(component, "service")];
    checked.into_iter().filter_map(Result::err).map(|mistake| below(mistake, &component.name, "")).collect()
}

fn below(mistake: Violation, service: &str, part: &str) -> Violation {
    Violation { field: format!("spec.services[{service}].{part}{}", mistake.field), ..mistake }
}

fn refuse(awaited: Awaited) -> Refusal {
    Refusal {
        ready_reason: conditions::graph::IMAGE_NOT_READY,
        kstatus: awaited.stuck.map_or(Kstatus::Reconciling(conditions::graph::IMAGE_AWAITED), Kstatus::Stalled),
        message: awaited.message,
    }
}

/// The build as the graph makes it. One that somebody else has made is used as it is.
fn build(graph: &DynamoGraphDeployment, source: &str, live: Option<&DynamoComponent>) -> Option<DynamoComponent> {
    let is_ours = |live: &DynamoComponent| {
        controller_owner(live).is_some_and(|owner| Some(&owner.uid) == graph.metadata.uid.as_ref())
    };
    if live.is_some_and(|live| !is_ours(live)) {
        return None;
    }
    let spec = DynamoComponentSpec { dynamo_component: source.to_owned(), ..DynamoComponentSpec::default() };
    let mut build = DynamoComponent::new(&names::dynamo_component(source), spec);
    build.metadata.namespace = graph.namespace();
    build.metadata.labels = Some([(labels::GRAPH.to_owned(), names::label_value(&graph.name_any()))].into());
    let handed_on =
        HANDED_ON.into_iter().filter_map(|key| Some((key.to_owned(), graph.annotations().get(key)?.clone())));
    build.metadata.annotations = Some(handed_on.collect()).filter(|all: &BTreeMap<_, _>| !all.is_empty());
    Some(build)
}

#[cfg(test)]
mod tests;
