//! A graph with its children, as trees, tables and lines. Pure.

mod history;
mod list;
mod model;
mod top;
mod tree;

#[cfg(test)]
mod tests;

use k8s_openapi::jiff::Timestamp;

pub use self::{
    history::{history, history_table},
    list::{list_table, summary},
    model::Family,
    top::{usage, usage_table},
    tree::{tree, tree_text},
};

/// Time between two moments as kubectl has it: `45s`, `12m`, `5h`, `3d`.
pub fn age(now: Timestamp, since: Option<Timestamp>) -> String {
    let Some(since) = since else { return "-".to_owned() };
    match now.as_second().saturating_sub(since.as_second()).max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
