//! What the cluster offers.

/// What the cluster offers, unless the configuration says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches, each with its own name in the configuration")]
pub struct Features {
    /// Grove (`grove.io`).
    pub grove: bool,
    /// LeaderWorkerSet with Volcano.
    pub lws: bool,
    /// The KAI scheduler.
    pub kai_scheduler: bool,
    /// The Volcano scheduler.
    pub volcano_scheduler: bool,
    /// Dynamic resource allocation (`resource.k8s.io/v1`).
    pub dra: bool,
    /// Istio as service mesh.
    pub istio: bool,
    /// The Gateway API's InferencePool (`inference.networking.k8s.io`).
    pub inference_pool: bool,
    /// Checkpoints: switched on in the configuration, and the snapshot API is there.
    pub checkpoint: bool,
    /// GPUs of nodes may be looked up.
    pub gpu_discovery: bool,
}

impl Features {
    /// All of them.
    pub const ALL: Self = Self {
        grove: true,
        lws: true,
        kai_scheduler: true,
        volcano_scheduler: true,
        dra: true,
        istio: true,
        inference_pool: true,
        checkpoint: true,
        gpu_discovery: true,
    };
}
