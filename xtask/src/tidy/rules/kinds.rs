//! Each reconciled kind has the same files: a reader of one kind finds the way in all of them.

use std::collections::BTreeSet;

use crate::tidy::{source::TextFile, violation::TidyViolation};

/// The files or folders of a reconciled kind, beside those that only it needs.
const FILES: [&str; 8] = ["model", "observe", "validate", "plan", "apply", "status", "events", "requeue"];

/// Finds reconciled kinds that lack one of [`FILES`].
pub fn check(files: &[TextFile]) -> Vec<TidyViolation> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/")) {
        let Some(folder) = file.path.strip_suffix("/mod.rs") else { continue };
        let Some(rust) = file.rust().filter(|rust| !rust.is_test()) else { continue };
        let Some((line, _)) = rust.product_code().find(|(_, code)| code.starts_with("impl Reconcile for")) else {
            continue;
        };
        let has = |name: &str| {
            let forms = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            forms.iter().any(|path| paths.contains(path.as_str()))
        };
        for name in FILES.into_iter().filter(|name| !has(name)) {
            let text = format!("no module `{name}`, which each reconciled kind has; put there what it is for");
            violations.push(TidyViolation::new(&file.path, line, text));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::rules::testing::file;

    #[test]
    fn a_missing_module_of_a_kind_is_found() {
        let of = |names: &[&str]| {
            let mut files = vec![file("crates/a/src/cup/mod.rs", "struct R;\nimpl Reconcile for R {\n}\n")];
            files.extend(names.iter().map(|name| file(&format!("crates/a/src/cup/{name}"), "")));
            files.push(file("crates/a/src/saucer/mod.rs", "// impl Reconcile for R {}\n"));
            check(&files).into_iter().map(|violation| violation.line).collect::<Vec<_>>()
        };
        let all = [
            "model.rs",
            "observe/mod.rs",
            "validate.rs",
            "plan/mod.rs",
            "apply.rs",
            "status.rs",
            "events.rs",
            "requeue.rs",
        ];
        assert!(of(&all).is_empty());
        assert_eq!(of(&all[1..]), [2]);
        assert_eq!(of(&[]).len(), 8);
    }
}
