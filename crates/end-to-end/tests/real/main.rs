//! The operator beside software of others that it works with: kstatus, by which Flux and others wait.
//!
//! Their programs are built from pinned Go modules. Where those cannot be had, a test says so and is skipped.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod kstatus;

use std::path::PathBuf;

use end_to_end::BoxError;
use test_cluster::assets::{Assets, Tool};

/// A program, built if necessary; `None`, with a line that names it, where its modules cannot be had.
fn program(tool: Tool) -> Result<Option<PathBuf>, BoxError> {
    match Assets::from_env()?.find(tool) {
        Ok(path) => Ok(Some(path)),
        Err(error) => {
            println!("skipped: {} cannot be built: {error}", tool.name());
            Ok(None)
        }
    }
}
