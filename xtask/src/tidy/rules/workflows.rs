//! Workflows and Dockerfiles run what they ran yesterday: actions by commit, toolchains and tools by version.

use crate::tidy::{source::TextFile, violation::TidyViolation};

const ACTION: &str = "an action by a tag, which its owner can move; name the commit, and the version in a comment: \
                      `uses: owner/action@<40 hexadecimal digits> # v1.2.3`";
const TOOLCHAIN: &str = "a toolchain without version; name one, for example 1.95.0";
const TOOL: &str = "a tool without version; add `--version` and `--locked` to `cargo install`";

/// Checks one file below `.github/workflows`.
pub fn check(file: &TextFile) -> Vec<TidyViolation> {
    if !file.path.starts_with(".github/workflows/") {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| faults(line).map(move |text| (index + 1, text)));
    found.map(|(line, text)| TidyViolation::new(&file.path, line, text)).collect()
}

fn faults(line: &str) -> impl Iterator<Item = &'static str> {
    let action = line.split_once("uses: ").is_some_and(|(_, action)| !is_pinned(action));
    let toolchain = line.split_once("toolchain install ").is_some_and(|(_, rest)| {
        let version = rest.split_whitespace().next().unwrap_or_default();
        !version.contains(|c: char| c.is_ascii_digit())
    });
    let tool = line.contains("cargo install ") && !(line.contains("--version ") && line.contains("--locked"));
    [(action, ACTION), (toolchain, TOOLCHAIN), (tool, TOOL)].into_iter().filter_map(|(is, text)| is.then_some(text))
}

/// Whether an action is named by its commit, with its version in a comment. Those of this repository have none.
fn is_pinned(action: &str) -> bool {
    let Some((_, reference)) = action.split_once('@') else { return action.starts_with("./") };
    let Some((commit, version)) = reference.split_once(" # v") else { return false };
    commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) && version.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::testing::file;

    #[test]
    fn what_workflows_run_has_a_commit_or_a_version() {
        let check = |line: &str| check(&file(".github/workflows/ci.yml", line)).len();
        for good in [
            "- uses: actions/checkout@93cb6efe18208431cddfb8368fd83d5badbf9bfd # v5.0.1",
            "- uses: ./.github/actions/own",
            "- run: rustup toolchain install 1.95.0 --profile minimal",
            "- run: rustup toolchain install nightly-2026-05-20",
            "- run: cargo install cargo-fuzz --version 0.13.2 --locked",
        ] {
            assert_eq!(check(good), 0, "{good}");
        }
        for wrong in [
            "- uses: actions/checkout@v5",
            "- uses: actions/checkout@93cb6efe18208431cddfb8368fd83d5badbf9bfd",
            "- uses: actions/checkout@main # v5.0.1",
            "- run: rustup toolchain install stable --profile minimal",
            "- run: cargo install cargo-fuzz --locked",
        ] {
            assert_eq!(check(wrong), 1, "{wrong}");
        }
    }
}
