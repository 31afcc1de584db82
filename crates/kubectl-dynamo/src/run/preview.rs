//! `kubectl dynamo plan`: what an edit of a graph will do.

use std::{io::Write, path::PathBuf};

use anyhow::{Context, anyhow, bail};
use api_types::v1beta1::DynamoGraphDeployment;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt, api::DynamicObject, core::ApiResource};
use serde_json::{Value, json};
use status_view::Style;

use crate::{
    observe::{Connection, graphs, words},
    output::{CommandOutcome, OutputArgs, OutputFormat, object_name, write_data},
    preview::{Edit, Operator, Prediction, overview, predict, set, set_image},
};

const EXIT_CODES: &str = "\
Exit codes:
  0  nothing changes
  1  something changes
  2  wrong usage, or the cluster cannot be read
  3  the edit is refused, by admission or by the controllers";

/// Flags of `plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct PreviewArgs {
    /// A live graph to edit with --set and --image; without those, what the controllers would write now
    #[arg(required_unless_present_any = ["file", "all"], conflicts_with_all = ["file", "all"])]
    name: Option<String>,
    /// Manifests of graphs as for `kubectl apply`, v1alpha1 or v1beta1; `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// All graphs of the namespace, without an edit: what this version of the operator would change about them
    #[arg(long, conflicts_with = "file")]
    all: bool,
    /// With --all: graphs of all namespaces
    #[arg(short = 'A', long, requires = "all")]
    all_namespaces: bool,
    /// Configuration of the operator, as in config.yaml of its ConfigMap, in place of the one that is installed
    #[arg(long, value_name = "FILE")]
    configuration: Option<PathBuf>,
    /// Set a field of the live graph, for example `components[Decode].replicas=3`; null removes it
    #[arg(long, value_name = "PATH=VALUE", conflicts_with_all = ["file", "all"])]
    set: Vec<String>,
    /// Set the image of a component's main container
    #[arg(long, value_name = "COMPONENT=IMAGE", conflicts_with_all = ["file", "all"])]
    image: Vec<String>,
    /// Apply the manifests as `kubectl apply --server-side` does
    #[arg(long, requires = "file")]
    server_side: bool,
    /// Field manager for --server-side
    #[arg(long, value_name = "NAME", default_value = "kubectl")]
    field_manager: String,
    /// Namespace of the operator, to read its configuration
    #[arg(long, value_name = "NAME", default_value = "dynamo-system")]
    operator_namespace: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Predicts what each edit will do, and prints it.
///
/// # Errors
/// A file or the cluster cannot be read.
pub async fn run(
    args: &PreviewArgs,
    connection: &Connection,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let operator = match &args.configuration {
        Some(file) => Operator::configured(&super::read(file)?)?,
        None => Operator::installed(&connection.client, &args.operator_namespace).await?,
    };
    let mut all = Vec::new();
    for (namespace, edit) in edits(args, connection).await? {
        all.push(predict(&connection.client, &namespace, &edit, &operator, Timestamp::now()).await?);
    }
    let format = args.output.output;
    let changes = all.iter().flat_map(|prediction| &prediction.changes);
    let names = changes.map(|change| object_name(&change.kind, &change.name));
    let text = match args.all && format != OutputFormat::Wide {
        true => overview(&all, style),
        false => all.iter().map(|prediction| prediction.text(style)).collect(),
    };
    match all.as_slice() {
        [one] if !args.all => write_data(format, one, names, &text, out)?,
        _ => write_data(format, &all, names, &text, out)?,
    }
    Ok(outcome(&all))
}

fn outcome(all: &[Prediction]) -> CommandOutcome {
    if all.iter().any(|prediction| prediction.refused.is_some()) {
        CommandOutcome::Refused
    } else if all.iter().any(Prediction::changes_something) {
        CommandOutcome::Unwell
    } else {
        CommandOutcome::Fine
    }
}

/// The edits, each with its namespace.
async fn edits(args: &PreviewArgs, connection: &Connection) -> anyhow::Result<Vec<(String, Edit)>> {
    if args.all {
        return live_graphs(args, connection).await;
    }
    let Some(name) = &args.name else {
        let file = args.file.as_deref().context("name a graph, or a file with -f")?;
        return from_documents(&super::read(file)?, args, &connection.namespace);
    };
    let mut graph = live(connection, &connection.namespace, name).await?;
    args.image.iter().try_for_each(|assignment| set_image(&mut graph, assignment))?;
    args.set.iter().try_for_each(|assignment| set(&mut graph, assignment))?;
    Ok(vec![(connection.namespace.clone(), Edit::Replacement(graph))])
}

/// A live graph, as a user edits it.
async fn live(connection: &Connection, namespace: &str, name: &str) -> anyhow::Result<Value> {
    let resource = ApiResource::erase::<DynamoGraphDeployment>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(connection.client.clone(), namespace, &resource);
    let unread = |error| anyhow!("cannot read graph {namespace}/{name}: {}", words(&error));
    let mut graph = serde_json::to_value(api.get(name).await.map_err(unread)?)?;
    if let Some(metadata) = graph["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    Ok(graph)
}

/// All live graphs, unchanged.
async fn live_graphs(args: &PreviewArgs, connection: &Connection) -> anyhow::Result<Vec<(String, Edit)>> {
    let mut all = Vec::new();
    for graph in graphs(connection, args.all_namespaces).await? {
        if graph.metadata.deletion_timestamp.is_none() {
            let namespace = graph.namespace().unwrap_or_default();
            let graph = live(connection, &namespace, &graph.name_any()).await?;
            all.push((namespace, Edit::Replacement(graph)));
        }
    }
    Ok(all)
}

fn from_documents(text: &str, args: &PreviewArgs, namespace: &str) -> anyhow::Result<Vec<(String, Edit)>> {
    let options = serde_saphyr::options! { emit_comments: false };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).context("not YAML")?;
    let graphs = documents.into_iter().filter(|document| {
        let version = document["apiVersion"].as_str().unwrap_or_default();
        document["kind"] == "DynamoGraphDeployment" && version.starts_with(&format!("{}/", api_types::GROUP))
    });
    let edit = |mut graph: Value| {
        let namespace = graph["metadata"]["namespace"].as_str().unwrap_or(namespace).to_owned();
        graph["metadata"]["namespace"] = json!(namespace);
        let edit = match args.server_side {
            true => Edit::ServerSide(graph, args.field_manager.clone()),
            false => Edit::Manifest(graph),
        };
        (namespace, edit)
    };
    let all: Vec<_> = graphs.map(edit).collect();
    if all.is_empty() {
        bail!("there is no DynamoGraphDeployment in the file");
    }
    Ok(all)
}
