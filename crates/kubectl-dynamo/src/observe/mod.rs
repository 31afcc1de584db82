//! Reads from the API server, with the rights of the user.

mod cluster;
mod connection;
mod diagnosis;
mod target;
mod workloads;

pub use connection::{Connection, ConnectionArgs};
pub use diagnosis::observe;
pub use target::Target;
