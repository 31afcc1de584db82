//! Reads from the API server, with the rights of the user.

mod bundle;
mod cluster;
mod connection;
mod diagnosis;
mod family;
mod install;
mod logs;
mod target;

pub use self::{
    bundle::bundle,
    connection::{Connection, ConnectionArgs, Read, list, words},
    diagnosis::observe,
    family::{adapters, family, graphs, of_graph},
    install::install,
    logs::{follow, log},
    target::{Kind, Names, TargetObject, names},
};
