//! Commands that show one thing: `tree`, `history`, `top`, `why` and `doctor`.

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
    install::{CheckState, check, table},
    observe::{Connection, Read, TargetObject, family, install, list, observe, of_graph},
    output::{CommandOutcome, OutputArgs, OutputFormat, object_name, write_data},
    view::{history, history_table, tree, tree_text, usage, usage_table},
};

/// Prints the tree.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn show_tree(
    args: &GraphOutputArgs,
    connection: &Connection,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let root = tree(&family(connection, &args.graph).await?);
    write_data(args.output.output, &root, root.names(), &tree_text(&root), out)?;
    Ok(CommandOutcome::Fine)
}

/// Prints the revisions.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn show_history(
    args: &GraphOutputArgs,
    connection: &Connection,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let revisions = history(&family(connection, &args.graph).await?);
    let names = revisions.iter().map(|one| &one.revision);
    write_data(args.output.output, &revisions, names, &history_table(&revisions, Timestamp::now()), out)?;
    Ok(CommandOutcome::Fine)
}

/// Prints the sums of each component.
///
/// # Errors
/// The graph or its children cannot be read.
pub async fn show_usage(
    args: &GraphOutputArgs,
    connection: &Connection,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
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
    let mut text = usage_table(&usage);
    if let Some(why) = unknown {
        text.push_str(&format!("note: usage is not known: {why}\n"));
    }
    write_data(args.output.output, &usage, usage.iter().map(|one| &one.component), &text, out)?;
    Ok(CommandOutcome::Fine)
}

/// Flags of `why`.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// A graph, or TYPE/NAME: dgd, dcd, dynamomodel, dgdr or checkpoint
    #[arg(value_name = "[TYPE/]NAME")]
    target: TargetObject,
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
) -> anyhow::Result<CommandOutcome> {
    let observed = observe(connection, &args.target).await?;
    let diagnosis = diagnose(&observed, Timestamp::now());
    let last = diagnosis.causes.iter().filter_map(|cause| cause.chain.last());
    let names = last.map(|object| object_name(&object.kind, &object.name));
    write_data(args.output.output, &diagnosis, names, &explain(&diagnosis, style), out)?;
    let is_well = diagnosis.ready && !diagnosis.causes.iter().any(|cause| cause.weight == Weight::Blocks);
    Ok(if is_well { CommandOutcome::Fine } else { CommandOutcome::Unwell })
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
) -> anyhow::Result<CommandOutcome> {
    let checks = check(&install(connection).await, Timestamp::now());
    let format = args.output.output;
    let failed = || checks.iter().filter(|one| one.state == CheckState::Failed);
    let text = table(&checks, format == OutputFormat::Wide, style);
    write_data(format, &checks, failed().map(|one| &one.check), &text, out)?;
    Ok(if failed().next().is_some() { CommandOutcome::Unwell } else { CommandOutcome::Fine })
}
