//! `cargo xtask tidy`: holds what `docs/architecture.md` promises and what the compiler and clippy cannot see.
//!
//! Every violation is one line: `path:line: what is wrong, and how to mend it`.

mod lexer;
mod rules;
pub(crate) mod source;
mod violation;

use std::{path::Path, process::Command};

use anyhow::{Context, bail};
use repository::root;

use self::{
    rules::{circles, dependencies, kinds, layers, manifests, notes, places, shape, type_names, vocabulary, workflows},
    source::TextFile,
    violation::TidyViolation,
};

/// Checks the whole repository and prints every violation.
///
/// # Errors
/// There are violations, or something cannot be read.
pub fn run() -> anyhow::Result<()> {
    let root = root();
    let files = source::read_all(root)?;
    let mut violations = check_files(&files, &root.to_string_lossy());
    for name in layers::PURE_CRATES {
        let libraries = ["--package", name, "--edges", "normal"];
        violations.extend(dependencies::check_pure(name, &dependency_tree(root, &libraries)?));
    }
    let everything = dependency_tree(root, &["--workspace", "--all-features", "--format", "{p} [{f}]"])?;
    let commands = ["--package", "xtask", "--edges", "normal,build", "--format", "{p} [{f}]"];
    violations.extend(dependencies::check_commands(&dependency_tree(root, &commands)?, &everything));
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    println!("tidy: {} files, {} violations", files.len(), violations.len());
    if violations.is_empty() { Ok(()) } else { bail!("the repository is not tidy") }
}

/// Applies every rule that reads the source.
fn check_files(files: &[TextFile], root: &str) -> Vec<TidyViolation> {
    let mut violations = circles::check(files);
    violations.extend(kinds::check(files));
    violations.extend(type_names::check(files));
    for file in files {
        violations.extend(manifests::check(file));
        violations.extend(notes::check(file));
        violations.extend(places::check(file, root));
        violations.extend(workflows::check(file));
        let Some(rust) = file.rust() else { continue };
        for rule in [layers::check, shape::check, vocabulary::check] {
            violations.extend(rule(&rust));
        }
    }
    violations
}

/// Returns the dependencies of a build, one package per line.
fn dependency_tree(root: &Path, of: &[&str]) -> anyhow::Result<String> {
    let output =
        Command::new("cargo").args(["tree", "--locked", "--prefix", "none"]).args(of).current_dir(root).output();
    let output = output.context("cannot run cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree {} failed: {}", of.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_checked() {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file(".github/workflows/x.yml", "- uses: actions/x@v1\n"),
            file("crates/x-controller/src/plan.rs", "use tokio::x;\nfn f() { g(\"nvidia.com/x\") }\n"),
            file("crates/x/Cargo.toml", "[package]\n"),
            file("docs/x.md", "FIXME\n/srv/checkout/x\n"),
        ];
        let found: Vec<String> = check_files(&files, "/srv/checkout")
            .iter()
            .map(|v| format!("{}:{} {}", v.path, v.line, v.text.split([' ', ';']).next().unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                ".github/workflows/x.yml:1 an",
                "crates/x-controller/src/plan.rs:1 `tokio`",
                "crates/x-controller/src/plan.rs:1 no",
                "crates/x-controller/src/plan.rs:2 \"nvidia.com/x\"",
                "crates/x/Cargo.toml:1 the",
                "docs/x.md:1 `FIXME`",
                "docs/x.md:2 `/srv/checkout`",
            ]
        );
    }
}
