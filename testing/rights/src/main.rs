//! `cargo xtask rights`: compares what the programs may do with what they did.

use std::process::ExitCode;

use clap::Parser;
use rights::Args;

fn main() -> ExitCode {
    match rights::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
