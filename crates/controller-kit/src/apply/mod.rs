//! The apply engine: the only way a controller writes to the API server.
//!
//! [`plan_write`] decides, from what is wanted and what is live, whether to create, update, skip or refuse; it is pure.
//! [`Applier`] carries the decision out and remembers what it wrote, so that a decision is never based on a cache that has
//! not seen our last write yet ([`Applier::stale`]).
//!
//! What keeps a steady state free of writes: the fingerprint in [`APPLIED_ANNOTATION`] (what we want has not changed) and
//! the leaf comparison of [`covers`] (nobody changed it). What keeps other people's objects safe: creation without force,
//! updates with the uid as precondition, and the controller owner reference as the mark of what is ours.

mod applier;
mod covers;
mod desired;
mod error;
mod memory;
mod metadata;
mod plan;
mod release;
mod removal;
mod root;
mod scale;
mod status;
mod status_takeover;
mod status_writer;
mod takeover;
mod undeclared;

pub use applier::{Applier, OF_NO_OBJECT, Outcome, STEP_TIMEOUT, timed};
pub use covers::{Difference, covers, differences};
pub use desired::{Desired, ObjectId};
pub use error::Error;
pub use metadata::MetadataPatch;
pub use plan::{APPLIED_ANNOTATION, Write, fingerprint, plan_write, stamp};
pub use removal::Removed;
pub use status::{carry_transition_times, is_urgent, only_begins, same_status};
pub use status_writer::StatusWrite;
