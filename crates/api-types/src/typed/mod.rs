//! From JSON to types: a deserializer of owned JSON whose errors have the path of the field.
//!
//! Each source of JSON compiles a parser of its own for every type, pod templates included: at least 150 kB of a
//! program. So there is one source for all, and it has to know the path, which `serde_json` does not. An error collects
//! it on its way out; what can be read costs nothing more. What is compiled for each type is small: the rest is in
//! functions without type parameters.

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

/// Reads JSON as a type, as `serde_json` does, but for two things: keys of maps are text here, and a struct is not
/// read from a list, unless it is in an untagged or flattened one.
///
/// # Errors
/// It does not have the shape of the type.
pub fn typed<T: DeserializeOwned>(json: Value) -> Result<T, Misfit> {
    T::deserialize(Json(json))
}

/// Reason why JSON cannot be read as a type. Boxed, so that the results of parsers are small.
#[derive(Debug)]
pub struct Misfit(Box<MisfitParts>);

#[derive(Debug)]
struct MisfitParts {
    /// From the innermost to the outermost.
    path: Vec<Step>,
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
        self.0.path.iter().rev()
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
        &self.0.source
    }

    fn below(mut self, step: Step) -> Self {
        self.0.path.push(step);
        self
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MisfitParts { path, source } = &*self.0;
        if path.is_empty() {
            return source.fmt(f);
        }
        write!(f, "{}: {source}", self.path())
    }
}

impl std::error::Error for Misfit {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0.source)
    }
}

impl From<serde_json::Error> for Misfit {
    fn from(source: serde_json::Error) -> Self {
        Self(Box::new(MisfitParts { path: Vec::new(), source }))
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

impl Json {
    #[inline(never)]
    fn misfit(&self, expected: &dyn Expected) -> Misfit {
        Misfit::invalid_type(unexpected(&self.0), expected)
    }

    #[inline(never)]
    fn fields(self, expected: &dyn Expected) -> Result<Fields, Misfit> {
        match self.0 {
            Value::Object(fields) => Ok(Fields::of(fields)),
            other => Err(Self(other).misfit(expected)),
        }
    }

    #[inline(never)]
    fn items(self, expected: &dyn Expected) -> Result<Items, Misfit> {
        match self.0 {
            Value::Array(items) => Ok(Items { items: items.into_iter(), index: 0 }),
            other => Err(Self(other).misfit(expected)),
        }
    }

    #[inline(never)]
    fn text(self, expected: &dyn Expected) -> Result<String, Misfit> {
        match self.0 {
            Value::String(text) => Ok(text),
            other => Err(Self(other).misfit(expected)),
        }
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Number(number) => Ok(number.deserialize_any(visitor)?),
            other => Err(Self(other).misfit(&visitor)),
        }
    }
}

macro_rules! read_as {
    ($kind:ident: $($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
            self.$kind(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Json {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(_) => self.number(visitor),
            Value::String(text) => visitor.visit_string(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
        }
    }

    read_as! {
        number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
    }

    read_as! { deserialize_string: deserialize_char deserialize_str deserialize_identifier }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.misfit(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let text = self.text(&visitor)?;
        visitor.visit_string(text)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let mut items = self.items(&visitor)?;
        let read = visitor.visit_seq(&mut items)?;
        items.end().map(|()| read)
    }

    /// No field can be left: visitors of maps and structs read all of them.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let mut fields = self.fields(&visitor)?;
        visitor.visit_map(&mut fields)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.deserialize_map(visitor)
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
            _ => Err(self.misfit(&"string or map")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { bytes byte_buf unit unit_struct }
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

struct Items {
    items: vec::IntoIter<Value>,
    index: usize,
}

impl Items {
    #[inline(never)]
    fn end(self) -> Result<(), Misfit> {
        if self.items.as_slice().is_empty() {
            return Ok(());
        }
        Err(Misfit::invalid_length(self.index + self.items.len(), &"fewer elements in array"))
    }

    #[cold]
    fn at(&self, error: Misfit) -> Misfit {
        error.below(Step::Item(self.index))
    }
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Misfit;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let read = seed.deserialize(Json(item)).map_err(|error| self.at(error))?;
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

    /// Goes to the next field. Returns `false` after the last one.
    #[inline(never)]
    fn advance(&mut self) -> bool {
        let Some((name, value)) = self.fields.next() else { return false };
        (self.name, self.value) = (name, value);
        true
    }

    #[cold]
    fn at(&mut self, error: Misfit) -> Misfit {
        error.below(Step::Field(std::mem::take(&mut self.name)))
    }
}

impl<'de> MapAccess<'de> for Fields {
    type Error = Misfit;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Misfit> {
        if !self.advance() {
            return Ok(None);
        }
        seed.deserialize(FieldName(&self.name)).map(Some).map_err(|error| self.at(error))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Misfit> {
        seed.deserialize(Json(self.value.take())).map_err(|error| self.at(error))
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
