//! Rules about DynamoGraphDeploymentRequests.

use api_types::{
    v1beta1::{DynamoGraphDeploymentRequestSpec, Hardware, RequestBackend, SearchStrategy},
    violations::{self, Reason, Violation},
};

use super::{Features, Findings, component::runtime_version};

/// Fields of the hardware that the profiler needs.
const GPU_FACTS: [&str; 3] = ["gpuSku", "vramMb", "numGpusPerNode"];

/// Checks a request as it is.
pub fn check(spec: &DynamoGraphDeploymentRequestSpec, features: &Features, out: &mut Findings) {
    let hardware = spec.hardware.clone().unwrap_or_default();
    if !features.gpu_discovery && missing_gpu_facts(&hardware).len() == GPU_FACTS.len() {
        let text = format!("this installation does not discover the GPUs of nodes; set {}", GPU_FACTS.join(", "));
        out.required("spec.hardware", text);
    }
    out.extend(thorough_search(spec));
    image(spec, out);
}

/// Warns about what the profiler will lack.
pub fn warn(spec: &DynamoGraphDeploymentRequestSpec, features: &Features, out: &mut Findings) {
    let missing = missing_gpu_facts(&spec.hardware.clone().unwrap_or_default());
    if !features.gpu_discovery && !missing.is_empty() && missing.len() < GPU_FACTS.len() {
        let text = "this installation does not discover the GPUs of nodes; profiling fails without";
        out.warn("spec.hardware", format!("{text} {}", missing.join(", ")));
    }
}

/// The fields of the hardware that no profile can do without and that are not set.
pub fn missing_gpu_facts(hardware: &Hardware) -> Vec<&'static str> {
    let Hardware { gpu_sku, vram_mb, num_gpus_per_node, .. } = hardware;
    let is_set = [gpu_sku.is_some(), vram_mb.is_some(), num_gpus_per_node.is_some()];
    GPU_FACTS.into_iter().zip(is_set).filter(|(_, is_set)| !is_set).map(|(name, _)| name).collect()
}

/// A thorough search measures an engine, so one must be chosen.
pub fn thorough_search(spec: &DynamoGraphDeploymentRequestSpec) -> Option<Violation> {
    let is_open = spec.search_strategy == SearchStrategy::Thorough && spec.backend == RequestBackend::Auto;
    let violation = || Violation::of_text("spec.searchStrategy", Reason::Invalid, "thorough", violations::THOROUGH);
    is_open.then(violation)
}

/// The image that profiles the model must name the version of the runtime.
pub fn image(spec: &DynamoGraphDeploymentRequestSpec, out: &mut Findings) {
    if let Some(image) = spec.image.as_deref().filter(|image| !image.is_empty()) {
        runtime_version("spec", image, spec.runtime_version_override.as_deref(), out);
    }
}
