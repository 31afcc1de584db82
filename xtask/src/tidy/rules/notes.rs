//! Notes of unfinished work.

use super::words;
use crate::tidy::{source::TextFile, violation::TidyViolation};

const NOTES: [&str; 3] = ["FIXME", "TODO", "XXX"];

/// Finds notes of unfinished work, in any file.
pub fn check(file: &TextFile) -> Vec<TidyViolation> {
    // The rule itself has to name them.
    if file.path.starts_with("xtask/src/tidy/") {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let noted = lines.filter_map(|(index, line)| {
        let note = NOTES.iter().find(|note| words(line, note).next().is_some())?;
        Some(TidyViolation::new(&file.path, index + 1, format!("`{note}`; do it now, or open an issue")))
    });
    noted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::testing::file;

    #[test]
    fn unfinished_work_is_not_noted_in_files() {
        for (text, found) in [("# TODO: later", 1), ("// FIXME", 1), ("let todos = 1;", 0), ("TODOS", 0)] {
            assert_eq!(check(&file("docs/x.md", text)).len(), found, "{text}");
        }
    }
}
