//! Commands that show one thing: `tree`, `top`, `why` and `doctor`.

use std::io::Write;

use k8s_openapi::jiff::Timestamp;
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use status_view::Style;

use super::GraphOutputArgs;
use crate::{
    diagnosis::{Weight, diagnose},
    explain::explain,
    install::{State, check, table},
    observe::{Connection, Read, Target, family, install, list, observe, of_graph},
    output::{Format, Outcome, OutputArgs, object_name, write_data},
    view::{tree, tree_text, usage, usage_table},
};

/// Prints the tree.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn show_tree(
    args: &GraphOutputArgs,
    connection: &Connection,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
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

/// Prints the sums of each component.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn show_usage(
    args: &GraphOutputArgs,
    connection: &Connection,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "PodMetrics");
    let resource = ApiResource::from_gvk_with_plural(&kind, "pods");
    let api: Api<DynamicObject> = Api::namespaced_with(connection.client.clone(), &connection.namespace, &resource);
    let of_graph = ListParams::default().labels(&of_graph(&args.graph));
    let (family, metrics) = tokio::join!(family(connection, &args.graph), list(&api, &of_graph));
    let (metrics, unknown) = match metrics {
        Read::Found(metrics) => (metrics, None),
        Read::Missing => (Vec::new(), Some("the cluster does not serve metrics.k8s.io".to_owned())),
        Read::Unknown(why) => (Vec::new(), Some(why)),
    };
    let metrics: Vec<_> = metrics.into_iter().filter_map(|one| serde_json::to_value(one).ok()).collect();
    let usage = usage(&family?.pods, &metrics);
    match args.output.output {
        format if write_data(format, &usage, out)? => {}
        Format::Name => {
            for one in &usage {
                writeln!(out, "{}", one.component)?;
            }
        }
        _ => {
            out.write_all(usage_table(&usage).as_bytes())?;
            if let Some(why) = unknown {
                writeln!(out, "note: usage is not known: {why}")?;
            }
        }
    }
    Ok(Outcome::Fine)
}

/// Flags of `why`.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
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
pub async fn show_causes(
    args: &WhyArgs,
    connection: &Connection,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
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

/// Flags of `doctor`.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints the checks. The install is well if none fails.
///
/// # Errors
/// The output cannot be written.
pub async fn show_checks(
    args: &DoctorArgs,
    connection: &Connection,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
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
