//! The state of a graph or a component as text: what `kubectl dynamo status` and `cargo xtask up` show.
//!
//! | module | what |
//! |---|---|
//! | `model` | [`State`], computed from a graph or a component and its pods, and as text |
//! | [`pods`] | facts of pods |
//! | `table` | columns and colours, and lines that are drawn over |
//!
//! This crate reads nothing from an API server.

mod model;
pub mod pods;
mod table;

#[cfg(test)]
mod tests;

pub use self::{
    model::{ComponentState, State, line, screen},
    table::{Style, Table, Terminal, one_line},
};
