//! Devices that a container has through claims (DRA).

mod claim;
mod gpus;
mod template;

pub(crate) use claim::of;
pub use claim::{ClaimSource, ContainerClaim};
pub use gpus::{DeviceClasses, classes_of, count_gpus};
pub(crate) use template::claim_spec;
pub use template::render_claim_template;
