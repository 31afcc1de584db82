//! Inference engines: which one a worker runs, and what that changes in its pod.
//!
//! On a single node only vLLM changes anything; the others are told apart because a contradiction is a mistake.

mod detect;
mod vllm;

pub(crate) use detect::detect;

use crate::validate::CacheMount;
use api_types::v1beta1::BackendFramework;
use k8s_openapi::api::core::v1::Container;

/// Where an engine keeps compiled kernels unless told otherwise; `None` if it has no such place.
pub(crate) const fn default_cache_path(framework: BackendFramework) -> Option<&'static str> {
    match framework {
        BackendFramework::Vllm => Some(vllm::CACHE_PATH),
        BackendFramework::Sglang | BackendFramework::Trtllm => None,
    }
}

/// Adapts the main container of a single-node pod to its engine.
pub(crate) fn adapt_main(framework: Option<BackendFramework>, main: &mut Container, cache: Option<CacheMount<'_>>) {
    match framework {
        Some(BackendFramework::Vllm) => vllm::adapt_main(main, cache),
        Some(BackendFramework::Sglang | BackendFramework::Trtllm) | None => {}
    }
}
