//! Differences between two JSON values, one line each.

use std::{collections::BTreeSet, io};

use serde_json::{Serializer, Value, ser::Formatter};

/// Longer values are cut.
const LONGEST: usize = 160;

/// Adds the differences between `expected` and `got`; `path` is where they are. Lists of named things are compared by
/// name once they have the same names in the same order.
pub(super) fn diff(expected: &Value, got: &Value, path: &str, out: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => diff(a, b, &format!("{path}.{key}"), out),
                    (Some(a), None) => out.push(format!("{path}.{key}: missing (expected {})", short(a))),
                    (None, b) => out.push(format!("{path}.{key}: unexpected {}", b.map(short).unwrap_or_default())),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => lists(a, b, path, out),
        _ if !same(expected, got) => out.push(format!("{path}: expected {}, got {}", short(expected), short(got))),
        _ => {}
    }
}

fn lists(expected: &[Value], got: &[Value], path: &str, out: &mut Vec<String>) {
    let names = |items: &[Value]| items.iter().map(|item| item.get("name").cloned()).collect::<Option<Vec<_>>>();
    let named = names(expected).zip(names(got)).filter(|(a, b)| !(a.is_empty() && b.is_empty()));
    if let Some((expected, got)) = &named
        && expected != got
    {
        let (expected, got) = (json(&Value::from(expected.clone())), json(&Value::from(got.clone())));
        out.push(format!("{path}: order/names expected {expected}, got {got}"));
        return;
    }
    if expected.len() != got.len() {
        let whole = |items: &[Value]| short(&Value::from(items.to_vec()));
        out.push(format!("{path}: expected {}, got {}", whole(expected), whole(got)));
        return;
    }
    for (index, (a, b)) in expected.iter().zip(got).enumerate() {
        let name = named.as_ref().and_then(|_| a.get("name")?.as_str());
        let place = name.map_or_else(|| format!("{path}[{index}]"), |name| format!("{path}[{name}]"));
        diff(a, b, &place, out);
    }
}

/// An integer and a floating point number differ even when they are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.is_f64() == b.is_f64() && a == b,
        _ => a == b,
    }
}

/// A value on one line, cut when it is long.
fn short(value: &Value) -> String {
    let text = json(value);
    if text.chars().count() < LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 3).chain("...".chars()).collect()
}

fn json(value: &Value) -> String {
    let mut bytes = Vec::new();
    match serde::Serialize::serialize(value, &mut Serializer::with_formatter(&mut bytes, Spaced)) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => error.to_string(),
    }
}

/// JSON on one line, with a space after commas and colons.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
