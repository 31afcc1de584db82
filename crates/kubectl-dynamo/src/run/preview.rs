//! `kubectl dynamo plan`: what an edit of a graph will do.

use std::{io::Write, path::PathBuf};

use anyhow::{Context, anyhow, bail};
use api_types::v1beta1::DynamoGraphDeployment;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, api::DynamicObject, core::ApiResource};
use serde_json::{Value, json};

use crate::{
    observe::{Connection, words},
    output::{Format, Outcome, OutputArgs, Style, write_data},
    preview::{Edit, Operator, Prediction, predict, set, set_image},
};

const EXIT_CODES: &str = "\
Exit codes:
  0  nothing changes
  1  something changes
  2  wrong usage, the cluster cannot be read, or the graph is one that a preview does not cover
  3  the edit is refused, by admission or by the controllers";

/// Flags of `plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// A live graph to edit with --set and --image; without those, what the controllers would write now
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    name: Option<String>,
    /// Manifests of graphs as for `kubectl apply`, v1alpha1 or v1beta1; `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Set a field of the live graph, for example `components[Decode].replicas=3`; null removes it
    #[arg(long, value_name = "PATH=VALUE", conflicts_with = "file")]
    set: Vec<String>,
    /// Set the image of a component's main container
    #[arg(long, value_name = "COMPONENT=IMAGE", conflicts_with = "file")]
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
/// A file or the cluster cannot be read, or a graph is one that a preview does not cover.
pub async fn run(args: &Args, connection: &Connection, style: Style, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let operator = Operator::installed(&connection.client, &args.operator_namespace).await?;
    let mut all = Vec::new();
    for (namespace, edit) in edits(args, connection).await? {
        all.push(predict(&connection.client, &namespace, &edit, &operator, Timestamp::now()).await?);
    }
    match (args.output.output, all.as_slice()) {
        (Format::Json | Format::Yaml, [one]) => drop(write_data(args.output.output, one, out)?),
        (Format::Json | Format::Yaml, _) => drop(write_data(args.output.output, &all, out)?),
        (Format::Name, _) => {
            for change in all.iter().flat_map(|prediction| &prediction.changes) {
                writeln!(out, "{}/{}", change.kind.to_lowercase(), change.name)?;
            }
        }
        (Format::Table | Format::Wide, _) => {
            for prediction in &all {
                out.write_all(prediction.text(style).as_bytes())?;
            }
        }
    }
    Ok(outcome(&all))
}

fn outcome(all: &[Prediction]) -> Outcome {
    if all.iter().any(|prediction| prediction.refused.is_some()) {
        Outcome::Refused
    } else if all.iter().any(Prediction::changes_something) {
        Outcome::Unwell
    } else {
        Outcome::Fine
    }
}

/// The edits, each with its namespace.
async fn edits(args: &Args, connection: &Connection) -> anyhow::Result<Vec<(String, Edit)>> {
    let Some(name) = &args.name else {
        let file = args.file.as_deref().context("name a graph, or a file with -f")?;
        return from_documents(&super::read(file)?, args, &connection.namespace);
    };
    let resource = ApiResource::erase::<DynamoGraphDeployment>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(connection.client.clone(), &connection.namespace, &resource);
    let unread = |error| anyhow!("cannot read graph {}/{name}: {}", connection.namespace, words(&error));
    let graph = api.get(name).await.map_err(unread)?;
    let mut graph = serde_json::to_value(graph)?;
    if let Some(metadata) = graph["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    args.image.iter().try_for_each(|assignment| set_image(&mut graph, assignment))?;
    args.set.iter().try_for_each(|assignment| set(&mut graph, assignment))?;
    Ok(vec![(connection.namespace.clone(), Edit::Replacement(graph))])
}

fn from_documents(text: &str, args: &Args, namespace: &str) -> anyhow::Result<Vec<(String, Edit)>> {
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
