//! The kubectl plugin `kubectl dynamo`, as a library for its tests.
//!
//! | module | what |
//! |---|---|
//! | `run` | the command line, and the commands: their flags, and the steps that they consist of |
//! | `observe` | reads from the API server |
//! | `diagnosis`, `explain` | why an object is not ready, and that as text |
//! | `view` | a graph with its children, as trees, tables and lines |
//! | `install` | whether the operator's install is well |
//! | `bundle` | a support archive |
//! | `apply` | requests that change an object |
//! | `rollout_control` | annotations that hold a rollout or take it back |
//! | `completion` | candidates for the word that a user types |
//! | `output` | formats and exit codes |
//! | [`preview`] | what an edit of a graph will do |
//!
//! A command is added as a file in `run/` with its `Args` and an `async fn run`, a variant of `run::Command` and an arm
//! in `run::run`. What it computes is a pure module beside `run/`; `observe/` and `apply.rs` send its requests. `cargo
//! xtask tidy` takes every file or folder of the names `plan`, `status`, `events`, `merge` and the like for pure code,
//! so the file in `run/` needs another name then.

mod apply;
mod bundle;
mod completion;
mod diagnosis;
mod explain;
mod install;
mod observe;
mod output;
pub mod preview;
mod rollout_control;
mod run;
mod view;

pub use output::CommandOutcome;
pub use run::{COMPLETER, KubectlDynamoArgs, complete, run};
pub use status_view::Style;
