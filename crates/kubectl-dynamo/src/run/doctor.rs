//! `kubectl dynamo doctor`: whether the operator's install is well.

use std::io::Write;

use k8s_openapi::jiff::Timestamp;
use status_view::Style;

use crate::{
    install::{State, check, table},
    observe::{Connection, install},
    output::{Format, Outcome, OutputArgs, write_data},
};

/// Flags of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints the checks. The install is well if none fails.
///
/// # Errors
/// The output cannot be written.
pub async fn run(args: &Args, connection: &Connection, style: Style, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let checks = check(&install(connection).await, Timestamp::now());
    match args.output.output {
        format if write_data(format, &checks, out)? => {}
        Format::Name => {
            for one in checks.iter().filter(|one| one.state == State::Failed) {
                writeln!(out, "{}", one.check)?;
            }
        }
        format => out.write_all(table(&checks, format == Format::Wide, style).as_bytes())?,
    }
    let failed = checks.iter().any(|one| one.state == State::Failed);
    Ok(if failed { Outcome::Unwell } else { Outcome::Fine })
}
