//! Checkpoints of engine processes.

use api_types::violations;

use super::super::{Facts, field::Findings, view::Component};

pub(super) fn check(component: &Component<'_>, facts: &Facts, out: &mut Findings) {
    let checkpoint = component.experimental("checkpoint");
    if component.checkpoint_enabled() {
        if !facts.features.checkpoint {
            let detail = "checkpoints are switched off in this installation; switch them on in the operator's configuration \
                          (checkpoint.enabled), or set enabled to false";
            out.forbidden(&checkpoint, detail);
        }
        if component.shares_memory_between_pods() {
            out.forbidden(&checkpoint, violations::CHECKPOINT_BETWEEN_PODS);
        }
        if component.failover().is_some() {
            out.forbidden(&checkpoint, violations::CHECKPOINT_FAILOVER);
        }
    }
    let clients = checkpoint.fields(&["job", "gmsClientContainers"]);
    if clients.has_entries() {
        if component.memory_service().is_none() {
            out.forbidden(&clients, violations::CLIENTS_ALONE);
        } else if component.shares_memory_between_pods() {
            out.forbidden(&clients, violations::CLIENTS_BETWEEN_PODS);
        }
    }
}

/// Warns about fields that no longer have an effect.
pub(in crate::admission) fn warn(component: &Component<'_>, out: &mut Findings) {
    let checkpoint = component.experimental("checkpoint");
    for field in ["mode", "identity"].map(|name| checkpoint.field(name)).iter().filter(|field| field.is_set()) {
        out.warn(format!("{}: deprecated; remove it", field.path()));
    }
}
