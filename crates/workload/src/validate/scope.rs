//! What the component program does not serve.

use super::{Invalid, Mistakes};
use api_types::v1beta1::{ComponentSpec, EngineMode};

/// Reports every part of the spec that the component program cannot honour.
pub(super) fn check(spec: &ComponentSpec, mistakes: &mut Mistakes) {
    let Some(experimental) = &spec.experimental else { return };
    if experimental.gpu_memory_service.as_ref().is_some_and(|service| service.mode == EngineMode::InterPod) {
        mistakes.push(Invalid {
            field: "spec.experimental.gpuMemoryService.mode".to_owned(),
            value: "InterPod".to_owned(),
            problem: "needs Grove, and the component runs as a Deployment".to_owned(),
            remedy: "write IntraPod, or run the graph on Grove".to_owned(),
        });
    }
}
