//! The manifests that a user gives to `up`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use local_operator::manifests;
use serde_json::Value;

/// The objects of a file or folder, those of our group last, because they refer to the others.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) objects: Vec<Value>,
}

impl Input {
    /// Reads a file, or those of a folder in the order of their names, as kubectl does. Fills in placeholders with `tag`.
    ///
    /// # Errors
    /// One cannot be read, is not YAML, has placeholders and there is no tag; or nothing could become Ready.
    pub(super) fn read(path: &Path, tag: Option<&str>) -> Result<Self> {
        let mut objects = Vec::new();
        for file in files(path).with_context(|| format!("cannot read {}", path.display()))? {
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            objects.extend(parse(&text, tag).with_context(|| file.display().to_string())?);
        }
        Self::new(objects).with_context(|| path.display().to_string())
    }

    fn new(mut objects: Vec<Value>) -> Result<Self> {
        objects.sort_by_key(manifests::is_ours);
        if !objects.iter().any(manifests::is_ours) {
            bail!("there is no object of the group {}", api_types::GROUP);
        }
        Ok(Self { objects })
    }
}

/// The file itself; of a folder, the manifests in it, but not those in folders below.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let is_manifest = |extension: &str| matches!(extension, "yaml" | "yml" | "json");
    files.retain(|file| file.is_file() && file.extension().and_then(|it| it.to_str()).is_some_and(is_manifest));
    files.sort();
    Ok(files)
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
        let input = Input::new(parse(&text, Some("1")).unwrap()).unwrap();
        assert_eq!(input.objects[0]["kind"], "Secret");
    }

    #[test]
    fn a_file_without_a_graph_is_refused() {
        assert!(Input::new(parse("apiVersion: v1\nkind: Secret\n", None).unwrap()).is_err());
    }

    #[test]
    fn a_folder_is_its_manifests_in_the_order_of_their_names() {
        let examples = repository::root().join("deploy/examples/2025");
        let input = Input::read(&examples, None).unwrap();
        let names: Vec<_> = input.objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
        assert_eq!(names, ["autoscaled", "frontend--v1", "disagg", "agg--v1", "agg", "llm-agg"]);
    }
}
