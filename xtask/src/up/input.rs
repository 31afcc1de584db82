//! The manifests that a user gives to `up`.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use local_operator::manifests;
use serde_json::Value;

/// The objects of a file, those of our group last, because they refer to the others.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) objects: Vec<Value>,
}

impl Input {
    /// Reads a file and fills in placeholders with `tag`.
    ///
    /// # Errors
    /// It cannot be read, is not YAML, has placeholders and there is no tag, or has nothing that could become Ready.
    pub(super) fn read(path: &Path, tag: Option<&str>) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::from_text(&text, tag).with_context(|| path.display().to_string())
    }

    fn from_text(text: &str, tag: Option<&str>) -> Result<Self> {
        let text = match (tag, manifests::placeholders(text).as_slice()) {
            (Some(tag), _) => manifests::fill_placeholders(text, tag),
            (None, []) => text.to_owned(),
            (None, found) => {
                let lines: Vec<_> = found.iter().map(|(line, text)| format!("  line {line}: {text}")).collect();
                bail!("there are placeholders; fill them in or add --set-image-tag TAG:\n{}", lines.join("\n"));
            }
        };
        let mut objects = manifests::parse(&text)?;
        objects.sort_by_key(manifests::is_ours);
        if !objects.iter().any(manifests::is_ours) {
            bail!("there is no object of the group {}", api_types::GROUP);
        }
        Ok(Self { objects })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str =
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nimage: a:my-tag\n";

    #[test]
    fn a_placeholder_is_an_error_that_says_where_and_what_to_do() {
        let error = format!("{:#}", Input::from_text(GRAPH, None).unwrap_err());
        assert!(error.contains("line 4: image: a:my-tag") && error.contains("--set-image-tag"), "{error}");
        assert_eq!(Input::from_text(GRAPH, Some("1.2.3")).unwrap().objects[0]["image"], "a:1.2.3");
    }

    #[test]
    fn what_a_graph_refers_to_comes_first() {
        let text = format!("{GRAPH}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n");
        let input = Input::from_text(&text, Some("1")).unwrap();
        assert_eq!(input.objects[0]["kind"], "Secret");
    }

    #[test]
    fn a_file_without_a_graph_is_refused() {
        assert!(Input::from_text("apiVersion: v1\nkind: Secret\n", None).is_err());
    }
}
