//! Changes of DynamoGraphDeploymentRequests.

use api_types::v1beta1::{DynamoGraphDeploymentRequestSpec, RequestPhase};
use rendering::rules::{Findings, request as rules};
use serde_json::Value;

use super::{field::FieldNode, is_same};

/// Checks the change of a request. `alphas`: both in v1alpha1, if that is what the user sent; it says some things that
/// v1beta1 does not.
pub(super) fn check_update(
    typed: &DynamoGraphDeploymentRequestSpec,
    [new, old]: [FieldNode<'_>; 2],
    alphas: Option<[FieldNode<'_>; 2]>,
    out: &mut Findings,
) {
    let (spec, before) = (new.field("spec"), old.field("spec"));
    if is_applied(&spec) && !is_applied(&before) {
        // From now on the image matters, however old it is.
        rules::image(typed, out);
    }
    let Some(phase) = old.fields(&["status", "phase"]).parse().filter(|phase| is_acted_upon(*phase)) else { return };
    let alphas = alphas.map(|both| both.map(|object| object.field("spec")));
    let mut specs = std::iter::once([spec.clone(), before.clone()]).chain(alphas);
    let open = !is_applied(&before) && matches!(phase, RequestPhase::Profiling | RequestPhase::Ready);
    // That, and with which runtime, the generated graph is to be created.
    let may_choose = open && (!is_applied(&spec) || phase == RequestPhase::Ready);
    let stays = |[new, old]: [FieldNode<'_>; 2]| match may_choose {
        true => is_same(Some(&without_choice(&new)), Some(&without_choice(&old))),
        false => is_same(Some(new.value), Some(old.value)),
    };
    if specs.all(stays) {
        return;
    }
    let left = if open { "; runtimeVersionOverride may still change, and autoApply once it is Ready" } else { "" };
    let remedy = format!("leave it as it was, or delete it and create it anew{left}");
    out.forbidden("spec", format!("the request is acted upon already ({phase:?}); {remedy}"));
}

fn is_acted_upon(phase: RequestPhase) -> bool {
    use RequestPhase::{Deployed, Deploying, Profiling, Ready};
    matches!(phase, Profiling | Ready | Deploying | Deployed)
}

/// Whether the generated graph is created without approval.
fn is_applied(spec: &FieldNode<'_>) -> bool {
    spec.field("autoApply").value != &Value::Bool(false)
}

/// A spec without what may be chosen late.
fn without_choice(spec: &FieldNode<'_>) -> Value {
    let mut rest = spec.value.clone();
    if let Value::Object(fields) = &mut rest {
        fields.remove("autoApply");
        fields.remove("runtimeVersionOverride");
    }
    rest
}
