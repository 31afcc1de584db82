//! Common content of every `Cargo.toml` of a member.

use crate::tidy::{source::TextFile, violation::TidyViolation};

/// Checks that a member takes lints and versions from the workspace.
pub fn check(file: &TextFile) -> Vec<TidyViolation> {
    if file.name() != "Cargo.toml" || !file.path.contains('/') {
        return Vec::new();
    }
    let mut violations = Vec::new();
    let mut section = "";
    let mut takes_lints = false;
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
            continue;
        }
        takes_lints |= section == "[lints]" && line == "workspace = true";
        let is_dependency = section.ends_with("dependencies]") && line.contains('=') && !line.starts_with('#');
        // A crate may name itself, to test itself with other features.
        if is_dependency && !line.contains("workspace = true") && !line.contains("path = \".\"") {
            let text = "a dependency with a version of its own; name it in [workspace.dependencies] and write `workspace = true`";
            violations.push(TidyViolation::new(&file.path, index + 1, text));
        }
    }
    if !takes_lints {
        let text = "the lints of the workspace do not hold here; add `[lints]` with `workspace = true`";
        violations.push(TidyViolation::new(&file.path, 1, text));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::testing::file;

    #[test]
    fn members_take_lints_and_versions_from_the_workspace() {
        let good = "[package]\nname = \"x\"\n\n[dependencies]\n# why\nserde.workspace = true\n\
                    kube = { workspace = true, features = [\"client\"] }\n\n[dev-dependencies]\n\
                    x = { path = \".\", features = [\"y\"] }\n\n[lints]\nworkspace = true\n";
        let check = |text: &str| check(&file("crates/x/Cargo.toml", text));
        assert!(check(good).is_empty());
        assert_eq!(check(&good.replace("serde.workspace = true", "serde = \"1\""))[0].line, 6);
        assert_eq!(check(&good.replace("[lints]", "[other]")).len(), 1);
    }
}
