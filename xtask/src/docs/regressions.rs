//! Tests that the page of regressions names.

use std::{collections::BTreeSet, path::Path};

use anyhow::Result;

use crate::tidy::source;

/// The page.
const PAGE: &str = "regressions.md";

/// Names of all functions, tests among them.
pub(super) struct Functions(BTreeSet<String>);

impl Functions {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let files = source::read_all(root)?;
        let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
        Ok(Self(rust.flat_map(|file| names(&file.text)).collect()))
    }

    /// Whether a piece of code in a page names a test that does not exist.
    pub(super) fn lacks(&self, page: &str, code: &str) -> bool {
        let is_name =
            code.contains('_') && code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        page == PAGE && is_name && !self.0.contains(code)
    }
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
