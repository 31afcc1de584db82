//! Completes services that do not say what they run by the manifest in the archive of the graph's image. Pure.
//!
//! The component controller reads the manifest of a DynamoComponent that is annotated so, into its status. A graph
//! whose services all say what they run needs none, and is not changed by one.

use api_types::{
    annotations,
    conditions::image_build as reason,
    conversion::preserved::archive::PreservedGraph,
    labels,
    v1alpha1::{ArchiveManifest, DynamoComponent},
    v1beta1::{ComponentSpec, ComponentType, DynamoGraphDeploymentSpec},
    violations::Violation,
};
use controller_kit::conditions::find;
use kube::ResourceExt;
use rendering::legacy::{self, Awaited, names_image};

/// Whether the graph names no service, or one that does not say what it runs.
pub(super) fn is_needed(spec: &DynamoGraphDeploymentSpec, said: &PreservedGraph) -> bool {
    spec.components.is_empty() || spec.components.iter().any(|component| is_silent(component, said))
}

fn is_silent(component: &ComponentSpec, said: &PreservedGraph) -> bool {
    let is_tagged = said.services.get(&component.name).is_some_and(|said| said.tag.is_some());
    !names_image(component) && !is_tagged && legacy::check_told(component, "service").is_err()
}

/// The manifest of DynamoComponent `name`, if it was read for the present generation.
pub(super) fn of<'a>(name: &str, live: Option<&'a DynamoComponent>) -> Result<&'a ArchiveManifest, Awaited> {
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
    match status.and_then(|status| status.manifest.as_ref()).filter(|_| read.status == "True") {
        Some(manifest) => Ok(manifest),
        None if read.status == "True" => {
            Err(awaited(None, "its status does not hold it; apply the CustomResourceDefinitions of this release"))
        }
        None => {
            let stuck = reason::STUCK.into_iter().find(|stuck| *stuck == read.reason);
            Err(awaited(stuck, &read.message))
        }
    }
}

/// The live DynamoComponent, if it is not the graph's own and not annotated yet.
pub(super) fn to_ask<'a>(
    live: Option<&'a DynamoComponent>,
    own: Option<&DynamoComponent>,
) -> Option<&'a DynamoComponent> {
    let is_asked =
        |live: &DynamoComponent| live.annotations().get(annotations::READ_MANIFEST).is_some_and(|v| v == labels::TRUE);
    live.filter(|live| own.is_none() && !is_asked(live))
}

/// What is reported of two obstacles: the one that a user has to remove.
pub(super) fn first_obstacle(manifest: Option<Awaited>, image: Option<Awaited>) -> Option<Awaited> {
    match (manifest, image) {
        (Some(manifest), Some(image)) if image.stuck.is_some() && manifest.stuck.is_none() => Some(image),
        (manifest, image) => manifest.or(image),
    }
}

/// Adds the services of the manifest that the graph does not name, and makes those run that do not say what. What the
/// graph says wins.
pub(super) fn complete(
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
        let problem = "is no service of the manifest in the archive, and does not say what it runs";
        Violation::required(&field, problem, format!("name one of {}, or set dynamoTag", names.join(", ")))
    };
    unknown.map(violation).collect()
}
