//! The memory of what was loaded, on the model itself: for a served CustomResourceDefinition whose status has no field for it. Pure.

use api_types::{
    annotations::ADAPTER,
    v1alpha1::{AdapterMemory, DynamoModel},
};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// The field of the status in whose place the annotation stands.
pub const FIELD: &str = "adapter";

/// What the annotation holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    /// The model that it is about: a copy of a model has loaded nothing.
    uid: String,
    #[serde(flatten)]
    adapter: AdapterMemory,
}

/// What becomes of the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It stays, or stays away.
    AsItIs,
    /// It shall say this.
    Say(String),
    /// The status has it all.
    Nothing,
}

/// What the annotation of a model remembers.
pub fn read(model: &DynamoModel) -> Option<AdapterMemory> {
    let note: Note = serde_json::from_str(model.annotations().get(ADAPTER)?).ok()?;
    (Some(&note.uid) == model.metadata.uid.as_ref()).then_some(note.adapter)
}

/// Plans the annotation, once the status was written that `wanted` is from. `refused` says whether the API server has no field
/// for it. The annotation goes only when the memory is seen in the status.
pub fn plan(model: &DynamoModel, wanted: Option<&AdapterMemory>, refused: bool) -> Keep {
    let stored = model.status.as_ref().and_then(|status| status.adapter.as_ref());
    match wanted {
        _ if stored == wanted => {
            if model.annotations().contains_key(ADAPTER) {
                Keep::Nothing
            } else {
                Keep::AsItIs
            }
        }
        Some(wanted) if refused && read(model).as_ref() != Some(wanted) => {
            let note = Note { uid: model.uid().unwrap_or_default(), adapter: wanted.clone() };
            serde_json::to_string(&note).map_or(Keep::AsItIs, Keep::Say)
        }
        _ => Keep::AsItIs,
    }
}

#[cfg(test)]
mod tests {
    use api_types::{
        annotations::ADAPTER,
        v1alpha1::{AdapterMemory, DynamoModel},
    };
    use serde_json::json;

    use super::{Keep, plan, read};

    fn memory(name: &str) -> AdapterMemory {
        AdapterMemory { model_name: Some(name.to_owned()), reloading: true, ..AdapterMemory::default() }
    }

    fn model(stored: Option<&AdapterMemory>, note: Option<&str>) -> DynamoModel {
        let status = json!({ "readyEndpoints": 0, "totalEndpoints": 0, "adapter": stored });
        let annotations = note.map(|note| json!({ ADAPTER: note }));
        serde_json::from_value(json!({
            "metadata": { "name": "m", "uid": "u", "annotations": annotations },
            "spec": { "modelName": "a", "baseModelName": "b" }, "status": status,
        }))
        .unwrap()
    }

    fn note(memory: &AdapterMemory) -> String {
        match plan(&model(None, None), Some(memory), true) {
            Keep::Say(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_note_is_read_as_it_was_written_and_not_of_another_model() {
        let text = note(&memory("a"));
        assert_eq!(text, r#"{"uid":"u","modelName":"a","reloading":true}"#);
        assert_eq!(read(&model(None, Some(&text))), Some(memory("a")));
        assert_eq!(read(&model(None, Some(&text.replace("\"u\"", "\"other\"")))), None, "a copy has loaded nothing");
        assert_eq!(read(&model(None, Some("nonsense"))), None);
        assert_eq!(read(&model(None, None)), None);
    }

    #[test]
    fn a_note_is_made_where_the_status_has_no_field_and_goes_when_it_has() {
        let (a, b) = (memory("a"), memory("b"));
        let (says_a, says_b) = (note(&a), note(&b));
        for (case, stored, noted, wanted, refused, expected) in [
            ("nobody has refused it", None, None, Some(&a), false, Keep::AsItIs),
            ("first", None, None, Some(&a), true, Keep::Say(says_a.clone())),
            ("steady", None, Some(&says_a), Some(&a), true, Keep::AsItIs),
            ("another", None, Some(&says_a), Some(&b), true, Keep::Say(says_b.clone())),
            ("unreadable", None, Some(&"x".to_owned()), Some(&a), true, Keep::Say(says_a.clone())),
            ("nothing left", None, Some(&says_a), None, true, Keep::Nothing),
            ("nothing at all", None, None, None, false, Keep::AsItIs),
            ("not seen in the status yet", None, Some(&says_a), Some(&a), false, Keep::AsItIs),
            ("the status is of before", Some(&b), Some(&says_a), Some(&a), false, Keep::AsItIs),
            ("seen in the status", Some(&a), Some(&says_a), Some(&a), false, Keep::Nothing),
            ("as ever", Some(&a), None, Some(&a), false, Keep::AsItIs),
        ] {
            let model = model(stored, noted.map(String::as_str));
            assert_eq!(plan(&model, wanted, refused), expected, "{case}");
        }
    }
}
