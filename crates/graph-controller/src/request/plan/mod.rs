//! Plans the next step of a request from one snapshot. Pure.
//!
//! ```text
//!          spec is right      profiler ended well       autoApply            it serves
//! Pending ──────────────► Profiling ───────────► Ready ─────────► Deploying ◄─────────► Deployed
//!    ▲                       │                     │                  │ refused, deleted
//!    └── another spec ── Failed ◄──────────────────┴──────────────────┘
//! ```

mod config;
pub mod generated;
pub mod job;
pub mod overrides;
mod profiling;

#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod tests;

use api_types::typed::typed;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    model::{PlannedPhase, RequestObserved, RequestPlan},
    phase::{RequestLifecycle, phase_of},
};

/// Plans the next step of a request that is not being deleted.
pub fn plan(observed: &RequestObserved, now: Timestamp) -> RequestPlan {
    let mut plan = match phase_of(&observed.request) {
        RequestLifecycle::New => profiling::begin(observed),
        RequestLifecycle::Changed => profiling::begin_again(observed),
        RequestLifecycle::Profiling => profiling::follow(observed, now),
        RequestLifecycle::Known if observed.selected().is_some() => generated::follow(observed),
        RequestLifecycle::Known => profiling::follow(observed, now),
        RequestLifecycle::Ended => profiling::generate_late(observed).unwrap_or_default(),
    };
    if matches!(phase_of(&observed.request), RequestLifecycle::Profiling | RequestLifecycle::Known) {
        plan.findings.drift = profiling::drift(observed);
    }
    plan
}

/// An object of Kubernetes from JSON whose form the caller fixes; tests compare it.
fn of_json<K: DeserializeOwned + Default>(json: Value) -> K {
    typed(json).unwrap_or_default()
}

fn at(phase: PlannedPhase) -> RequestPlan {
    RequestPlan { phase, ..RequestPlan::default() }
}
