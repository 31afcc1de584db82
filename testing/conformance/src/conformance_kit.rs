//! The conformance kit: where it is, and which cases it has.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde_json::Value;
use sha1::{Digest, Sha1};

/// The folder of the kit, with inputs and the reference's outputs.
#[derive(Debug)]
pub(super) struct ConformanceKit {
    root: PathBuf,
}

/// An input together with what the reference made of it.
#[derive(Debug)]
pub(super) struct Case {
    /// The name of the file with the expectation, without its ending.
    pub(super) name: String,
    /// The path of the input below the folder of inputs.
    pub(super) example: String,
    /// The input, as it is in the kit.
    pub(super) input: String,
    /// Result of the reference.
    pub(super) expected: Value,
}

impl Case {
    /// The namespace of the case. It follows from the path of the input, because it becomes part of names and values.
    pub(super) fn namespace(&self) -> String {
        namespace(&self.example)
    }
}

/// Selection of cases.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// A file with one name on each line.
    pub(super) list: Option<PathBuf>,
    /// A pattern with `*` and `?` for whole names.
    pub(super) only: Option<String>,
    /// A part of a name.
    pub(super) part: Option<String>,
}

impl ConformanceKit {
    /// Finds the kit.
    pub(super) fn find() -> Result<Self> {
        let root = test_cluster::conformance_kit().context("there is nothing to compare with")?;
        Ok(Self { root })
    }

    /// The selected cases of a mode, by name.
    pub(super) fn cases(&self, mode: &str, selection: &Selection) -> Result<Vec<Case>> {
        let folder = self.root.join("expected").join(mode);
        let files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut names = BTreeSet::new();
        for file in files {
            let name = file?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".json").map(str::to_owned));
        }
        let listed = selection.list.as_deref().map(listed).transpose()?;
        if let Some(unknown) = listed.iter().flatten().find(|name| !names.contains(*name)) {
            bail!("there is no case {unknown} in {}", folder.display());
        }
        let only = selection.only.as_deref().map(pattern).transpose()?;
        names.retain(|name| {
            listed.as_ref().is_none_or(|listed| listed.contains(name))
                && only.as_ref().is_none_or(|only| only.is_match(name))
                && selection.part.as_ref().is_none_or(|part| name.contains(part.trim_end_matches(".json")))
        });
        names.into_iter().map(|name| self.case(&folder, name)).collect()
    }

    fn case(&self, folder: &Path, name: String) -> Result<Case> {
        let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        let path = folder.join(format!("{name}.json"));
        let expected: Value =
            serde_json::from_str(&read(&path)?).with_context(|| format!("{} is not JSON", path.display()))?;
        let example = expected.get("example").and_then(Value::as_str);
        let example = example.with_context(|| format!("{} names no `example`", path.display()))?.to_owned();
        let input = read(&self.root.join("input").join(&example))?;
        Ok(Case { name, example, input, expected })
    }
}

fn namespace(example: &str) -> String {
    let hash: String = Sha1::digest(example).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("o-{hash}")
}

/// The names in a file; the ending of an expectation and comments are allowed.
fn listed(path: &Path) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).map(|line| line.trim_end_matches(".json").to_owned()).collect())
}

/// `*` matches any characters, `?` one. The ending of an expectation may be there or not.
fn pattern(glob: &str) -> Result<Regex> {
    let escaped = regex::escape(glob.trim_end_matches(".json")).replace(r"\*", ".*").replace(r"\?", ".");
    Regex::new(&format!("^{escaped}$")).with_context(|| format!("`{glob}` is not a pattern"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_follows_from_the_path() {
        assert_eq!(namespace("examples/backends/vllm/deploy/agg.yaml"), "o-ff9d6f38");
    }

    #[test]
    fn patterns_match_whole_names() {
        for (glob, name, matches) in [
            ("*vllm*agg", "examples__vllm__deploy__agg", true),
            ("*vllm*agg.json", "examples__vllm__deploy__agg", true),
            ("vllm", "examples__vllm__deploy__agg", false),
            ("a?c", "abc", true),
            ("a.c", "abc", false),
        ] {
            assert_eq!(pattern(glob).unwrap().is_match(name), matches, "{glob}");
        }
    }
}
