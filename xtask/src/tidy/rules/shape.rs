//! Size and form of files.

use super::words;
use crate::tidy::{
    source::{RustFile, item_end},
    violation::Violation,
};

/// Longest file, test modules not counted.
const FILE_LIMIT: usize = 500;
/// Most files stay below this.
const FILE_AIM: usize = 300;
/// Longest function.
const FUNCTION_LIMIT: usize = 100;

/// Checks the header and the length of a file, and the length of its functions.
pub fn check(file: &RustFile<'_>) -> Vec<Violation> {
    let path = &file.file.path;
    let mut violations = Vec::new();
    if !file.file.text.starts_with("//!") {
        violations.push(Violation::new(path, 1, "no header; begin with `//!` and say what the file is for"));
    }
    let length = length(file);
    if length > FILE_LIMIT {
        let text = format!("{length} lines without tests, the limit is {FILE_LIMIT}; split it by concept");
        violations.push(Violation::new(path, FILE_LIMIT, text));
    }
    violations.extend(functions(&file.code).filter(|(_, lines)| *lines > FUNCTION_LIMIT).map(|(line, lines)| {
        let text = format!(
            "a function of {lines} lines of code, the limit is {FUNCTION_LIMIT}; give its steps names of their own"
        );
        Violation::new(path, line, text)
    }));
    violations
}

/// Whether a file is longer than most should be.
pub fn is_long(file: &RustFile<'_>) -> bool {
    length(file) > FILE_AIM
}

fn length(file: &RustFile<'_>) -> usize {
    if file.is_test() { file.code.len() } else { file.product_code().count() }
}

/// First line of every function and how many lines of code it has; comments, blank lines and long literals are none.
fn functions(code: &[String]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let starts = code.iter().enumerate().filter(|(_, line)| {
        // A name follows; `fn(` is a type.
        words(line, "fn").any(|at| line[at + 2..].trim_start().starts_with(|c: char| c.is_alphabetic() || c == '_'))
    });
    starts.filter_map(|(start, _)| {
        let end = item_end(code, start)?;
        Some((start + 1, code.iter().take(end + 1).skip(start).filter(|line| !line.trim().is_empty()).count()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::testing::lines;

    #[test]
    fn a_file_begins_with_its_purpose() {
        assert_eq!(lines(check, "crates/x/src/a.rs", "use a;\n"), [1]);
        assert!(lines(check, "crates/x/src/a.rs", "//! What it is for.\n").is_empty());
    }

    #[test]
    fn tests_in_a_file_do_not_count_for_its_length() {
        let code = |lines| format!("//! Header.\n{}", "const A: u8 = 1;\n".repeat(lines));
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    const A: u8 = 1;\n".repeat(50));
        assert!(lines(check, "crates/x/src/a.rs", &(code(499) + &tests)).is_empty());
        assert_eq!(lines(check, "crates/x/src/a.rs", &(code(500) + &tests)), [500]);
        assert_eq!(lines(check, "crates/x/tests/a.rs", &code(500)), [500]);
    }

    #[test]
    fn a_function_ends_before_it_gets_long() {
        let function =
            |lines| format!("//! Header.\nfn f(a: [u8; 2]) -> [u8; 2] {{\n{}}}\n", "    g();\n".repeat(lines));
        assert!(lines(check, "crates/x/src/a.rs", &function(98)).is_empty());
        assert_eq!(lines(check, "crates/x/src/a.rs", &function(99)), [2]);
        let snapshot = format!("//! Header.\nfn f() {{\n    g(\n        \"{}\"\n    );\n}}\n", "text\n".repeat(200));
        assert!(lines(check, "crates/x/src/a.rs", &snapshot).is_empty());
        let declarations = "//! Header.\ntrait T {\n    fn f();\n}\ntype F = fn(u8);\n".to_owned();
        assert!(lines(check, "crates/x/src/a.rs", &(declarations + &"\n".repeat(200))).is_empty());
    }
}
