//! A name of a type is used once in the product: who searches for it finds one definition.

use std::collections::BTreeMap;

use regex::Regex;

use crate::tidy::{source::TextFile, violation::Violation};

/// Folder of the crates that are built into the product.
const PRODUCT: &str = "crates/";

/// Finds types at the top of a file whose name another file of the product defines as well.
pub fn check(files: &[TextFile]) -> Vec<Violation> {
    let Ok(definition) = Regex::new(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (\w+)") else {
        return Vec::new();
    };
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    let mut violations = Vec::new();
    let product = files.iter().filter(|file| file.path.starts_with(PRODUCT) && file.path.contains("/src/"));
    for file in product.filter_map(TextFile::rust).filter(|file| !file.is_test()) {
        for (line, code) in file.product_code() {
            let Some(name) = definition.captures(code).map(|found| found[1].to_owned()) else { continue };
            let path = &file.file.path;
            match first.get(&name) {
                Some(other) => {
                    let text = format!("{other} has a type `{name}` as well; say in the name what it is of");
                    violations.push(Violation::new(path, line, text));
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
        ];
        let found: Vec<_> = check(&files).into_iter().map(|violation| (violation.path, violation.line)).collect();
        assert_eq!(found, [("crates/b/src/x.rs".to_owned(), 3)]);
    }
}
