//! `kubectl dynamo tree`: a graph and all that it consists of.

use std::io::Write;

use super::GraphOutputArgs;
use crate::{
    observe::{Connection, family},
    output::{Format, Outcome, write_data},
    view::{tree, tree_text},
};

/// Prints the tree.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn run(args: &GraphOutputArgs, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let root = tree(&family(connection, &args.graph).await?);
    match args.output.output {
        format if write_data(format, &root, out)? => {}
        Format::Name => {
            for name in root.names() {
                writeln!(out, "{name}")?;
            }
        }
        _ => out.write_all(tree_text(&root).as_bytes())?,
    }
    Ok(Outcome::Fine)
}
