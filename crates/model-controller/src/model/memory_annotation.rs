//! The memory of loaded adapters in an annotation of the model, for a CustomResourceDefinition whose status has no
//! field for it. Pure.

use api_types::{
    annotations::ADAPTER,
    v1alpha1::{AdapterMemory, DynamoModel},
};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// The field of the status that the annotation replaces.
pub const FIELD: &str = "adapter";

/// Content of the annotation.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemoryAnnotation {
    /// Uid of its model: a copy of a model has loaded nothing.
    uid: String,
    #[serde(flatten)]
    adapter: AdapterMemory,
}

/// Planned change of the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnotationPlan {
    /// It stays as it is, or absent.
    Unchanged,
    /// It gets this value.
    Set(String),
    /// The status has the memory.
    Remove,
}

/// Reads the annotation of a model.
pub fn read(model: &DynamoModel) -> Option<AdapterMemory> {
    let annotation: MemoryAnnotation = serde_json::from_str(model.annotations().get(ADAPTER)?).ok()?;
    (Some(&annotation.uid) == model.metadata.uid.as_ref()).then_some(annotation.adapter)
}

/// Plans the annotation after the status with `desired` was written. `refused`: the API server has no field for it. The
/// annotation is removed only when the memory is observed in the status.
pub fn plan(model: &DynamoModel, desired: Option<&AdapterMemory>, refused: bool) -> AnnotationPlan {
    let stored = model.status.as_ref().and_then(|status| status.adapter.as_ref());
    match desired {
        _ if stored == desired => {
            if model.annotations().contains_key(ADAPTER) {
                AnnotationPlan::Remove
            } else {
                AnnotationPlan::Unchanged
            }
        }
        Some(desired) if refused && read(model).as_ref() != Some(desired) => {
            let annotation = MemoryAnnotation { uid: model.uid().unwrap_or_default(), adapter: desired.clone() };
            serde_json::to_string(&annotation).map_or(AnnotationPlan::Unchanged, AnnotationPlan::Set)
        }
        _ => AnnotationPlan::Unchanged,
    }
}

#[cfg(test)]
mod tests {
    use api_types::{
        annotations::ADAPTER,
        v1alpha1::{AdapterMemory, DynamoModel},
    };
    use serde_json::json;

    use super::{AnnotationPlan, plan, read};

    fn memory(name: &str) -> AdapterMemory {
        AdapterMemory { model_name: Some(name.to_owned()), reloading: true, ..AdapterMemory::default() }
    }

    fn model(stored: Option<&AdapterMemory>, annotation: Option<&str>) -> DynamoModel {
        let status = json!({ "readyEndpoints": 0, "totalEndpoints": 0, "adapter": stored });
        let annotations = annotation.map(|annotation| json!({ ADAPTER: annotation }));
        serde_json::from_value(json!({
            "metadata": { "name": "m", "uid": "u", "annotations": annotations },
            "spec": { "modelName": "a", "baseModelName": "b" }, "status": status,
        }))
        .unwrap()
    }

    fn annotation(memory: &AdapterMemory) -> String {
        match plan(&model(None, None), Some(memory), true) {
            AnnotationPlan::Set(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_annotation_is_read_back_only_for_its_own_model() {
        let text = annotation(&memory("a"));
        assert_eq!(text, r#"{"uid":"u","modelName":"a","reloading":true}"#);
        assert_eq!(read(&model(None, Some(&text))), Some(memory("a")));
        assert_eq!(read(&model(None, Some(&text.replace("\"u\"", "\"other\"")))), None, "a copy has loaded nothing");
        assert_eq!(read(&model(None, Some("no JSON"))), None);
        assert_eq!(read(&model(None, None)), None);
    }

    #[test]
    fn an_annotation_is_kept_only_while_the_status_has_no_field() {
        let (a, b) = (memory("a"), memory("b"));
        let (of_a, of_b) = (annotation(&a), annotation(&b));
        for (case, stored, annotated, desired, refused, expected) in [
            ("not refused", None, None, Some(&a), false, AnnotationPlan::Unchanged),
            ("first", None, None, Some(&a), true, AnnotationPlan::Set(of_a.clone())),
            ("steady", None, Some(&of_a), Some(&a), true, AnnotationPlan::Unchanged),
            ("another", None, Some(&of_a), Some(&b), true, AnnotationPlan::Set(of_b.clone())),
            ("unreadable", None, Some(&"x".to_owned()), Some(&a), true, AnnotationPlan::Set(of_a.clone())),
            ("nothing left", None, Some(&of_a), None, true, AnnotationPlan::Remove),
            ("nothing at all", None, None, None, false, AnnotationPlan::Unchanged),
            ("not seen in the status yet", None, Some(&of_a), Some(&a), false, AnnotationPlan::Unchanged),
            ("the status is of before", Some(&b), Some(&of_a), Some(&a), false, AnnotationPlan::Unchanged),
            ("seen in the status", Some(&a), Some(&of_a), Some(&a), false, AnnotationPlan::Remove),
            ("steady without annotation", Some(&a), None, Some(&a), false, AnnotationPlan::Unchanged),
        ] {
            let model = model(stored, annotated.map(String::as_str));
            assert_eq!(plan(&model, desired, refused), expected, "{case}");
        }
    }
}
