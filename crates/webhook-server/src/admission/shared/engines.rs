//! GPU memory shared between processes.

use std::collections::BTreeSet;

use api_types::v1beta1::EngineMode;

use super::super::{
    field::Findings,
    view::{Component, Gpus},
};

pub(super) fn check(component: &Component<'_>, out: &mut Findings) {
    let Some(mode) = component.memory_service() else { return };
    let service = component.experimental("gpuMemoryService");
    match component.gpus() {
        Gpus::Count(1..) => {}
        Gpus::Unreadable(amount) => out.invalid(&amount, "is no whole number of GPUs; write a count such as 1"),
        Gpus::None | Gpus::Count(..) => out.forbidden(
            &service,
            format!(
                "needs GPUs to share, and the main container asks for none; set resources.limits[{}] of that container",
                api_types::GPU
            ),
        ),
    }
    if mode == EngineMode::IntraPod {
        clients(component, out);
    }
}

fn clients(component: &Component<'_>, out: &mut Findings) {
    let clients = component.experimental("gpuMemoryService").field("extraClientContainers");
    let containers = component.containers();
    let names: BTreeSet<&str> = containers.items().map(|container| container.field("name").text()).collect();
    let mut seen = BTreeSet::new();
    for client in clients.items() {
        if !seen.insert(client.text()) {
            out.duplicate(&client, "name each container once");
        } else if !names.contains(client.text()) {
            out.invalid(
                &client,
                "names no container of podTemplate.spec.containers; add the container, or remove the name",
            );
        }
    }
}
