//! Labels, annotations and API names have one home.

use crate::tidy::{source::RustFile, violation::TidyViolation};

const PREFIX: &str = "nvidia.com/";
/// Folder of the crates that are built into the product. Test suites and commands also use keys of other operators.
const PRODUCT: &str = "crates/";
/// Crate that contains the strings.
const HOME: &str = "crates/api-types/";

/// Finds spelt-out keys in the product, outside `api-types` and tests.
pub fn check(file: &RustFile<'_>) -> Vec<TidyViolation> {
    let path = &file.file.path;
    if path.starts_with(HOME) || !path.starts_with(PRODUCT) {
        return Vec::new();
    }
    let spelt_out = file.literals.iter().filter(|literal| literal.text.starts_with(PREFIX));
    spelt_out
        .map(|literal| {
            let text = format!("\"{}\" is spelt out; use its constant in api_types, or add one there", literal.text);
            TidyViolation::new(path, literal.line, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::rules::testing::lines;

    #[test]
    fn keys_are_spelt_out_in_one_crate() {
        let text = "//! About nvidia.com/selector.\nconst A: &str =\n    \"nvidia.com/selector\";\n";
        assert_eq!(lines(check, "crates/rendering/src/a.rs", text), [3]);
        assert!(lines(check, "testing/conformance/src/mask.rs", text).is_empty());
        assert!(lines(check, "crates/api-types/src/labels.rs", text).is_empty());
        assert!(lines(check, "crates/rendering/src/a_tests.rs", text).is_empty());
        assert!(lines(check, "crates/rendering/src/a.rs", "f(\"apps/v1\", \"see nvidia.com/x\")").is_empty());
    }
}
