//! A name of a type is used once in the product and the commands: a search for it finds one definition.

use std::collections::BTreeMap;

use regex::Regex;

use crate::tidy::{source::TextFile, violation::TidyViolation};

/// Folders of the product and of the commands.
const FOLDERS: [&str; 2] = ["crates/", "xtask/"];

/// Finds types at the top of a file whose name another file of these folders defines as well.
pub fn check(files: &[TextFile]) -> Vec<TidyViolation> {
    let Ok(definition) = Regex::new(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (\w+)") else {
        return Vec::new();
    };
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    let mut violations = Vec::new();
    let is_checked = |path: &str| FOLDERS.iter().any(|folder| path.starts_with(folder)) && path.contains("/src/");
    let checked = files.iter().filter(|file| is_checked(&file.path));
    for file in checked.filter_map(TextFile::rust).filter(|file| !file.is_test()) {
        for (line, code) in file.product_code() {
            let Some(name) = definition.captures(code).map(|found| found[1].to_owned()) else { continue };
            let path = &file.file.path;
            match first.get(&name) {
                Some(other) => {
                    let text = format!("{other} has a type `{name}` as well; say in the name what it is of");
                    violations.push(TidyViolation::new(path, line, text));
                }
                None => drop(first.insert(name, path.clone())),
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::rules::testing::file;

    #[test]
    fn a_second_type_of_a_name_is_found() {
        let files = [
            file("crates/a/src/x.rs", "struct Plan;\nimpl Plan {}\n"),
            file("crates/b/src/x.rs", "use a::Plan;\n\npub(crate) enum Plan {}\ntype Planner = ();\n"),
            file("crates/b/src/x_tests.rs", "struct Plan;\n"),
            file("testing/c/src/x.rs", "struct Plan;\n"),
            file("xtask/src/x.rs", "struct Plan;\n"),
        ];
        let found: Vec<_> = check(&files).into_iter().map(|violation| (violation.path, violation.line)).collect();
        assert_eq!(found, [("crates/b/src/x.rs".to_owned(), 3), ("xtask/src/x.rs".to_owned(), 1)]);
    }
}
