//! Tests that the page of regressions names.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};

/// The page.
const PAGE: &str = "regressions.md";

/// Folders of the repository with tests.
const FOLDERS: [&str; 3] = ["crates", "testing", "xtask"];

/// Names of all functions, tests among them.
pub(super) struct Functions(BTreeSet<String>);

impl Functions {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut all = BTreeSet::new();
        FOLDERS.into_iter().try_for_each(|folder| collect(&root.join(folder), &mut all))?;
        Ok(Self(all))
    }

    /// Whether a piece of code in a page names a test that does not exist.
    pub(super) fn lacks(&self, page: &str, code: &str) -> bool {
        let is_name =
            code.contains('_') && code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        page == PAGE && is_name && !self.0.contains(code)
    }
}

fn collect(dir: &Path, all: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, all)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            all.extend(names(&text));
        }
    }
    Ok(())
}

fn names(text: &str) -> impl Iterator<Item = String> {
    let declared = text.lines().filter_map(|line| line.split_once("fn ")?.1.split_once('('));
    declared.map(|(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        let text = "#[test]\nfn one_thing() {}\n    async fn another_thing() {}\n// fnord\n";
        let known = Functions(names(text).collect());
        for (page, code, lacks) in [
            ("regressions.md", "one_thing", false),
            ("regressions.md", "another_thing", false),
            ("regressions.md", "no_thing", true),
            ("regressions.md", "Failed", false),
            ("regressions.md", "status.trial_graphs", false),
            ("usage.md", "no_thing", false),
        ] {
            assert_eq!(known.lacks(page, code), lacks, "{page}: {code}");
        }
    }
}
