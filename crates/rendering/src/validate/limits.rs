//! Numbers above their limits. The API server refuses them in new objects, but not in those that were stored under
//! older definitions.

use api_types::{
    limits::{self, at_most},
    v1beta1::ComponentSpec,
    violations::Violation,
};

use crate::violation::Violations;

/// Reports every number that is above its limit.
pub(super) fn check(spec: &ComponentSpec, violations: &mut Violations) {
    let experimental = spec.experimental.as_ref();
    let failover = experimental.and_then(|experimental| experimental.failover.as_ref());
    let identity = experimental.and_then(|e| e.checkpoint.as_ref()).and_then(|checkpoint| checkpoint.identity.as_ref());
    let of_identity = "experimental.checkpoint.identity";
    let numbers = [
        ("replicas".to_owned(), spec.replicas, limits::REPLICAS),
        ("minAvailable".to_owned(), spec.min_available, limits::REPLICAS),
        (
            "multinode.nodeCount".to_owned(),
            spec.multinode.as_ref().map(|multinode| multinode.node_count),
            limits::NODES,
        ),
        ("experimental.failover.numShadows".to_owned(), failover.map(|failover| failover.num_shadows), limits::SHADOWS),
        (format!("{of_identity}.tensorParallelSize"), identity.map(|id| id.tensor_parallel_size), limits::RANKS),
        (format!("{of_identity}.pipelineParallelSize"), identity.map(|id| id.pipeline_parallel_size), limits::RANKS),
        (format!("{of_identity}.maxModelLen"), identity.and_then(|id| id.max_model_len), limits::TOKENS),
    ];
    for (field, value, limit) in numbers {
        if let Some(value) = value.filter(|value| *value > limit) {
            let remedy = format!("write {limit} or less");
            violations.push(Violation::invalid(format!("spec.{field}"), value.to_string(), at_most(limit), remedy));
        }
    }
}
