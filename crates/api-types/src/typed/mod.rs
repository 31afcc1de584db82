//! From JSON to types: a deserializer of owned JSON whose errors have the path of the field.
//!
//! Each source of JSON compiles a parser of its own for every type, pod templates included: at least 150 kB of a
//! program. So there is one source for all, and it has to know the path, which `serde_json` does not. An error collects
//! it on its way out; what can be read costs nothing more.

use std::{fmt, vec};

use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
        Visitor,
        value::{MapAccessDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Map, Value, map};

/// Reads JSON as a type, as `serde_json` does, but for keys of maps, which are text here.
///
/// # Errors
/// It does not have the shape of the type.
pub fn typed<T: DeserializeOwned>(json: Value) -> Result<T, Misfit> {
    T::deserialize(Json(json))
}

/// Reason why JSON cannot be read as a type.
#[derive(Debug, thiserror::Error)]
pub struct Misfit {
    /// From the innermost to the outermost.
    path: Vec<Step>,
    #[source]
    source: serde_json::Error,
}

/// Step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The field of this name.
    Field(String),
    /// The item at this position.
    Item(usize),
}

impl Misfit {
    /// Steps to the value that does not fit, from the outermost. None is the whole.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> + ExactSizeIterator {
        self.path.iter().rev()
    }

    /// Path of the value that does not fit, as `spec.containers[0].name`.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps() {
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => path.extend([".", name]),
                Step::Item(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// Description of the error, without the path.
    pub fn problem(&self) -> &serde_json::Error {
        &self.source
    }

    fn below(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return self.source.fmt(f);
        }
        write!(f, "{}: {}", self.path(), self.source)
    }
}

impl From<serde_json::Error> for Misfit {
    fn from(source: serde_json::Error) -> Self {
        Self { path: Vec::new(), source }
    }
}

impl Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        serde_json::Error::custom(message).into()
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        serde_json::Error::invalid_type(found, expected).into()
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        serde_json::Error::invalid_value(found, expected).into()
    }
}

struct Json(Value);

impl<'de> Deserializer<'de> for Json {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => Ok(number.deserialize_any(visitor)?),
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => {
                let length = items.len();
                let mut items = Items { items: items.into_iter(), index: 0 };
                let read = visitor.visit_seq(&mut items)?;
                all_of("array", length, items.items.len()).map(|()| read)
            }
            Value::Object(fields) => {
                let length = fields.len();
                let mut fields = Fields::of(fields);
                let read = visitor.visit_map(&mut fields)?;
                all_of("map", length, fields.fields.len()).map(|()| read)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            value => visitor.visit_some(Self(value)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::String(variant) => visitor.visit_enum(variant.into_deserializer()),
            Value::Object(fields) if fields.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(Fields::of(fields)))
            }
            Value::Object(_) => Err(Misfit::invalid_value(Unexpected::Map, &"map with a single key")),
            other => Err(Misfit::invalid_type(unexpected(&other), &"string or map")),
        }
    }

    /// Unlike a struct, a map is never read from a list.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Object(_) => self.deserialize_any(visitor),
            other => Err(Misfit::invalid_type(unexpected(&other), &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct struct identifier
    }
}

fn unexpected(json: &Value) -> Unexpected<'_> {
    match json {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => {
            let unsigned = number.as_u64().map(Unexpected::Unsigned);
            let float = || Unexpected::Float(number.as_f64().unwrap_or_default());
            unsigned.or_else(|| number.as_i64().map(Unexpected::Signed)).unwrap_or_else(float)
        }
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

fn all_of(what: &str, length: usize, left: usize) -> Result<(), Misfit> {
    if left == 0 {
        return Ok(());
    }
    Err(Misfit::invalid_length(length, &format!("fewer elements in {what}").as_str()))
}

struct Items {
    items: vec::IntoIter<Value>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Misfit;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let read = seed.deserialize(Json(item)).map_err(|error| error.below(Step::Item(self.index)))?;
        self.index += 1;
        Ok(Some(read))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Fields {
    fields: map::IntoIter,
    /// The field whose name was read last.
    name: String,
    value: Value,
}

impl Fields {
    fn of(fields: Map<String, Value>) -> Self {
        Self { fields: fields.into_iter(), name: String::new(), value: Value::Null }
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Misfit;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        let Some((name, value)) = self.fields.next() else { return Ok(None) };
        (self.name, self.value) = (name, value);
        let read = seed.deserialize(FieldName(&self.name));
        read.map(Some).map_err(|error| error.below(Step::Field(std::mem::take(&mut self.name))))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Misfit> {
        let read = seed.deserialize(Json(self.value.take()));
        read.map_err(|error| error.below(Step::Field(std::mem::take(&mut self.name))))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

/// The name of a field, or a key.
struct FieldName<'a>(&'a str);

impl<'de> Deserializer<'de> for FieldName<'_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_str(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_enum(StrDeserializer::new(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests;
