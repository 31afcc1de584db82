//! x
pub(crate) mod manifests;
