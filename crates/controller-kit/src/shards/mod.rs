//! Shards: every replica of a controller works, each on namespaces of its own.
//!
//! - `assignment`: which member owns which places; pure.
//! - `member`: what was seen of a Lease, and when its holder counts as gone; pure.
//! - `protocol`: the Leases, and requests about them; pure.
//! - `handover`: where a member may act while places move; pure.
//! - `replica`: one process: what it sends, and where it may act; pure.
//! - `lease`: the Leases on the API server.
//! - `run`: one process on the API server, with its fence and its caches.
//!
//! Safety rests on conditional writes. Only the elected member writes the assignment, and a member acts on it from the
//! moment at which all former owners have acknowledged their loss, or their Leases have been taken from them. A Lease is
//! taken from a member that has not renewed it for 17 s; a member that has not renewed for 10 s does not act.

mod assignment;
mod handover;
mod lease;
mod member;
mod protocol;
mod replica;
mod run;

#[cfg(test)]
mod simulation_tests;

pub use self::run::share;
pub(crate) use self::{lease::ASSIGNMENT, run::until_ended};
