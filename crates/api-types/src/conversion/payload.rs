//! The annotations that hold saved data, in the format of the upstream operator, and the limit of their size.
//!
//! The annotation for the spec holds `{"version":1,"spec":{…},"rawJSON":[…],"exact":[…],"seals":{…}}`. `spec` is a
//! sparse spec of the version that the object is *not* in. `rawJSON` holds a marker for a `serviceName` that was not
//! given. `exact` and `seals` are ours; the upstream operator does not read them. The annotation for the status holds a
//! sparse status. Text that cannot be read is ignored.
//!
//! Annotations have a limit, for all of an object together: the API server would refuse saved data beyond it.

use serde_json::{Value, json};

use super::{
    ApiVersion, ConversionError, ConvertedKind, convert, kind,
    lens::Saved,
    residue::Residue,
    value::{Object, annotations, annotations_mut, insert_filled, list, object},
};

/// The marker of the upstream operator for a `serviceName` that was not given.
const NO_SERVICE_NAME: &str = "serviceName";

/// Takes the saved data out of the annotations in `metadata`.
pub(super) fn take(metadata: &mut Object, kind: &ConvertedKind) -> Option<Saved> {
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return None };
    let before = annotations.len();
    let spec = annotations.remove(kind.spec);
    let status = annotations.remove(kind.status);
    for key in kind.retired {
        annotations.remove(*key);
    }
    if annotations.is_empty() && before > 0 {
        metadata.remove("annotations");
    }
    let mut saved = spec.as_ref().and_then(Value::as_str).and_then(read_spec);
    if let Some(status) = status.as_ref().and_then(Value::as_str).and_then(read_object) {
        saved.get_or_insert_default().sparse.insert("status".to_owned(), Value::Object(status));
    }
    saved
}

fn read_object(text: &str) -> Option<Object> {
    serde_json::from_str(text).ok()
}

pub(super) fn read_spec(text: &str) -> Option<Saved> {
    let mut envelope = read_object(text)?;
    // The first payloads of the upstream operator were the spec alone.
    let spec = envelope.remove("spec").unwrap_or_else(|| Value::Object(envelope.clone()));
    let Value::Object(mut spec) = spec else { return None };
    let marker = |raw: &Value| raw["path"] == NO_SERVICE_NAME && raw["nil"] == true;
    if list(&envelope, "rawJSON").iter().any(marker) {
        spec.insert(NO_SERVICE_NAME.to_owned(), Value::Null);
    }
    let exact = list(&envelope, "exact").iter().filter_map(Residue::from_json).collect();
    let sparse = Object::from_iter([("spec".to_owned(), Value::Object(spec))]);
    let seals = object(&envelope, "seals").into_iter().flatten();
    let seals = seals.filter_map(|(part, seal)| Some((part.clone(), seal.as_str()?.to_owned()))).collect();
    Some(Saved { sparse, exact, seals })
}

/// Writes saved data into the annotations in `metadata`.
pub(super) fn put(metadata: &mut Object, kind: &ConvertedKind, mut saved: Saved) {
    let status = saved.sparse.remove("status").filter(|status| status.as_object().is_some_and(|s| !s.is_empty()));
    let spec = saved.sparse.remove("spec").filter(Value::is_object);
    let ours = !saved.exact.is_empty() || !saved.seals.is_empty();
    if spec.is_none() && status.is_none() && !ours {
        return;
    }
    let entry = metadata.entry("annotations").or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    if let Value::Object(annotations) = entry {
        if let Some(status) = status {
            annotations.insert(kind.status.to_owned(), Value::String(status.to_string()));
        }
        if spec.is_some() || ours {
            let spec = spec.unwrap_or_else(|| json!({}));
            annotations.insert(kind.spec.to_owned(), Value::String(spec_text(spec, saved)));
        }
    }
}

/// The annotation for the spec; fields are in the order of their names.
fn spec_text(mut spec: Value, saved: Saved) -> String {
    let unnamed = spec.get(NO_SERVICE_NAME) == Some(&Value::Null);
    if let (true, Value::Object(spec)) = (unnamed, &mut spec) {
        spec.remove(NO_SERVICE_NAME);
    }
    let mut envelope = Object::new();
    insert_filled(&mut envelope, "exact", saved.exact.into_iter().map(Residue::into_json).collect::<Value>());
    if unnamed {
        envelope.insert("rawJSON".to_owned(), json!([{ "path": NO_SERVICE_NAME, "nil": true }]));
    }
    insert_filled(&mut envelope, "seals", saved.seals.into_iter().collect::<Value>());
    envelope.insert("spec".to_owned(), spec);
    envelope.insert("version".to_owned(), json!(1));
    Value::Object(envelope).to_string()
}

/// Maximum total size of the keys and values of all annotations of an object, in bytes.
pub const ANNOTATION_BYTES: usize = 256 << 10;

/// Annotation of an object in v1alpha1 that lacks what only v1beta1 can say. It must not be written in v1alpha1: what
/// is missing would be removed.
pub const INCOMPLETE: &str = "nvidia.com/conversion-incomplete";

/// Saved data that is too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLong {
    /// The way to the field with the most of it, in the version that can say it.
    pub field: Vec<String>,
    /// Size that the annotations would have.
    pub bytes: usize,
}

