//! The pod template of a component, created if missing.

use api_types::v1beta1::{ComponentSpec, MAIN_CONTAINER};
use k8s_openapi::api::core::v1::{Container, PodSpec};

/// The pod spec.
pub(super) fn pod(component: &mut ComponentSpec) -> &mut PodSpec {
    component.pod_template.get_or_insert_default().spec.get_or_insert_default()
}

/// The main container.
pub(super) fn main(component: &mut ComponentSpec) -> &mut Container {
    let containers = &mut pod(component).containers;
    let index = containers.iter().position(|container| container.name == MAIN_CONTAINER).unwrap_or_else(|| {
        containers.insert(0, Container { name: MAIN_CONTAINER.to_owned(), ..Container::default() });
        0
    });
    &mut containers[index]
}
