//! JSON objects of any depth. serde_json refuses what is nested deeper than 128 levels, and with it a whole event or
//! page.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Levels of an object that are read. The limit of serde_json also counts the event or the list around it.
pub(super) const MAX_DEPTH: usize = 120;

const METADATA: &str = "metadata";

/// A JSON object without the fields that are nested too deeply.
#[derive(Debug)]
pub(super) struct Bounded {
    /// The fields that can be read.
    pub(super) fields: Map<String, Value>,
    /// Whether others were left out.
    pub(super) is_cut: bool,
}

impl<'de> serde::Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BoundedFields)
    }
}

struct BoundedFields;

impl<'de> Visitor<'de> for BoundedFields {
    type Value = Bounded;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bounded, A::Error> {
        let mut bounded = Bounded { fields: Map::new(), is_cut: false };
        while let Some(key) = map.next_key::<String>()? {
            let value = if key == METADATA {
                // The managed fields of a deep object are as deep, and are not needed.
                Some(map.next_value::<Bounded>()?.fields.into())
            } else {
                map.next_value_seed(BoundedLevel(MAX_DEPTH - 1))?
            };
            match value {
                Some(value) => drop(bounded.fields.insert(key, value)),
                None => bounded.is_cut = true,
            }
        }
        Ok(bounded)
    }
}

/// Reads a value that may have this many levels; `None` if it has more. It is read to its end either way.
#[derive(Clone, Copy)]
struct BoundedLevel(usize);

impl<'de> DeserializeSeed<'de> for BoundedLevel {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedLevel {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Option<Value>, E> {
        Ok(Some(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(Some(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Value>, A::Error> {
        let mut items = self.0.checked_sub(1).map(|below| (BoundedLevel(below), Vec::new()));
        while let Some((level, known)) = &mut items {
            match seq.next_element_seed(*level)? {
                Some(Some(item)) => known.push(item),
                Some(None) => items = None,
                None => break,
            }
        }
        // Passes over the rest without recursion.
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(items.map(|(_, items)| items.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Value>, A::Error> {
        let mut fields = self.0.checked_sub(1).map(|below| (BoundedLevel(below), Map::new()));
        while let Some((level, known)) = &mut fields {
            let Some(key) = map.next_key::<String>()? else { break };
            match map.next_value_seed(*level)? {
                Some(value) => drop(known.insert(key, value)),
                None => fields = None,
            }
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(fields.map(|(_, fields)| fields.into()))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        api::WatchEvent,
        core::{DynamicObject, ObjectList},
    };
    use serde_json::{Value, json};

    use super::{Bounded, MAX_DEPTH};
    use crate::store::Packed;

    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"a":["#.repeat(levels / 2), "]}".repeat(levels / 2))
    }

    #[test]
    fn a_field_that_is_nested_too_deeply_is_left_out_and_the_others_are_read() {
        let text = |levels| format!(r#"{{"spec":{},"status":{{"b":[1,-2,1.5,"c",true,null]}}}}"#, nested(levels));
        let read: Bounded = serde_json::from_str(&text(MAX_DEPTH - 2)).unwrap();
        assert!(!read.is_cut);
        assert_eq!(Value::Object(read.fields), serde_json::from_str::<Value>(&text(MAX_DEPTH - 2)).unwrap());
        for levels in [MAX_DEPTH, 128, 5000] {
            let read: Bounded = serde_json::from_str(&text(levels)).unwrap();
            assert!(read.is_cut, "{levels}");
            assert_eq!(Value::Object(read.fields), json!({ "status": { "b": [1, -2, 1.5, "c", true, null] } }));
        }
        serde_json::from_str::<Bounded>("[]").unwrap_err();
    }

    #[test]
    fn events_and_pages_with_an_object_that_is_nested_too_deeply_are_read() {
        for levels in [2, MAX_DEPTH - 2, MAX_DEPTH, 5000] {
            let spec = nested(levels);
            let metadata = format!(r#"{{"managedFields":{spec},"name":"d"}}"#);
            let object = format!(r#"{{"metadata":{metadata},"spec":{spec},"status":{{"b":1}}}}"#);
            let event = format!(r#"{{"type":"DELETED","object":{object}}}"#);
            let event: WatchEvent<Packed<DynamicObject>> = serde_json::from_str(&event).unwrap();
            let page = format!(r#"{{"kind":"L","apiVersion":"v1","metadata":{{}},"items":[{object}]}}"#);
            let page: ObjectList<Packed<DynamicObject>> = serde_json::from_str(&page).unwrap();
            let WatchEvent::Deleted(object) = event else { panic!("{event:?}") };
            for object in [&object, &page.items[0]] {
                assert_eq!(object.metadata.name.as_deref(), Some("d"));
                assert_eq!(object.clone().of_kind::<ConfigMap>().status(), json!({ "b": 1 }));
            }
        }
    }
}
