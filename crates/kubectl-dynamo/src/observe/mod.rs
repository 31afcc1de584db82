//! Reads from the API server, with the rights of the user.

mod cluster;
mod connection;
mod diagnosis;
mod family;
mod install;
mod logs;
mod target;

pub use connection::{Connection, ConnectionArgs, Read, list, words};
pub use diagnosis::observe;
pub use family::{adapters, family, graphs, of_graph};
pub use install::install;
pub use logs::{Part, Source, follow, log};
pub use target::{Kind, Target};

pub use self::{
    logs::bundle,
    target::{Names, names},
};
