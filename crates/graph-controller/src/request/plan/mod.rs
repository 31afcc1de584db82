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
pub mod output;
pub mod overrides;
mod profiling;

#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod tests;

use k8s_openapi::jiff::Timestamp;

pub use self::{
    generated::taken,
    profiling::{awaits_output, is_overdue},
};
use super::{
    model::{Observed, Plan, Stage},
    phase::{Phase, phase_of},
};

/// Plans the next step of a request that is not being deleted.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = match phase_of(&observed.request) {
        Phase::New => profiling::begin(observed),
        Phase::Changed => profiling::begin_again(observed),
        Phase::Profiling => profiling::follow(observed, now),
        Phase::Known if observed.selected().is_some() => generated::follow(observed),
        Phase::Known => profiling::follow(observed, now),
        Phase::Ended => profiling::generate_late(observed).unwrap_or_default(),
    };
    if matches!(phase_of(&observed.request), Phase::Profiling | Phase::Known) {
        plan.findings.drift = profiling::drift(observed);
    }
    plan
}

/// Whether a profiler is started now, or would be without an obstacle: only then its dependencies must be read.
pub fn begins(observed: &Observed) -> bool {
    match phase_of(&observed.request) {
        Phase::New => true,
        Phase::Profiling => profiling::is_lost(observed),
        Phase::Known => observed.selected().is_none() && profiling::is_lost(observed),
        Phase::Changed | Phase::Ended => false,
    }
}

fn at(stage: Stage) -> Plan {
    Plan { stage, ..Plan::default() }
}
