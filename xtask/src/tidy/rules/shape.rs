//! Size and form of files.

use crate::tidy::{source::RustFile, violation::TidyViolation};

/// Longest file, test modules not counted.
const FILE_LIMIT: usize = 500;

/// Checks the header and the length of a file.
pub fn check(file: &RustFile<'_>) -> Vec<TidyViolation> {
    let path = &file.file.path;
    let mut violations = Vec::new();
    if !file.file.text.starts_with("//!") {
        violations.push(TidyViolation::new(path, 1, "no header; begin with `//!` and say what the file is for"));
    }
    let length = file.length();
    if length > FILE_LIMIT {
        let text = format!("{length} lines without tests, the limit is {FILE_LIMIT}; split it by concept");
        violations.push(TidyViolation::new(path, FILE_LIMIT, text));
    }
    violations
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
}