/// Whether an object would have too many bytes in its annotations in the other version, and where it has most of them.
pub fn too_long(object: &Value) -> Option<TooLong> {
    // An annotation takes a few bytes for each of the object, and most objects are short.
    if serde_json::to_vec(object).is_ok_and(|json| 4 * json.len() <= ANNOTATION_BYTES) {
        return None;
    }
    let kind = kind(object["kind"].as_str()?)?;
    let version: ApiVersion = object["apiVersion"].as_str()?.parse().ok()?;
    measured(&convert(object.clone(), version.other()).ok()?, &kind)
}

/// Whether a converted object has too many bytes in its annotations.
pub(super) fn measured(target: &Value, kind: &ConvertedKind) -> Option<TooLong> {
    let annotations = annotations(target)?;
    let bytes = bytes(annotations);
    if bytes <= ANNOTATION_BYTES {
        return None;
    }
    let text = |key: &str| annotations.get(key).and_then(Value::as_str).unwrap_or_default();
    let (spec, status) = (text(kind.spec), text(kind.status));
    let (part, saved) = if spec.len() >= status.len() { ("spec", spec) } else { ("status", status) };
    let mut field = vec![part.to_owned()];
    let saved: Value = serde_json::from_str(saved).unwrap_or_default();
    steps_to_longest(if part == "spec" { &saved["spec"] } else { &saved }, &mut field);
    Some(TooLong { field, bytes })
}

/// Adds the steps to the longest field below a value, as long as that is most of it.
fn steps_to_longest(value: &Value, field: &mut Vec<String>) {
    let length = |value: &Value| serde_json::to_vec(value).map_or(0, |json| json.len());
    let longest = value.as_object().into_iter().flatten().max_by_key(|(_, value)| length(value));
    if let Some((key, inner)) = longest.filter(|(_, inner)| 2 * length(inner) > length(value)) {
        field.push(key.clone());
        steps_to_longest(inner, field);
    }
}

/// Returns the size of annotations, as the API server counts it.
pub(super) fn bytes(annotations: &Object) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

/// Makes a converted object fit. One that is stored and read in v1alpha1 loses what only v1beta1 can say, and says so:
/// a list of all namespaces would fail because of it. One that is written in v1alpha1 cannot be stored.
pub(super) fn fit(target: &mut Value, to: ApiVersion) -> Result<(), ConversionError> {
    let Some(kind) = target["kind"].as_str().and_then(kind) else { return Ok(()) };
    let long = measured(target, &kind);
    let Some(annotations) = annotations_mut(target) else { return Ok(()) };
    match (long, to) {
        (Some(TooLong { field, bytes }), ApiVersion::V1Beta1) => {
            return Err(ConversionError::TooLong { field: field.join("."), bytes });
        }
        (Some(TooLong { field, bytes }), ApiVersion::V1Alpha1) => {
            annotations.remove(kind.spec);
            annotations.remove(kind.status);
            let why = format!(
                "{}: what only v1beta1 can say needs {bytes} bytes of annotations, and {ANNOTATION_BYTES} are possible; \
                 read and write this object in v1beta1",
                field.join(".")
            );
            annotations.insert(INCOMPLETE.to_owned(), json!(why));
        }
        (None, _) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversion::merging::convert_for_merge;

    fn request(version: ApiVersion, spec: &Value) -> Value {
        json!({
            "apiVersion": version.api_version(), "kind": "DynamoGraphDeploymentRequest",
            "metadata": { "name": "big" }, "spec": spec,
        })
    }

    /// Found defect: one such object made every list of all namespaces in v1alpha1 fail.
    #[test]
    fn an_object_that_is_stored_can_be_read_in_v1alpha1_however_long_it_is() {
        let with = |length: usize| {
            let graph = json!({ "spec": { "pad": "x".repeat(length) } });
            request(ApiVersion::V1Beta1, &json!({ "model": "m", "overrides": { "dgd": graph } }))
        };
        let read = |length: usize| convert_for_merge(with(length), ApiVersion::V1Alpha1).unwrap();
        assert_eq!(read(1000)["metadata"]["annotations"][INCOMPLETE], Value::Null);
        assert_eq!(too_long(&with(1000)), None);
        let seen = read(ANNOTATION_BYTES);
        assert_eq!(seen["spec"]["model"], "m");
        let annotations = seen["metadata"]["annotations"].as_object().unwrap();
        assert!(bytes(annotations) < 1000);
        let why = annotations[INCOMPLETE].as_str().unwrap();
        assert!(why.starts_with("spec.overrides.dgd.spec.pad: "), "{why}");
        let field = ["spec", "overrides", "dgd", "spec", "pad"].map(ToOwned::to_owned);
        assert_eq!(too_long(&with(ANNOTATION_BYTES)).unwrap().field, field);
    }

    /// Found defect: the answer named no field.
    #[test]
    fn an_object_that_cannot_be_stored_is_refused_with_its_field() {
        let config = json!({ "engine": { "pad": "x".repeat(ANNOTATION_BYTES) } });
        let alpha = request(ApiVersion::V1Alpha1, &json!({ "model": "m", "profilingConfig": { "config": config } }));
        let error = convert_for_merge(alpha, ApiVersion::V1Beta1).unwrap_err().to_string();
        assert!(error.starts_with("spec.profilingConfig.config.engine.pad: Too long"), "{error}");
    }
}
