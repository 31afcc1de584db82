//! Short cuts: panics, lints switched off, work left for later.

use super::words;
use crate::tidy::{
    source::{RustFile, TextFile},
    violation::Violation,
};

/// What may panic or is not finished, and what to write instead.
const SHORT_CUTS: [(&str, &str); 5] = [
    (".unwrap()", "return an error"),
    (".expect(", "return an error"),
    ("dbg!", "log with `tracing`, or remove it"),
    ("todo!", "finish it"),
    ("unimplemented!", "finish it"),
];
/// The lints of the short cuts; clippy holds them, and knows which line an exemption covers.
const SHORT_CUT_LINTS: [&str; 2] = ["clippy::unwrap_used", "clippy::expect_used"];
/// Notes that belong somewhere else.
const NOTES: [&str; 3] = ["FIXME", "TODO", "XXX"];

/// Finds panics in product code, and lints that are switched off without a reason.
pub fn check(file: &RustFile<'_>) -> Vec<Violation> {
    let path = &file.file.path;
    let mut violations = unreasoned(file);
    let exempt = file.code.iter().any(|line| SHORT_CUT_LINTS.iter().any(|lint| line.contains(lint)));
    for (line, code) in file.product_code() {
        for (short_cut, instead) in SHORT_CUTS {
            let panics = short_cut.starts_with('.');
            if code.contains(short_cut) && !(exempt && panics) {
                let remedy =
                    if panics { "say why it cannot fail in `#[expect(clippy::…, reason = \"…\")]`" } else { "" };
                let or = if panics { ", or " } else { "" };
                violations.push(Violation::new(
                    path,
                    line,
                    format!("`{short_cut}` outside tests; {instead}{or}{remedy}"),
                ));
            }
        }
    }
    violations
}

/// Lints that are switched off without saying why.
fn unreasoned(file: &RustFile<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in file.code.iter().enumerate() {
        let is_attribute = line.trim_start().starts_with("#[") || line.trim_start().starts_with("#![");
        if !is_attribute || ["allow", "expect"].iter().all(|word| words(line, word).next().is_none()) {
            continue;
        }
        if !attribute(&file.code, index).contains("reason") {
            let text = "a lint is switched off without a reason; add `reason = \"…\"`, or follow the lint";
            violations.push(Violation::new(&file.file.path, index + 1, text));
        }
    }
    violations
}

/// The attribute that starts on this line, up to its closing bracket.
fn attribute(code: &[String], start: usize) -> String {
    let mut depth = 0_i32;
    let mut text = String::new();
    for line in code.iter().skip(start) {
        for c in line.chars() {
            depth += match c {
                '[' => 1,
                ']' => -1,
                _ => 0,
            };
            text.push(c);
            if c == ']' && depth == 0 {
                return text;
            }
        }
    }
    text
}

/// Finds notes of unfinished work, in any file.
pub fn check_notes(file: &TextFile) -> Vec<Violation> {
    // The rule itself has to name them.
    if file.path.starts_with("xtask/src/tidy/") {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(note) = NOTES.iter().find(|note| words(line, note).next().is_some()) {
            let text = format!("`{note}`; do it now, or open an issue");
            violations.push(Violation::new(&file.path, index + 1, text));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::testing::{file, lines};

    const PATH: &str = "crates/x/src/a.rs";

    #[test]
    fn panics_outside_tests_are_found() {
        for line in ["let a = b.unwrap();", "let a = b.expect(\"c\");", "todo!()", "dbg!(x);", "unimplemented!()"] {
            assert_eq!(lines(check, PATH, line), [1], "{line}");
            assert!(lines(check, "crates/x/tests/a.rs", line).is_empty(), "{line}");
            let in_test = format!("#[cfg(test)]\nmod tests {{\n{line}\n}}");
            assert!(lines(check, PATH, &in_test).is_empty(), "{line}");
        }
        for line in ["b.unwrap_or_default();", "// b.unwrap()", "f(\".unwrap()\")", "b.expect_err(c)"] {
            assert!(lines(check, PATH, line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_lint_is_switched_off_only_with_a_reason() {
        assert_eq!(lines(check, PATH, "#[allow(dead_code)]\nfn f() {}"), [1]);
        assert_eq!(lines(check, PATH, "#[expect(\n    dead_code,\n)]\nfn f() {}"), [1]);
        assert_eq!(lines(check, PATH, "#![allow(missing_docs)]"), [1]);
        assert!(lines(check, PATH, "#[expect(dead_code, reason = \"read by a macro\")]\nfn f() {}").is_empty());
        assert!(lines(check, PATH, "#[allow(\n    dead_code,\n    reason = \"x\"\n)]\nfn f() {}").is_empty());
        let stated = "#[expect(clippy::unwrap_used, reason = \"set above\")]\nlet a = b.unwrap();";
        assert!(lines(check, PATH, stated).is_empty());
    }

    #[test]
    fn unfinished_work_is_not_noted_in_files() {
        for (text, found) in [("# TODO: later", 1), ("// FIXME", 1), ("let todos = 1;", 0), ("TODOS", 0)] {
            assert_eq!(check_notes(&file("docs/x.md", text)).len(), found, "{text}");
        }
    }
}
