//! Components whose image is built from an archive, and volumes of their own: the legacy API.
//!
//! Fields that its users left to the operator are written into the component, which is an ordinary one after that.

mod config;
mod serve;

use std::collections::BTreeMap;

use api_types::{
    conversion::preserved::{
        PreservedClaim,
        legacy::{PreservedService, PreservedVolume},
    },
    env as env_names,
    v1beta1::{ComponentSpec, ComponentType, MAIN_CONTAINER},
    violations::Violation,
};
use k8s_openapi::{
    api::core::v1::{Container, EnvVar, LocalObjectReference, PersistentVolumeClaim, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};

pub use self::{
    config::{configure, is_configured, workers},
    serve::{Awaited, Running, check_program, check_source, image, is_entry},
};
use crate::{
    metadata::named,
    pod::{
        env,
        parts::add,
        volumes::{mount_of, storage_claim_spec},
    },
};

/// Makes a component run an image that is built: `main` starts what the tag says unless the user says what it starts.
/// `inherited` is the environment of the whole graph, under the component's own.
pub fn use_image(component: &mut ComponentSpec, said: &PreservedService, image: &str, inherited: &[EnvVar]) {
    let main = main(component);
    main.image = Some(image.to_owned());
    let names_file = |variable: &EnvVar| variable.name == env_names::DYNAMO_CONFIG_PATH;
    let has_file = main.env.iter().flatten().chain(inherited).any(names_file);
    config::grant(component, &said.privileges);
    if let Some(tag) = &said.tag {
        serve::serve(component, tag, has_file);
    }
}

/// Whether the user names the image of `main`. It is run then, and none is built for the component.
pub fn names_image(component: &ComponentSpec) -> bool {
    component.main_container().and_then(|main| main.image.as_deref()).is_some_and(|image| !image.is_empty())
}

/// Makes the pods of a standalone component register under this Dynamo namespace, unless the user sets another.
pub fn register_under(component: &mut ComponentSpec, dynamo_namespace: &str) {
    let is_frontend = component.type_ == Some(ComponentType::Frontend);
    let main = main(component);
    let prefix = is_frontend.then_some(env_names::DYN_NAMESPACE_PREFIX);
    for name in [env_names::DYN_NAMESPACE].into_iter().chain(prefix) {
        add(&mut main.env, env::value(name, dynamo_namespace), |variable| variable.name == name);
    }
}

/// Requests and limits of resources for which the user gives neither.
pub fn default_resources(component: &mut ComponentSpec, defaults: &BTreeMap<String, String>) {
    if defaults.is_empty() {
        return;
    }
    let given = main(component).resources.get_or_insert_with(Default::default);
    let (limits, requests) = (given.limits.get_or_insert_default(), given.requests.get_or_insert_default());
    for (name, amount) in defaults {
        if !limits.contains_key(name) && !requests.contains_key(name) {
            limits.insert(name.clone(), Quantity(amount.clone()));
            requests.insert(name.clone(), Quantity(amount.clone()));
        }
    }
}

/// Makes pods pull with these Secrets too.
pub fn pull_with(component: &mut ComponentSpec, secrets: &[LocalObjectReference]) {
    if secrets.is_empty() {
        return;
    }
    let named = pod(component).image_pull_secrets.get_or_insert_default();
    for secret in secrets {
        if !named.contains(secret) {
            named.push(secret.clone());
        }
    }
}

/// Mounts a component's own volume, whose claim has this name if the user gives none. Gives the claim.
///
/// # Errors
/// The path is missing or ambiguous; the field is below the component's `pvc`.
pub fn mount(component: &mut ComponentSpec, volume: &PreservedVolume, name: &str) -> Result<PreservedClaim, Violation> {
    let mount_path = mount_path(volume)?;
    let mut claim = volume.claim.clone();
    if claim.name.is_empty() {
        name.clone_into(&mut claim.name);
    }
    let mount = mount_of(&claim.name, mount_path);
    add(&mut main(component).volume_mounts, mount, |mount| mount.mount_path == mount_path);
    Ok(claim)
}

/// The path of a volume, which has two names.
fn mount_path(volume: &PreservedVolume) -> Result<&str, Violation> {
    match (volume.mount_point.as_str(), volume.mount_path.as_str()) {
        ("", "") => Err(Violation::required("mountPoint", "is missing", "give the path at which the volume appears")),
        ("", path) | (path, "") => Ok(path),
        (point, path) if point == path => Ok(path),
        (_, path) => Err(Violation::invalid("mountPath", path, "differs from mountPoint", "remove one of the two")),
    }
}

/// A claim as it is made, without owner.
pub fn render_claim(claim: &PreservedClaim, namespace: &str) -> PersistentVolumeClaim {
    let spec = storage_claim_spec(&claim.volume_access_mode, &claim.size, &claim.storage_class);
    PersistentVolumeClaim { metadata: named(claim.name.clone(), namespace), spec: Some(spec), status: None }
}

/// The pod spec.
fn pod(component: &mut ComponentSpec) -> &mut PodSpec {
    component.pod_template.get_or_insert_default().spec.get_or_insert_default()
}

/// The main container.
fn main(component: &mut ComponentSpec) -> &mut Container {
    let containers = &mut pod(component).containers;
    let index = containers.iter().position(|container| container.name == MAIN_CONTAINER).unwrap_or_else(|| {
        containers.insert(0, Container { name: MAIN_CONTAINER.to_owned(), ..Container::default() });
        0
    });
    &mut containers[index]
}

#[cfg(test)]
mod tests;
