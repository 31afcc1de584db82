//! The memory of loaded adapters in an annotation of the model, for a CustomResourceDefinition whose status has no
//! field for it. Pure.

use api_types::{
    annotations::ADAPTER,
    v1alpha1::{AdapterMemory, DynamoModel},
};
use controller_kit::apply::MetadataPatch;
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

/// Reads the annotation of a model.
pub fn read(model: &DynamoModel) -> Option<AdapterMemory> {
    let annotation: MemoryAnnotation = serde_json::from_str(model.annotations().get(ADAPTER)?).ok()?;
    (Some(&annotation.uid) == model.metadata.uid.as_ref()).then_some(annotation.adapter)
}

/// Plans the annotation after the status with `desired` was written; an empty patch leaves it as it is. `refused`: the
/// API server has no field for it. The annotation is removed only when the memory is observed in the status.
pub fn plan(model: &DynamoModel, desired: Option<&AdapterMemory>, refused: bool) -> MetadataPatch {
    let stored = model.status.as_ref().and_then(|status| status.adapter.as_ref());
    let patch = MetadataPatch::default();
    match desired {
        // Only if nothing was loaded since the status with the memory was read.
        _ if stored == desired => patch.annotation(ADAPTER, None).only_if_unchanged(),
        Some(desired) if refused && read(model).as_ref() != Some(desired) => match text(model, desired) {
            Some(text) => patch.annotation(ADAPTER, Some(&text)),
            None => patch,
        },
        _ => patch,
    }
}

fn text(model: &DynamoModel, adapter: &AdapterMemory) -> Option<String> {
    let uid = model.uid().unwrap_or_default();
    serde_json::to_string(&MemoryAnnotation { uid, adapter: adapter.clone() }).ok()
}

#[cfg(test)]
mod tests {
    use api_types::{
        annotations::ADAPTER,
        v1alpha1::{AdapterMemory, DynamoModel},
    };
    use controller_kit::apply::MetadataPatch;
    use serde_json::json;

    use super::{plan, read, text};

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
        text(&model(None, None), memory).unwrap()
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
        let set = |text: &str| Some(MetadataPatch::default().annotation(ADAPTER, Some(text)));
        let removed = || Some(MetadataPatch::default().annotation(ADAPTER, None).only_if_unchanged());
        for (case, stored, annotated, desired, refused, expected) in [
            ("not refused", None, None, Some(&a), false, None),
            ("first", None, None, Some(&a), true, set(&of_a)),
            ("steady", None, Some(&of_a), Some(&a), true, None),
            ("another", None, Some(&of_a), Some(&b), true, set(&of_b)),
            ("unreadable", None, Some(&"x".to_owned()), Some(&a), true, set(&of_a)),
            ("nothing left", None, Some(&of_a), None, true, removed()),
            ("nothing at all", None, None, None, false, None),
            ("not seen in the status yet", None, Some(&of_a), Some(&a), false, None),
            ("the status is of before", Some(&b), Some(&of_a), Some(&a), false, None),
            ("seen in the status", Some(&a), Some(&of_a), Some(&a), false, removed()),
            ("steady without annotation", Some(&a), None, Some(&a), false, None),
        ] {
            let model = model(stored, annotated.map(String::as_str));
            let patch = plan(&model, desired, refused);
            // The applier sends nothing that the object has already.
            assert_eq!(Some(patch).filter(|patch| !patch.holds_in(&model.metadata)), expected, "{case}");
        }
    }
}
