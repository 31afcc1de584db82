//! The parts of a JSON text as slices of it, so that one part at a time becomes a value. The text has been checked to
//! be JSON.

use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// The members of an object, in their order: key and value, both as they are written. None if the text is no object.
pub(super) fn members(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = after(text, '{');
    std::iter::from_fn(move || {
        let (key, value) = take(rest)?;
        let (value, next) = take(after(value, ':'))?;
        rest = after(next, ',');
        Some((key, value))
    })
}

/// The items of a list, in their order. None if the text is no list.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = after(text, '[');
    std::iter::from_fn(move || {
        let (item, next) = take(rest)?;
        rest = after(next, ',');
        Some(item)
    })
}

/// What follows a mark; nothing if the text does not begin with it.
fn after(text: &str, mark: char) -> &str {
    text.trim_ascii_start().strip_prefix(mark).unwrap_or_default()
}

/// The value that a text begins with, and what follows it.
fn take(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_ascii_start();
    let mut values = Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let end = values.byte_offset();
    Some((text.get(..end)?, text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_member_and_item_is_found_as_it_is_written() {
        let value = json!({
            "a": [1, -2.5e3, "x,]\"}", null, true, {}, []], "b": { "}": "{", "ü\u{7}": [[]] }, "c": "", "d": 7, "e": {}, "f": [],
        });
        for text in [value.to_string(), format!(" {value:#} \n")] {
            let found: serde_json::Map<String, Value> = members(&text)
                .map(|(key, value)| (serde_json::from_str(key).unwrap(), serde_json::from_str(value).unwrap()))
                .collect();
            assert_eq!(Value::Object(found), value);
            let list = members(&text).next().unwrap().1;
            let found: Vec<Value> = items(list).map(|item| serde_json::from_str(item).unwrap()).collect();
            assert_eq!(Value::Array(found), value["a"]);
        }
    }

    #[test]
    fn other_values_have_no_parts() {
        for text in ["", "null", "1", "\"{}\"", "[]", "{}"] {
            assert_eq!((members(text).count(), items(text).count()), (0, 0), "{text}");
        }
    }
}
