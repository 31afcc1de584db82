//! Rules over several fields, in CEL: what the API server itself rejects, before it calls a webhook.

use serde::Serialize;

/// One rule of `x-kubernetes-validations`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CelRule {
    /// The CEL expression that must be true.
    pub rule: &'static str,
    /// Message for the user whose object is rejected.
    pub message: &'static str,
    /// Whether the rule also runs when there is no old object; `oldSelf` is an optional then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional_old_self: bool,
}

const fn rule(rule: &'static str, message: &'static str) -> CelRule {
    CelRule { rule, message, optional_old_self: false }
}

/// Rules of a graph's `spec`.
pub const GRAPH: &[CelRule] = &[CelRule {
    rule: "oldSelf.hasValue() || !has(self.restart)",
    message: "restart cannot be set when the graph is created; set restart.id later to restart components",
    optional_old_self: true,
}];

/// Rules of a graph's list of components.
pub const COMPONENTS: &[CelRule] = &[
    rule(
        "self.filter(c, has(c.type) && c.type == 'epp').size() <= 1",
        "a graph can have only one component of type epp",
    ),
    rule(
        "self.all(c1, !has(c1.name) || \
         self.filter(c2, has(c2.name) && c2.name.lowerAscii() == c1.name.lowerAscii()).size() == 1)",
        "two components have the same name; names must differ in more than upper and lower case",
    ),
];

const MIN_AVAILABLE: [CelRule; 2] = [
    rule(
        "!has(self.minAvailable) || (has(self.replicas) && self.replicas == 0) || \
         self.minAvailable <= (has(self.replicas) ? self.replicas : 1)",
        "minAvailable cannot be more than replicas, unless replicas is 0",
    ),
    rule(
        "!has(oldSelf.minAvailable) || (has(self.minAvailable) && self.minAvailable == oldSelf.minAvailable)",
        "minAvailable cannot be changed",
    ),
];

/// Rules of one component.
pub const COMPONENT: &[CelRule] = &[
    rule(
        "!has(self.eppConfig) || (has(self.type) && self.type == 'epp')",
        "eppConfig is only for components of type epp",
    ),
    MIN_AVAILABLE[0],
    MIN_AVAILABLE[1],
];

/// Rules of a graph's KV transfer policy.
pub const KV_TRANSFER: &[CelRule] = &[
    rule(
        "(has(self.labelKey) && !has(self.clusterTopologyName)) || \
         (!has(self.labelKey) && has(self.clusterTopologyName))",
        "exactly one of labelKey and clusterTopologyName must be set",
    ),
    rule(
        "!has(self.enforcement) || self.enforcement != 'preferred' || has(self.preferredWeight)",
        "enforcement preferred needs a preferredWeight",
    ),
    rule(
        "!has(self.preferredWeight) || (has(self.enforcement) && self.enforcement == 'preferred')",
        "preferredWeight is only for enforcement preferred",
    ),
];

/// Rules of the key of a label.
pub const LABEL_KEY: &[CelRule] = &[rule(
    "!self.contains('/') || self.split('/')[0].size() <= 253",
    "the part before the slash cannot have more than 253 characters",
)];

/// Rules of the endpoint picker's configuration.
pub const EPP_CONFIG: &[CelRule] =
    &[rule("has(self.configMapRef) != has(self.config)", "exactly one of configMapRef and config must be set")];

const NO_CLIENT_PODS: CelRule = rule(
    "!has(self.extraClientPods) || size(self.extraClientPods) == 0",
    "extraClientPods is reserved and cannot be used yet",
);

/// Rules of the GPU memory service.
pub const GPU_MEMORY_SERVICE: &[CelRule] = &[
    rule(
        "!has(self.extraClientContainers) || size(self.extraClientContainers) == 0 || self.mode == 'IntraPod'",
        "extraClientContainers is only for mode IntraPod",
    ),
    rule(
        "!has(self.extraClientPods) || size(self.extraClientPods) == 0 || self.mode == 'InterPod'",
        "extraClientPods is only for mode InterPod",
    ),
    NO_CLIENT_PODS,
];

/// Rules of the GPU memory service in v1alpha1, which spells the modes differently.
pub const ALPHA_GPU_MEMORY_SERVICE: &[CelRule] = &[
    rule(
        "!has(self.extraClientContainers) || size(self.extraClientContainers) == 0 || self.mode == 'intraPod'",
        "extraClientContainers is only for mode intraPod",
    ),
    rule(
        "!has(self.extraClientPods) || size(self.extraClientPods) == 0 || self.mode == 'interPod'",
        "extraClientPods is only for mode interPod",
    ),
    NO_CLIENT_PODS,
];

/// Rules of the shared memory of v1alpha1.
pub const SHARED_MEMORY: &[CelRule] = &[rule(
    "(has(self.disabled) && self.disabled) || \
     (has(self.size) && quantity(self.size).isGreaterThan(quantity('0')))",
    "size must be set and more than zero, unless disabled is true",
)];

/// Rules of a whole DynamoCheckpoint.
pub const DYNAMO_CHECKPOINT: &[CelRule] = &[rule(
    "!has(oldSelf.spec.identity) || self.spec.identity == oldSelf.spec.identity",
    "spec.identity cannot be changed",
)];

/// Rules of a component's checkpoint.
pub const CHECKPOINT: &[CelRule] = &[rule(
    "!has(self.job) || !has(self.checkpointRef) || size(self.checkpointRef) == 0",
    "job describes how a checkpoint is made; it cannot be set together with checkpointRef, which names an existing one",
)];

/// Rules of each container of a component's pod template. The operator has a default image for `main` alone.
pub const CONTAINER: &[CelRule] = &[rule(
    "self.name == \"main\" || (has(self.image) && self.image != \"\")",
    "every container other than main needs an image",
)];

/// Rules of each init container of a component's pod template.
pub const INIT_CONTAINER: &[CelRule] =
    &[rule("has(self.image) && self.image != \"\"", "every init container needs an image")];

/// Rules of the annotations of a component's pod template.
pub const POD_ANNOTATIONS: &[CelRule] = &[rule(
    "!(\"nvidia.com/vllm-distributed-executor-backend\" in self) || \
     self[\"nvidia.com/vllm-distributed-executor-backend\"].lowerAscii() in [\"mp\", \"ray\"]",
    "nvidia.com/vllm-distributed-executor-backend must be mp or ray",
)];

/// Longest value of an annotation of a pod template, in characters. Kubernetes allows no more for all of them together;
/// the API server needs the limit to bound the cost of [`POD_ANNOTATIONS`].
pub const MAX_ANNOTATION: u32 = 262_144;
