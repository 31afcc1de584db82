//! DynamoGraphDeploymentRequests.

use api_types::{
    v1beta1::{RequestBackend, RequestPhase, SearchStrategy},
    violations,
};
use serde_json::Value;

use super::{
    Facts,
    field::{Findings, Node},
    ratchet::is_same,
    version::Version,
};

/// Facts about GPUs that the profiler needs.
const GPU_FACTS: [&str; 3] = ["gpuSku", "vramMb", "numGpusPerNode"];

/// Checks a request as it is.
pub(super) fn check(object: &Node<'_>, facts: &Facts, out: &mut Findings) {
    let spec = object.field("spec");
    if !facts.features.gpu_discovery && missing_gpu_facts(&spec).len() == GPU_FACTS.len() {
        let detail = format!("GPUs of nodes are not looked up in this installation; set {}", GPU_FACTS.join(", "));
        out.required(&spec.field("hardware"), detail);
    }
    let thorough = spec.field("searchStrategy").parse() == Some(SearchStrategy::Thorough);
    if thorough && spec.field("backend").parse::<RequestBackend>().unwrap_or_default() == RequestBackend::Auto {
        out.invalid(&spec.field("searchStrategy"), violations::THOROUGH);
    }
    image(&spec, out);
}

/// Tells what will be missing later.
pub(super) fn warn(object: &Node<'_>, facts: &Facts, out: &mut Findings) {
    let spec = object.field("spec");
    let missing = missing_gpu_facts(&spec);
    if !facts.features.gpu_discovery && !missing.is_empty() && missing.len() < GPU_FACTS.len() {
        let hardware = spec.field("hardware");
        out.warn(format!(
            "{}: GPUs of nodes are not looked up in this installation; profiling fails without {}",
            hardware.path(),
            missing.join(", ")
        ));
    }
}

fn missing_gpu_facts(spec: &Node<'_>) -> Vec<&'static str> {
    let hardware = spec.field("hardware");
    let is_missing = |name: &&str| !hardware.field(name).is_set() || hardware.field(name).given() == Some("");
    GPU_FACTS.into_iter().filter(is_missing).collect()
}

fn image(spec: &Node<'_>, out: &mut Findings) {
    let image = spec.field("image").text();
    let known = image.is_empty() || Version::of_image(image).is_some();
    if !known && spec.field("runtimeVersionOverride").text().is_empty() {
        let detail = format!(
            "the tag of image {image:?} does not tell the version of the Dynamo runtime; write that version here, such as 1.5.0"
        );
        out.required(&spec.field("runtimeVersionOverride"), detail);
    }
}

/// Checks the change of a request. `alphas`: both in v1alpha1, if that is what the user sent; it says some things that
/// v1beta1 does not.
pub(super) fn check_update(new: &Node<'_>, old: &Node<'_>, alphas: Option<&(Node<'_>, Node<'_>)>, out: &mut Findings) {
    let (spec, before) = (new.field("spec"), old.field("spec"));
    if is_applied(&spec) && !is_applied(&before) {
        // From now on the image matters, however long it has stood there.
        image(&spec, out);
    }
    let Some(phase) = old.fields(&["status", "phase"]).parse().filter(|phase| is_acted_upon(*phase)) else { return };
    let alphas = alphas.map(|(new, old)| (new.field("spec"), old.field("spec")));
    let mut specs = std::iter::once((&spec, &before)).chain(alphas.iter().map(|(new, old)| (new, old)));
    let open = !is_applied(&before) && matches!(phase, RequestPhase::Profiling | RequestPhase::Ready);
    // That, and with which runtime, the generated graph is to be created.
    let may_choose = open && (!is_applied(&spec) || phase == RequestPhase::Ready);
    let stays = |(new, old): (&Node<'_>, &Node<'_>)| match may_choose {
        true => is_same(Some(&without_choice(new)), Some(&without_choice(old))),
        false => is_same(Some(new.value()), Some(old.value())),
    };
    if specs.all(stays) {
        return;
    }
    let left = if open { "; runtimeVersionOverride may still change, and autoApply once it is Ready" } else { "" };
    let detail = format!(
        "the request is acted upon already ({phase:?}); leave it as it was, or delete it and create it anew{left}"
    );
    out.forbidden(&spec, detail);
}

fn is_acted_upon(phase: RequestPhase) -> bool {
    use RequestPhase::{Deployed, Deploying, Profiling, Ready};
    matches!(phase, Profiling | Ready | Deploying | Deployed)
}

/// Whether the generated graph is created without asking again.
fn is_applied(spec: &Node<'_>) -> bool {
    spec.field("autoApply").value() != &Value::Bool(false)
}

/// A spec without what may be chosen late.
fn without_choice(spec: &Node<'_>) -> Value {
    let mut rest = spec.value().clone();
    if let Value::Object(fields) = &mut rest {
        fields.remove("autoApply");
        fields.remove("runtimeVersionOverride");
    }
    rest
}
