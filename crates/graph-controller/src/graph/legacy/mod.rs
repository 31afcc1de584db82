//! Translates a graph of the legacy API, whose image is built from an archive and whose components have volumes of
//! their own, into an ordinary graph. Pure.
//!
//! The component controller builds the image for a DynamoComponent. Until it is built only replicas change; what serves
//! keeps serving.
//!
//! Services that do not specify what they run are completed by the manifest in the archive of the graph's image. The
//! component controller reads the manifest of a DynamoComponent that is annotated so, into its status. A graph whose
//! services all specify what they run needs none, and is not changed by one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api_types::{
    annotations, conditions,
    conditions::image_build as reason,
    conversion::preserved::legacy::PreservedGraph,
    env as env_names, labels, names,
    v1alpha1::{ArchiveManifest, DynamoComponent, DynamoComponentSpec},
    v1beta1::{ComponentSpec, ComponentType, DynamoGraphDeployment, DynamoGraphDeploymentSpec, MAIN_CONTAINER},
    violations::Violation,
};
use controller_kit::conditions::find;
use k8s_openapi::api::core::v1::EnvVar;
use kube::ResourceExt;
use rendering::{
    legacy,
    legacy::{Awaited, names_image, pull_with, use_image},
};

use crate::graph::model::{GraphObstacle, LegacyResources, ObstacleProgress, is_controller};

/// Annotations that are copied to the DynamoComponent.
const HANDED_ON: [&str; 3] = [annotations::FORCE_BUILD, annotations::INSECURE_REGISTRY, annotations::STORAGE_NAMESPACE];

/// The spec of the ordinary graph, and what it needs beside; `None` if the graph is one already. `live`: the
/// DynamoComponent that builds its image.
///
/// # Errors
/// All violations.
pub fn translate(
    graph: &DynamoGraphDeployment,
    live: Option<&DynamoComponent>,
) -> Result<Option<(DynamoGraphDeploymentSpec, LegacyResources)>, GraphObstacle> {
    let Some(mut said) = PreservedGraph::of(graph.annotations()) else { return Ok(None) };
    let (mut spec, mut legacy, mut problems) = (graph.spec.clone(), LegacyResources::default(), Vec::new());
    let is_run = spec.components.is_empty() || !spec.components.iter().all(names_image);
    if let Some(source) = said.source.clone().filter(|_| is_run) {
        let name = names::dynamo_component(&source);
        problems.extend(legacy::check_source(&source).err());
        // The graph names no service, or one that does not say what it runs.
        let components = &spec.components;
        let needs_manifest = components.is_empty() || components.iter().any(|component| is_silent(component, &said));
        let manifest = needs_manifest.then(|| of(&name, live));
        if let Some(Ok(manifest)) = &manifest {
            problems.extend(complete(&mut spec, &mut said, manifest));
        }
        legacy.build = build(graph, &source, needs_manifest, live);
        legacy.manifest_of = to_annotate(live, legacy.build.as_ref()).filter(|_| needs_manifest).cloned();
        let running = legacy::image(&name, &source, live);
        let unread = manifest.and_then(Result::err);
        legacy.awaited = first_obstacle(unread, running.awaited).map(obstacle_of);
        let env = spec.env.clone().unwrap_or_default();
        for component in spec.components.iter_mut().filter(|component| !names_image(component)) {
            let said = said.services.get(&component.name).cloned().unwrap_or_default();
            use_image(component, &said, &running.image, &env);
            pull_with(component, &running.pull_secrets);
            problems.extend(configure(component, &env, needs_manifest));
        }
    }
    for component in &mut spec.components {
        let Some(volume) = said.services.get(&component.name).and_then(|said| said.volume.as_ref()) else { continue };
        let name = names::component_deployment(&graph.name_any(), &component.name, None);
        match legacy::mount(component, volume, &name) {
            Ok(claim) => legacy.claims.push(claim),
            Err(violation) => problems.push(below(violation, &component.name, "pvc.")),
        }
    }
    if problems.is_empty() { Ok(Some((spec, legacy))) } else { Err(GraphObstacle::of_violations(&problems)) }
}

/// The spec with `DYN_DEPLOYMENT_CONFIG` applied to its components; `None` if it has none.
///
/// # Errors
/// All violations.
pub fn configured(spec: &DynamoGraphDeploymentSpec) -> Result<Option<DynamoGraphDeploymentSpec>, GraphObstacle> {
    let inherited = spec.env.as_deref().unwrap_or_default();
    if !spec.components.iter().any(|component| legacy::is_configured(component, inherited)) {
        return Ok(None);
    }
    let (mut spec, env, mut problems) = (spec.clone(), inherited.to_vec(), Vec::new());
    for component in &mut spec.components {
        if let Err(violation) = legacy::configure(component, &env) {
            let at = format!("spec.components[{}].podTemplate.spec.containers[{MAIN_CONTAINER}]", component.name);
            problems.push(violation.at(|_| format!("{at}.env[{}]", env_names::DYN_DEPLOYMENT_CONFIG)));
        }
    }
    if problems.is_empty() { Ok(Some(spec)) } else { Err(GraphObstacle::of_violations(&problems)) }
}

/// Configures a component that runs a built image. Returns its violations. A manifest may say what it runs.
fn configure(component: &mut ComponentSpec, env: &[EnvVar], has_manifest: bool) -> Vec<Violation> {
    let configured = legacy::configure(component, env);
    let checked = [configured, if has_manifest { Ok(()) } else { legacy::check_program(component, "service") }];
    checked.into_iter().filter_map(Result::err).map(|violation| below(violation, &component.name, "")).collect()
}

