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
    let mut unserved = |present: bool, field: &str, what: &str| {
        if present {
            mistakes.push(Invalid {
                field: format!("spec.experimental.{field}"),
                value: String::new(),
                problem: format!("{what} are not served for a component that does not run on Grove"),
                remedy: "remove the field".to_owned(),
            });
        }
    };
    let checkpoint = experimental.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.enabled);
    unserved(checkpoint, "checkpoint", "checkpoints");
}
