//! The state of a graph or a component as text: what `kubectl dynamo status` and `cargo xtask up` show.
//!
//! | module | what |
//! |---|---|
//! | `model` | [`State`], computed from a graph or a component and its pods |
//! | [`pods`] | facts of pods |
//! | `text` | a state as a screen or as a line |
//! | `table` | columns and colours |
//! | `terminal` | lines that are drawn over |
//!
//! This crate reads nothing from an API server.

mod model;
pub mod pods;
mod table;
mod terminal;
mod text;

#[cfg(test)]
mod tests;

pub use self::{
    model::{ComponentState, State},
    table::{Style, Table, one_line},
    terminal::Terminal,
    text::{line, screen},
};
