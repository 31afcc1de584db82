//! The manifests that a user gives to `up`, and how they are applied: as `kubectl apply --server-side` would.

use std::{fmt, path::Path};

use anyhow::{Context, Result, bail};
use local_operator::manifests::{self, is_ours};
use repository::files;
use serde_json::{Value, json};
use test_cluster::Cluster;

const FIELD_MANAGER: &str = "cargo-xtask-up";

/// Something that is to become Ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) is_graph: bool,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", if self.is_graph { "graph" } else { "component" }, self.namespace, self.name)
    }
}

/// Applies objects one after the other. Gives those that are to become Ready.
pub(super) async fn apply(cluster: &Cluster, objects: &[Value], namespace: &str) -> Result<Vec<Target>> {
    cluster.apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})]).await?;
    cluster.apply_as(FIELD_MANAGER, namespace, objects).await?;
    let targets = objects.iter().filter(|object| is_ours(object)).filter_map(|object| {
        let is_graph = object["kind"] == "DynamoGraphDeployment";
        let (place, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
        let namespace = place.as_str().unwrap_or(namespace).to_owned();
        (is_graph || object["kind"] == "DynamoComponentDeployment").then(|| Target {
            is_graph,
            namespace,
            name: name.as_str().unwrap_or_default().to_owned(),
        })
    });
    Ok(targets.collect())
}

/// Reads the objects of a file, or of those of a folder in the order of their names, as kubectl does: those of our group
/// last, because they refer to the others. Fills in placeholders with `tag`.
///
/// # Errors
/// One cannot be read, is not YAML, has placeholders and there is no tag; or nothing could become Ready.
pub(super) fn read(path: &Path, tag: Option<&str>) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    // Of a folder the manifests in it, but not those in folders below.
    let all = if path.is_dir() { files(path, &["yaml", "yml", "json"])? } else { vec![path.to_owned()] };
    for file in all {
        objects.extend(parse(&repository::read(&file)?, tag).with_context(|| file.display().to_string())?);
    }
    ours_last(objects).with_context(|| path.display().to_string())
}

fn ours_last(mut objects: Vec<Value>) -> Result<Vec<Value>> {
    objects.sort_by_key(is_ours);
    if !objects.iter().any(is_ours) {
        bail!("there is no object of the group {}", api_types::GROUP);
    }
    Ok(objects)
}

/// The objects in a text.
fn parse(text: &str, tag: Option<&str>) -> Result<Vec<Value>> {
    match (tag, manifests::placeholders(text).as_slice()) {
        (Some(tag), _) => manifests::parse(&manifests::fill_placeholders(text, tag)),
        (None, []) => manifests::parse(text),
        (None, found) => {
            let lines: Vec<_> = found.iter().map(|(line, text)| format!("  line {line}: {text}")).collect();
            bail!("there are placeholders; fill them in or add --set-image-tag TAG:\n{}", lines.join("\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str =
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nimage: a:my-tag\n";

    #[test]
    fn a_placeholder_is_an_error_that_says_where_and_what_to_do() {
        let error = format!("{:#}", parse(GRAPH, None).unwrap_err());
        assert!(error.contains("line 4: image: a:my-tag") && error.contains("--set-image-tag"), "{error}");
        assert_eq!(parse(GRAPH, Some("1.2.3")).unwrap()[0]["image"], "a:1.2.3");
    }

    #[test]
    fn what_a_graph_refers_to_comes_first() {
        let text = format!("{GRAPH}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n");
        let objects = ours_last(parse(&text, Some("1")).unwrap()).unwrap();
        assert_eq!(objects[0]["kind"], "Secret");
    }

    #[test]
    fn a_file_without_a_graph_is_refused() {
        assert!(ours_last(parse("apiVersion: v1\nkind: Secret\n", None).unwrap()).is_err());
    }

    #[test]
    fn a_folder_is_its_manifests_in_the_order_of_their_names() {
        let examples = repository::root().join("deploy/examples/2025");
        let objects = read(&examples, None).unwrap();
        let names: Vec<_> = objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
        assert_eq!(names, ["autoscaled", "frontend--v1", "disagg", "agg--v1", "agg", "llm-agg"]);
    }
}
