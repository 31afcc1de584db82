//! Checkpoints of engine processes.

use super::super::{Facts, field::Findings, view::Component};

pub(super) fn check(component: &Component<'_>, facts: &Facts, out: &mut Findings) {
    if component.experimental("checkpoint").field("enabled").is_true() && !facts.features.checkpoint {
        let detail = "checkpoints are switched off in this installation; switch them on in the operator's configuration \
                      (checkpoint.enabled), or set enabled to false";
        out.forbidden(&component.experimental("checkpoint"), detail);
    }
}

/// Warns about fields that no longer have an effect.
pub(in crate::admission) fn warn(component: &Component<'_>, out: &mut Findings) {
    let checkpoint = component.experimental("checkpoint");
    for field in ["mode", "identity"].map(|name| checkpoint.field(name)).iter().filter(|field| field.is_set()) {
        out.warn(format!("{}: deprecated; remove it", field.path()));
    }
}
