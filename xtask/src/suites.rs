//! Test suites that are programs of their own (`testing/`), so that the other commands compile without them.

use std::{env, ffi::OsString, os::unix::process::CommandExt, process::ExitCode};

use anyhow::{Context, Result};
use repository::cargo;

/// Names of the suites: of the command, of the package, and of its binary.
pub(crate) const NAMES: [&str; 4] = ["bench", "conformance", "e2e", "rights"];

/// Arguments that the suite parses by itself; `--help` lists them
#[derive(Debug, clap::Args)]
pub(crate) struct SuiteArgs {
    /// Arguments of the suite
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Builds the suite, and becomes it.
pub(crate) fn run(name: &str, args: &SuiteArgs) -> Result<ExitCode> {
    let here = env::current_dir().context("cannot read the current directory")?;
    let mut suite = cargo("run");
    suite.args(["--quiet", "--package", name, "--"]).args(&args.args).current_dir(here);
    Err(suite.exec()).with_context(|| format!("cannot run {name}"))
}
