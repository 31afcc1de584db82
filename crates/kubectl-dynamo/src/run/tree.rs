//! `kubectl dynamo tree`: a graph and all that it consists of.

use std::io::Write;

use crate::{
    observe::{Connection, family},
    output::{Format, Outcome, OutputArgs, write_data},
    view::{tree, tree_text},
};

/// Flags of `tree`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints the tree.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn run(args: &Args, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<Outcome> {
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
