//! Parts of a pod that shares GPU memory between its containers. The GPU memory service finds its peers by these names.

/// Name, within the pod, of the claim for the GPUs that containers share.
pub const CLAIM: &str = "intrapod-shared-gpu";
/// Volume with the sockets of the service.
pub const SOCKETS: &str = "gms-intrapod-control";
/// Mount path of that volume; also the value of [`crate::env::GMS_SOCKET_DIR`].
pub const SOCKET_DIR: &str = "/gms-intrapod-control";
/// Container that serves the memory.
pub const SERVER: &str = "gms-server";
