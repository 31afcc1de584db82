//! The operator beside software of others that it works with: kstatus, by which Flux and others wait, and the programs
//! that run pods of several nodes for it.
//!
//! Their programs are built from pinned Go modules, or named by the environment. A test whose program cannot be had is
//! skipped, and says so. `DYNAMO_REAL_SOFTWARE=full` runs all scenarios, with the time limits of the documentation.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod admission;
mod bench;
mod graph_log;
mod grove;
mod kstatus;
mod leader_worker_sets;
mod pod_log;
mod scenarios;
mod scripts;

use std::{fmt::Display, io::Write, path::PathBuf};

use end_to_end::BoxError;
use test_cluster::assets::{Assets, Tool, is_full};

/// A pinned program, built if necessary. `None` where its modules cannot be had, which is an error if everything is to
/// run.
fn program(tool: Tool) -> Result<Option<PathBuf>, BoxError> {
    match Assets::from_env()?.find(tool) {
        Ok(path) => Ok(Some(path)),
        Err(error) if is_full() => Err(error.into()),
        Err(error) => {
            skipped(tool.name(), error);
            Ok(None)
        }
    }
}

/// Prints that something is skipped. Not by `println!`, whose output is shown for tests that fail only.
fn skipped(what: &str, reason: impl Display) {
    // A line that cannot be printed is no reason to fail.
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {reason}");
}
