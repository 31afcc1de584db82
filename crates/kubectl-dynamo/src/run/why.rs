//! `kubectl dynamo why`: why an object is not ready, and what to do.

use std::io::Write;

use k8s_openapi::jiff::Timestamp;
use status_view::Style;

use crate::{
    diagnosis::{Weight, diagnose},
    explain::explain,
    observe::{Connection, Target, observe},
    output::{Format, Outcome, OutputArgs, object_name, write_data},
};

/// Flags of `why`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A graph, or TYPE/NAME: dgd, dcd, dynamomodel, dgdr or checkpoint
    #[arg(value_name = "[TYPE/]NAME")]
    target: Target,
    #[command(flatten)]
    output: OutputArgs,
}

/// Diagnoses an object. It is well if it is ready and nothing needs an action.
///
/// # Errors
/// The object does not exist or cannot be read.
pub async fn run(args: &Args, connection: &Connection, style: Style, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let observed = observe(connection, &args.target).await?;
    let diagnosis = diagnose(&observed, Timestamp::now());
    let format = args.output.output;
    if !write_data(format, &diagnosis, out)? {
        match format {
            Format::Name => {
                for object in diagnosis.causes.iter().filter_map(|cause| cause.chain.last()) {
                    writeln!(out, "{}", object_name(&object.kind, &object.name))?;
                }
            }
            _ => out.write_all(explain(&diagnosis, style).as_bytes())?,
        }
    }
    let is_well = diagnosis.ready && !diagnosis.causes.iter().any(|cause| cause.weight == Weight::Blocks);
    Ok(if is_well { Outcome::Fine } else { Outcome::Unwell })
}
