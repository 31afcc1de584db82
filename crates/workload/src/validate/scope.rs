//! What the component program does not serve.

use super::{Invalid, Mistakes};
use api_types::v1beta1::ComponentSpec;

/// Reports every part of the spec that a Deployment of single-node pods cannot honour.
pub(super) fn check(spec: &ComponentSpec, mistakes: &mut Mistakes) {
    if spec.is_multinode() {
        mistakes.push(Invalid {
            field: "spec.multinode.nodeCount".to_owned(),
            value: spec.node_count().to_string(),
            problem:
                "needs the API leaderworkerset.x-k8s.io (LeaderWorkerSet) or grove.io (Grove), and neither serves \
                      this component"
                    .to_owned(),
            remedy: "install one of the two on the cluster, or remove spec.multinode".to_owned(),
        });
    }
    let Some(experimental) = &spec.experimental else { return };
    let mut unserved = |present: bool, field: &str, what: &str| {
        if present {
            mistakes.push(Invalid {
                field: format!("spec.experimental.{field}"),
                value: String::new(),
                problem: format!("{what} are not served for a component that runs as a Deployment"),
                remedy: "remove the field".to_owned(),
            });
        }
    };
    unserved(experimental.gpu_memory_service.is_some(), "gpuMemoryService", "shared GPU memory and its claims");
    unserved(experimental.failover.is_some(), "failover", "standby engines");
    let checkpoint = experimental.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.enabled);
    unserved(checkpoint, "checkpoint", "checkpoints");
}
