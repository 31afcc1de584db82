//! Reads from the API server, with the rights of the user.

mod bundle;
mod cluster;
mod connection;
mod diagnosis;
mod family;
mod install;
mod logs;
mod names;
mod target;
mod workloads;

pub use bundle::bundle;
pub use connection::{Connection, ConnectionArgs, Read, list, words};
pub use diagnosis::observe;
pub use family::{adapters, family, graphs, of_graph};
pub use install::install;
pub use logs::{Part, Source, follow, log};
pub use names::{Names, names};
pub use target::{Kind, Target};
