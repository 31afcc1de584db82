//! The apply engine: the only way a controller writes to the API server.
//!
//! [`plan_write`] decides, from what is desired and what is live, whether to update, skip or refuse; it is pure.
//! [`Applier`] carries the decision out and remembers what it wrote, so that a decision is never based on a cache
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
    status_writer::{StatusWrite, carry_transition_times, is_urgent, only_begins, same_status},
};
pub use crate::request::{ObjectId, RequestError, STEP_TIMEOUT, timed};
