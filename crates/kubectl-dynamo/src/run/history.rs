//! `kubectl dynamo history`: the revisions of a graph's workers, replaced and live.

use std::io::Write;

use k8s_openapi::jiff::Timestamp;

use super::GraphOutputArgs;
use crate::{
    observe::{Connection, family},
    output::{Format, Outcome, write_data},
    view::{history, history_table},
};

/// Prints the revisions.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn run(args: &GraphOutputArgs, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let revisions = history(&family(connection, &args.graph).await?);
    match args.output.output {
        format if write_data(format, &revisions, out)? => {}
        Format::Name => {
            for revision in &revisions {
                writeln!(out, "{}", revision.revision)?;
            }
        }
        _ => out.write_all(history_table(&revisions, Timestamp::now()).as_bytes())?,
    }
    Ok(Outcome::Fine)
}
