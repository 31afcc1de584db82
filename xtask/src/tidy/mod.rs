//! `cargo xtask tidy`: holds what `docs/architecture.md` promises and what the compiler and clippy cannot see.
//!
//! Every violation is one line: `path:line: what is wrong, and how to mend it`.

mod lexer;
mod rules;
pub(crate) mod source;
mod violation;

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context, bail};
use repository::root;

use self::{
    rules::{
        circles, dependencies, exemptions, layers, manifests, places, shape, vocabulary, workflows,
        write_sets::{self, WriteSet},
    },
    source::TextFile,
    violation::Violation,
};

/// Crates that only compute; their normal dependencies hold nothing asynchronous.
const PURE_CRATES: [&str; 2] = ["api-types", "rendering"];
/// Binaries that write to the API server.
const CONTROLLERS: [&str; 4] = ["graph-controller", "component-controller", "model-controller", "webhook-server"];

#[derive(clap::Args)]
pub struct Args {
    /// Check only what the built controllers may write: no two of them the same resource.
    #[arg(long)]
    write_sets: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.write_sets { check_write_sets() } else { check_repository() }
}

/// Checks the whole repository and prints every violation.
///
/// # Errors
/// There are violations, or something cannot be read.
pub fn check_repository() -> anyhow::Result<()> {
    let root = root();
    let files = source::read_all(root)?;
    let mut violations = check_files(&files, &root.to_string_lossy());
    violations.extend(dependencies::check_lock(&fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?));
    for name in PURE_CRATES {
        let libraries = ["--package", name, "--edges", "normal"];
        violations.extend(dependencies::check_pure(name, &dependency_tree(root, &libraries)?));
    }
    let everything = dependency_tree(root, &["--workspace", "--all-features", "--format", "{p} [{f}]"])?;
    violations.extend(dependencies::check_features(&everything));
    let commands = ["--package", "xtask", "--edges", "normal,build", "--format", "{p} [{f}]"];
    violations.extend(dependencies::check_commands(&dependency_tree(root, &commands)?, &everything));
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    let rust: Vec<_> = files.iter().filter_map(TextFile::rust).collect();
    let long = rust.iter().filter(|file| shape::is_long(file)).count();
    println!(
        "tidy: {} files, {long} of {} Rust files over 300 lines, {} violations",
        files.len(),
        rust.len(),
        violations.len()
    );
    if violations.is_empty() { Ok(()) } else { bail!("the repository is not tidy") }
}

/// Applies every rule that reads the source.
fn check_files(files: &[TextFile], root: &str) -> Vec<Violation> {
    let mut violations = circles::check(files);
    for file in files {
        violations.extend(exemptions::check_notes(file));
        violations.extend(manifests::check(file));
        violations.extend(places::check(file, root));
        violations.extend(workflows::check(file));
        let Some(rust) = file.rust() else { continue };
        for rule in [exemptions::check, layers::check, shape::check, vocabulary::check] {
            violations.extend(rule(&rust));
        }
    }
    violations
}

/// Checks that no two controllers write the same resource, by the roles that the built binaries print.
///
/// # Errors
/// Two do, or a binary has not been built.
pub fn check_write_sets() -> anyhow::Result<()> {
    let this = env::current_exe().context("cannot find the program that runs")?;
    let mut sets = Vec::new();
    for controller in CONTROLLERS {
        let binary = this.with_file_name(controller);
        let output = Command::new(&binary).arg("access").output();
        let output = output.with_context(|| format!("cannot run {}; build it first", binary.display()))?;
        if !output.status.success() {
            bail!("{controller} access failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        sets.push(WriteSet::parse(controller, &String::from_utf8_lossy(&output.stdout))?);
    }
    let overlaps = write_sets::check(&sets);
    if overlaps.is_empty() { Ok(()) } else { bail!("{}", overlaps.join("\n")) }
}

/// What something is built from, one package a line.
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
    fn every_rule_is_asked() {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file(".github/workflows/x.yml", "- uses: actions/x@v1\n"),
            file("crates/x-controller/src/decide.rs", "use tokio::x;\nfn f() { a.unwrap(); g(\"nvidia.com/x\") }\n"),
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
                "crates/x-controller/src/decide.rs:2 `.unwrap()`",
                "crates/x-controller/src/decide.rs:1 `tokio`",
                "crates/x-controller/src/decide.rs:1 no",
                "crates/x-controller/src/decide.rs:2 \"nvidia.com/x\"",
                "crates/x/Cargo.toml:1 the",
                "docs/x.md:1 `FIXME`",
                "docs/x.md:2 `/srv/checkout`",
            ]
        );
    }
}
