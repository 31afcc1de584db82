//! YAML that people and programs hand to the operator.

use serde_json::Value;

/// Reads one document. Only `true` and `false` are no text: a namespace may be called `n` or `on`.
///
/// As a value and not as the type that is needed: a parser of YAML for each type is a twentieth of a program.
///
/// # Errors
/// If it is no YAML, or more than one document.
pub fn read(text: &str) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn words_that_could_be_truths_are_text() {
        let text = "a: true\nb: on\nc: n\nd: yes\ne:\n";
        assert_eq!(read(text).unwrap(), json!({ "a": true, "b": "on", "c": "n", "d": "yes", "e": null }));
        assert!(read("a: [").is_err());
        assert!(read("a: 1\n---\na: 2\n").is_err(), "two documents");
    }
}
