//! Kinds of other projects, as far as this operator writes them. Their CRDs come with those projects.

mod inference_pool;
mod istio;
mod pod_snapshot;

pub use inference_pool::{EndpointPickerRef, InferencePool, InferencePoolSpec, PoolPort, PoolSelector};
pub use istio::{
    ClientTls, Destination, DestinationRule, DestinationRuleSpec, HttpMatch, HttpRoute, PortSelector, RouteDestination,
    TrafficPolicy, UriMatch, VirtualService, VirtualServiceSpec,
};
pub use pod_snapshot::{CapturedPod, PodSnapshot, PodSnapshotSource, PodSnapshotSpec, PodSnapshotStatus};
