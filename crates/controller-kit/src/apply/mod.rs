//! The apply engine: the only way a controller writes to the API server.
//!
//! [`plan_write`] plans from the desired and the live object whether to update, skip or reject; it is pure.
//! [`Applier`] applies the plan and records what it wrote, so that a plan is never based on a cache
//! that has not seen our last write yet ([`Applier::stale`]).
//!
//! A steady state is free of writes because of two checks: the fingerprint in [`APPLIED_ANNOTATION`] (what is desired
//! has not changed) and the leaf comparison of [`includes`] (no other writer changed it). Objects of others stay safe
//! because of creation without force, updates with the uid as precondition, and the controller owner reference as the
//! mark of what is ours.

mod applier;
mod desired;
mod diff;
mod memory;
mod plan;
mod removal;
mod root;
mod status_writer;
mod takeover;
mod undeclared;

pub use self::{
    applier::{Applier, ApplyOutcome, OF_NO_OBJECT},
    desired::Desired,
    diff::{Difference, includes, semantic_diff},
    plan::{APPLIED_ANNOTATION, Write, fingerprint, plan_write, stamp},
    removal::Removed,
    root::MetadataPatch,
    status_writer::StatusWrite,
};
pub use crate::request::{ObjectId, RequestError, STEP_TIMEOUT, timed};