fn below(violation: Violation, service: &str, part: &str) -> Violation {
    violation.at(|path| format!("spec.services[{service}].{part}{path}"))
}

fn obstacle_of(awaited: Awaited) -> GraphObstacle {
    let waits = ObstacleProgress::Reconciling(conditions::graph::IMAGE_AWAITED);
    let progress = awaited.stuck.map_or(waits, ObstacleProgress::Stalled);
    GraphObstacle { ready_reason: conditions::graph::IMAGE_NOT_READY, progress, message: awaited.message }
}

/// The DynamoComponent of the graph, with a request for the manifest if one is needed; `None` if another object owns
/// the live one, whose spec is then used unchanged.
fn build(
    graph: &DynamoGraphDeployment,
    source: &str,
    reads_manifest: bool,
    live: Option<&DynamoComponent>,
) -> Option<DynamoComponent> {
    if live.is_some_and(|live| !is_controller(graph, live)) {
        return None;
    }
    let spec = DynamoComponentSpec { dynamo_component: source.to_owned(), ..DynamoComponentSpec::default() };
    let mut build = DynamoComponent::new(&names::dynamo_component(source), spec);
    build.metadata.namespace = graph.namespace();
    build.metadata.labels = Some([(labels::GRAPH.to_owned(), names::label_value(&graph.name_any()))].into());
    let handed_on =
        HANDED_ON.into_iter().filter_map(|key| Some((key.to_owned(), graph.annotations().get(key)?.clone())));
    let request = reads_manifest.then(|| (annotations::READ_MANIFEST.to_owned(), labels::TRUE.to_owned()));
    build.metadata.annotations =
        Some(handed_on.chain(request).collect()).filter(|all: &BTreeMap<_, _>| !all.is_empty());
    Some(build)
}

fn is_silent(component: &ComponentSpec, said: &PreservedGraph) -> bool {
    let is_tagged = said.services.get(&component.name).is_some_and(|said| said.tag.is_some());
    !names_image(component) && !is_tagged && legacy::check_program(component, "service").is_err()
}

/// The manifest of DynamoComponent `name`, if it was read for the present generation.
fn of<'a>(name: &str, live: Option<&'a DynamoComponent>) -> Result<&'a ArchiveManifest, Awaited> {
    let awaited = |stuck, why: &str| Awaited {
        stuck,
        message: format!("waiting for the manifest in the archive of DynamoComponent {name}: {why}"),
    };
    let Some(live) = live else { return Err(awaited(None, "it does not exist yet")) };
    let status = live.status.as_ref();
    let read = status.and_then(|status| find(&status.conditions, reason::MANIFEST_READ));
    let Some(read) = read.filter(|read| read.observed_generation == live.metadata.generation) else {
        return Err(awaited(None, "it was not read yet"));
    };
    if read.status != "True" {
        let stuck = reason::STUCK.into_iter().find(|stuck| *stuck == read.reason);
        return Err(awaited(stuck, &read.message));
    }
    let lost = "its status does not hold it; apply the CustomResourceDefinitions of this release";
    status.and_then(|status| status.manifest.as_ref()).ok_or_else(|| awaited(None, lost))
}

/// The live DynamoComponent, if it is not the graph's own and not annotated yet.
fn to_annotate<'a>(live: Option<&'a DynamoComponent>, own: Option<&DynamoComponent>) -> Option<&'a DynamoComponent> {
    let is_annotated =
        |live: &DynamoComponent| live.annotations().get(annotations::READ_MANIFEST).is_some_and(|v| v == labels::TRUE);
    live.filter(|live| own.is_none() && !is_annotated(live))
}

/// Returns the obstacle to report: of two, the one that a user has to remove.
fn first_obstacle(manifest: Option<Awaited>, image: Option<Awaited>) -> Option<Awaited> {
    match (manifest, image) {
        (Some(manifest), Some(image)) if image.stuck.is_some() && manifest.stuck.is_none() => Some(image),
        (manifest, image) => manifest.or(image),
    }
}

/// Adds the services of the manifest that the graph does not name, and makes those run that do not say what. What the
/// graph says wins.
fn complete(
    spec: &mut DynamoGraphDeploymentSpec,
    said: &mut PreservedGraph,
    manifest: &ArchiveManifest,
) -> Vec<Violation> {
    for service in &manifest.services {
        let index = spec.components.iter().position(|component| component.name == service.name);
        let index = index.unwrap_or_else(|| {
            spec.components.push(ComponentSpec { name: service.name.clone(), ..ComponentSpec::default() });
            spec.components.len() - 1
        });
        let component = &mut spec.components[index];
        if !is_silent(component, said) {
            continue;
        }
        said.services.entry(service.name.clone()).or_default().tag = Some(manifest.dynamo_tag.clone());
        component.replicas = component.replicas.or(service.workers);
        if service.component_type.as_deref() == Some(ComponentType::Planner.as_str()) {
            component.type_ = Some(ComponentType::Planner);
        }
        legacy::default_resources(component, &service.resources);
    }
    let names: Vec<&str> = manifest.services.iter().map(|service| service.name.as_str()).collect();
    let unknown = spec.components.iter().filter(|component| is_silent(component, said));
    let violation = |component: &ComponentSpec| {
        let field = format!("spec.services[{}]", component.name);
        let problem = "is not a service of the manifest in the archive, and does not specify what it runs";
        Violation::required(&field, problem, format!("name one of {}, or set dynamoTag", names.join(", ")))
    };
    unknown.map(violation).collect()
}
