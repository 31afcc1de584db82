//! The `ConversionReview` that the API server sends to have objects converted.
//!
//! A review may hold a list of many large objects. Its text, which has been checked to be JSON, is kept as it came, and
//! its parts are slices of it. Each object becomes a value, is converted and written before the next one, so that the
//! memory of one object is needed and not that of all.

use std::{io, io::Write};

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value, json};

use super::{ApiVersion, ConversionError, merging::convert_for_merge};

/// Failures that an answer names; a list could hold any number of them.
const NAMED_FAILURES: usize = 8;

/// A `ConversionReview`, as the text that it came in.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    /// As they are written: JSON strings.
    api_version: Option<&'a str>,
    uid: &'a str,
    desired: Option<&'a str>,
    objects: Option<&'a str>,
}

/// Result of a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// So many objects were converted.
    Converted(usize),
    /// Not all could be; the answer says the same.
    Failed(String),
}

/// A review that cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON.
    #[error("not a ConversionReview: {0}")]
    Form(#[from] serde_json::Error),
    /// No `request`.
    #[error("request: missing; send a ConversionReview with a request")]
    NoRequest,
    /// No `request.uid`.
    #[error("request.uid: missing; the answer could not be matched to the request")]
    NoUid,
}

impl<'a> Review<'a> {
    /// Reads a review; its objects stay text.
    ///
    /// # Errors
    /// If this is not a review that could be answered at all: it has no request, or the request no `uid`.
    pub fn read(body: &'a [u8]) -> Result<Self, ReviewError> {
        let text = str::from_utf8(body).map_err(<serde_json::Error as serde::de::Error>::custom)?;
        serde_json::from_str::<IgnoredAny>(text)?;
        let [api_version, request] = values(text, ["\"apiVersion\"", "\"request\""]);
        let request = request.filter(|request| request.starts_with('{')).ok_or(ReviewError::NoRequest)?;
        let [uid, desired, objects] = values(request, ["\"uid\"", "\"desiredAPIVersion\"", "\"objects\""]);
        let uid = uid.filter(|uid| uid.starts_with('"')).ok_or(ReviewError::NoUid)?;
        Ok(Self { api_version, uid, desired, objects })
    }

    /// Writes the answer: every object of the request in the desired version, in the same order, and the reason where
    /// one cannot be converted. The API server takes all or nothing, and reads the result before the objects.
    ///
    /// `enter` is called with the text of each object before it becomes a value; what it returns is kept until the
    /// object is text again. It may refuse the object.
    ///
    /// # Errors
    /// If the answer cannot be written.
    pub fn answer<T>(
        &self,
        out: &mut impl Write,
        mut enter: impl FnMut(&str) -> Result<T, String>,
    ) -> io::Result<ReviewOutcome> {
        let api_version = self.api_version.unwrap_or("\"apiextensions.k8s.io/v1\"");
        write!(out, r#"{{"apiVersion":{api_version},"kind":"ConversionReview","response":{{"uid":{}"#, self.uid)?;
        let mut failures = Vec::new();
        let mut count = 0;
        match self.list() {
            Err(message) => failures.push(message),
            Ok((to, objects)) => {
                out.write_all(br#","convertedObjects":["#)?;
                for (index, object) in items(objects).enumerate() {
                    match convert_text(object, to, &mut enter) {
                        Ok(object) if failures.is_empty() => {
                            out.write_all(if count == 0 { b"" } else { b"," })?;
                            out.write_all(&object)?;
                            count += 1;
                        }
                        Ok(_) => {}
                        Err(error) => failures.push(format!("request.objects[{index}] {error}")),
                    }
                    if failures.len() == NAMED_FAILURES {
                        break;
                    }
                }
                out.write_all(b"]")?;
            }
        }
        let (result, outcome) = if failures.is_empty() {
            (json!({ "status": "Success" }), ReviewOutcome::Converted(count))
        } else {
            let message = failures.join("; ");
            (json!({ "status": "Failure", "message": message }), ReviewOutcome::Failed(message))
        };
        write!(out, r#","result":{result}}}}}"#)?;
        Ok(outcome)
    }

    /// The desired version, and the text of the list of objects.
    fn list(&self) -> Result<(ApiVersion, &'a str), String> {
        let desired: Option<Value> = self.desired.and_then(|text| serde_json::from_str(text).ok());
        let desired = desired.as_ref().and_then(Value::as_str).unwrap_or_default();
        let to = desired.parse().map_err(|error: ConversionError| format!("request.desiredAPIVersion: {error}"))?;
        let objects = self.objects.filter(|objects| objects.starts_with('['));
        Ok((to, objects.ok_or("request.objects: must be a list")?))
    }
}

/// An object in another version, as text.
fn convert_text<T>(
    text: &str,
    to: ApiVersion,
    enter: &mut impl FnMut(&str) -> Result<T, String>,
) -> Result<Vec<u8>, String> {
    let _entered = enter(text).map_err(|error| format!("(of {} bytes): {error}", text.len()))?;
    let object: Value = serde_json::from_str(text).map_err(|error| format!("(not readable): {error}"))?;
    let named = name_for_people(&object);
    let object = convert_for_merge(object, to).map_err(|error| format!("({named}): {error}"))?;
    serde_json::to_vec(&object).map_err(|error| format!("({named}): {error}"))
}

/// Kind, namespace and name, as far as they are there.
fn name_for_people(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or("unknown kind");
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or("?").to_owned();
    format!("{kind} {}/{}", part("namespace"), part("name"))
}

/// The values of some members of an object, by their keys as they are written; the last one if a key is there twice.
fn values<'a, const N: usize>(text: &'a str, keys: [&str; N]) -> [Option<&'a str>; N] {
    let mut found = [None; N];
    for (key, value) in members(text) {
        if let Some(place) = keys.iter().position(|known| *known == key) {
            found[place] = Some(value);
        }
    }
    found
}

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

/// Returns the text after a mark; empty if the text does not begin with the mark.
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
