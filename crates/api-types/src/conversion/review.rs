//! The `ConversionReview` that the API server sends to have objects converted.

use super::value::Object;
use super::{ApiVersion, ConversionError, convert};
use serde_json::{Value, json};

/// Answers a `ConversionReview`: every object of the request in the desired version, in the same order, or the reason
/// why one of them cannot be converted. The API server takes all or nothing.
///
/// # Errors
/// If this is not a review that could be answered at all: it has no request, or the request no `uid`.
pub fn answer(review: Value) -> Result<Value, ReviewError> {
    let Value::Object(mut review) = review else { return Err(ReviewError::NoRequest) };
    let Some(Value::Object(mut request)) = review.remove("request") else { return Err(ReviewError::NoRequest) };
    let uid = request.remove("uid").filter(|uid| uid.is_string()).ok_or(ReviewError::NoUid)?;
    let mut response = Object::from_iter([("uid".to_owned(), uid)]);
    let result = match converted(&mut request) {
        Ok(objects) => {
            response.insert("convertedObjects".to_owned(), Value::Array(objects));
            json!({ "status": "Success" })
        }
        Err(message) => json!({ "status": "Failure", "message": message }),
    };
    response.insert("result".to_owned(), result);
    // The review becomes the answer: `json!` would copy all objects.
    review.entry("apiVersion").or_insert_with(|| json!("apiextensions.k8s.io/v1"));
    review.retain(|key, _| key == "apiVersion");
    review.insert("kind".to_owned(), json!("ConversionReview"));
    review.insert("response".to_owned(), Value::Object(response));
    Ok(Value::Object(review))
}

/// A review that cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// No `request`.
    #[error("request: missing; send a ConversionReview with a request")]
    NoRequest,
    /// No `request.uid`.
    #[error("request.uid: missing; the answer could not be matched to the request")]
    NoUid,
}

fn converted(request: &mut Object) -> Result<Vec<Value>, String> {
    let desired = request.get("desiredAPIVersion").and_then(Value::as_str).unwrap_or_default();
    let to: ApiVersion =
        desired.parse().map_err(|error: ConversionError| format!("request.desiredAPIVersion: {error}"))?;
    let Some(Value::Array(objects)) = request.remove("objects") else {
        return Err("request.objects: must be a list".to_owned());
    };
    let failed = |index: usize, named: String, error| format!("request.objects[{index}] ({named}): {error}");
    let mut converted = Vec::with_capacity(objects.len());
    let mut failures = Vec::new();
    for (index, object) in objects.into_iter().enumerate() {
        let named = name_for_people(&object);
        match convert(object, to) {
            Ok(object) => converted.push(object),
            Err(error) => failures.push(failed(index, named, error)),
        }
    }
    if failures.is_empty() { Ok(converted) } else { Err(failures.join("; ")) }
}

/// Kind, namespace and name, as far as they are there.
fn name_for_people(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or("unknown kind");
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or("?").to_owned();
    format!("{kind} {}/{}", part("namespace"), part("name"))
}
