//! JSON as the upstream operator writes it: what it has written stays, byte for byte.

use serde::Serialize;

/// A value as Go's encoder has it: no spaces, and letters that mean something in HTML as escapes.
pub(crate) fn to_string(value: &impl Serialize) -> String {
    fit_for_html(&serde_json::to_string(value).unwrap_or_default())
}

/// JSON with escapes for characters that are special in HTML, which occur in strings only.
pub fn fit_for_html(text: &str) -> String {
    let mut go = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => go.push_str(&format!("\\u{:04x}", u32::from(letter))),
            other => go.push(other),
        }
    }
    go
}
