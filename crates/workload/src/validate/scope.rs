//! What a component may not have, given where it runs.

use api_types::v1beta1::{ComponentSpec, EngineMode};

use crate::{
    WorkloadProvider,
    violation::{Violation, Violations},
};

/// Reports every part of the spec that cannot be honoured there.
pub(super) fn check(spec: &ComponentSpec, provider: WorkloadProvider, violations: &mut Violations) {
    let Some(experimental) = &spec.experimental else { return };
    let between_pods =
        experimental.gpu_memory_service.as_ref().is_some_and(|service| service.mode == EngineMode::InterPod);
    if between_pods && provider == WorkloadProvider::Component {
        violations.push(Violation {
            field: "spec.experimental.gpuMemoryService.mode".to_owned(),
            value: "InterPod".to_owned(),
            problem: "needs Grove, and the component runs as a Deployment".to_owned(),
            remedy: "write IntraPod, or run the graph on Grove".to_owned(),
        });
    }
}
