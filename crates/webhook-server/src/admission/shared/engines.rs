//! GPU memory shared between processes, and engines that stand in for each other.

use std::collections::BTreeSet;

use api_types::{
    v1beta1::{ComponentType, EngineMode},
    violations,
};

use super::super::{
    field::Findings,
    view::{Component, Gpus},
};

pub(super) fn check(component: &Component<'_>, out: &mut Findings) {
    memory_service(component, out);
    failover(component, out);
}

fn memory_service(component: &Component<'_>, out: &mut Findings) {
    let Some(mode) = component.memory_service() else { return };
    let service = component.experimental("gpuMemoryService");
    if !component.is_worker() {
        out.forbidden(&service, violations::MEMORY_TYPE);
    }
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

fn failover(component: &Component<'_>, out: &mut Findings) {
    let Some(mode) = component.failover() else { return };
    let failover = component.experimental("failover");
    match component.memory_service() {
        None => out.forbidden(&failover, violations::FAILOVER_ALONE),
        // A mode that is left out is one too.
        Some(service) if service != mode => out.invalid(&failover.field("mode"), violations::FAILOVER_MODE),
        Some(_) => {}
    }
    if mode == EngineMode::IntraPod {
        if component.shadows() > 1 {
            out.invalid(&failover.field("numShadows"), violations::SHADOWS);
        }
        return;
    }
    if !matches!(component.gpus(), Gpus::Count(1..)) {
        let detail = format!(
            "needs GPUs, and the main container asks for no whole number of them; set resources.limits[{}] of that container",
            api_types::GPU
        );
        out.forbidden(&failover, detail);
    }
    if let Some(role @ (ComponentType::Epp | ComponentType::Frontend | ComponentType::Planner)) = component.role() {
        let detail = format!("a component of type {} runs no engine; remove the field", role.as_str());
        out.forbidden(&failover, detail);
    }
}
