//! `kubectl dynamo bundle`: a support archive of a graph.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
};

use anyhow::Context;
use k8s_openapi::jiff::Timestamp;
use kube::{ResourceExt, api::LogParams};
use serde::Serialize;
use status_view::Style;

use crate::{
    bundle::{Archive, mask},
    diagnosis::diagnose,
    explain::explain,
    install::check,
    observe::{Connection, TargetObject, bundle, family, install, log, observe},
    output::CommandOutcome,
    view::{tree, tree_text},
};

/// Lines of each log.
const LINES: i64 = 2000;

/// Flags of `bundle`.
#[derive(Debug, clap::Args)]
pub struct BundleArgs {
    /// A graph
    #[arg(value_name = "NAME")]
    graph: String,
    /// File to write; it must not exist [default: NAME-bundle.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Largest size of all files before they are compressed, in MiB; logs that do not fit are left out
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    max_size: usize,
}

/// Writes the archive.
///
/// # Errors
/// The graph cannot be read, or the file cannot be written.
pub async fn run(args: &BundleArgs, connection: &Connection, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let graph = &args.graph;
    let family = family(connection, graph).await?;
    let target: TargetObject = graph.parse().map_err(anyhow::Error::msg)?;
    let now = Timestamp::now();
    let (observed, install, objects) =
        tokio::join!(observe(connection, &target), install(connection), bundle(connection, graph));
    let diagnosis = diagnose(&observed?, now);
    let mut archive = Archive::new(graph, args.max_size.saturating_mul(1024 * 1024));
    archive.add("why.txt", explain(&diagnosis, Style::default()).into_bytes());
    archive.add("tree.txt", tree_text(&tree(&family)).into_bytes());
    archive.add("doctor.json", json(&check(&install, now))?);
    for (name, objects) in objects {
        match objects {
            Ok(mut objects) => {
                mask(&mut objects);
                archive.add(&format!("objects/{name}.json"), json(&objects)?);
            }
            Err(why) => archive.add(&format!("objects/{name}.error.txt"), why.into_bytes()),
        }
    }
    for pod in &family.pods {
        let name = pod.name_any();
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        for status in statuses {
            for previous in [false, true].into_iter().take(if status.restart_count > 0 { 2 } else { 1 }) {
                let container = Some(status.name.clone());
                let params = LogParams { container, previous, tail_lines: Some(LINES), ..LogParams::default() };
                let ending = if previous { "previous.log" } else { "log" };
                let path = format!("logs/{name}/{}.{ending}", status.name);
                match log(connection, &name, &params).await {
                    Ok(text) => archive.add(&path, text.into_bytes()),
                    Err(why) => archive.add(&format!("{path}.error.txt"), why.into_bytes()),
                }
            }
        }
    }
    let path = args.file.clone().unwrap_or_else(|| PathBuf::from(format!("{graph}-bundle.tar.gz")));
    let file = File::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
    archive.write(u64::try_from(now.as_second()).unwrap_or_default(), &mut BufWriter::new(file))?;
    writeln!(out, "{}", path.display())?;
    for omitted in archive.omitted() {
        writeln!(out, "left out, because the archive is full: {omitted}")?;
    }
    Ok(CommandOutcome::Fine)
}

fn json(data: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    Ok(serde_json::to_vec_pretty(data)?)
}
