//! The fields of an object, as server-side apply identifies them.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{conversion::ApiVersion, names};

/// Names of lists, and the keys of their entries, with defaults.
type ListKeys = (&'static [&'static str], &'static [(&'static str, Option<&'static str>)]);

/// The keys of the entries of a list, by the name of the list; an optional key has a default.
///
/// Other lists have one owner as a whole.
const KEYS: [ListKeys; 8] = [
    (
        &[
            "claims",
            "components",
            "containers",
            "env",
            "ephemeralContainers",
            "extraClientPods",
            "initContainers",
            "resourceClaims",
            "schedulingGates",
            "volumes",
        ],
        &[("name", None)],
    ),
    (&["imagePullSecrets"], &[("name", Some(""))]),
    (&["volumeMounts"], &[("mountPath", None)]),
    (&["volumeDevices"], &[("devicePath", None)]),
    (&["conditions"], &[("type", None)]),
    (&["hostAliases"], &[("ip", None)]),
    (&["ports"], &[("containerPort", None), ("protocol", Some("TCP"))]),
    (&["topologySpreadConstraints"], &[("topologyKey", None), ("whenUnsatisfiable", None)]),
];

/// A step on the way to a field.
#[derive(Clone, Copy)]
enum FieldStep<'a> {
    Field(&'a str),
    Entry(&'a str),
}

/// Place of a field.
#[derive(Clone, Copy)]
struct FieldPlace<'a> {
    version: ApiVersion,
    /// The step from the object or list that holds it, which is at the place before; none if this is the whole object.
    last: Option<(&'a FieldPlace<'a>, FieldStep<'a>)>,
}

impl<'a> FieldPlace<'a> {
    fn root(version: ApiVersion) -> Self {
        Self { version, last: None }
    }

    fn step(&'a self, step: FieldStep<'a>) -> Self {
        Self { version: self.version, last: Some((self, step)) }
    }

    /// The suffix of the annotation for the field.
    fn name(&self) -> String {
        let mut digest = Sha256::new();
        self.write(&mut digest);
        format!(".{}", names::hex(&digest.finalize(), 12))
    }

    fn write(&self, digest: &mut Sha256) {
        let Some((before, step)) = self.last else { return };
        before.write(digest);
        let (kind, text) = match step {
            FieldStep::Field(name) => ("f", name),
            FieldStep::Entry(identity) => ("k", identity),
        };
        digest.update(kind);
        digest.update(text.len().to_be_bytes());
        digest.update(text);
    }

    /// The names of the last fields on the way here, the innermost first; entries of lists have none.
    fn names(&self) -> [Option<&str>; 6] {
        let mut at = self.last;
        std::array::from_fn(|_| {
            let (before, step) = at?;
            at = before.last;
            if let FieldStep::Field(name) = step { Some(name) } else { None }
        })
    }

    /// Whether the list here has one owner, though others of its name have not.
    fn has_one_owner(&self) -> bool {
        matches!(
            (self.version, self.names()),
            (
                ApiVersion::V1Alpha1,
                [Some("conditions"), ..]
                    | [Some("claims"), Some("resources"), Some("spec"), None, ..]
                    | [Some("claims"), Some("resources"), Some(_), Some("services"), Some("spec"), None]
            ) | (ApiVersion::V1Beta1, [Some("env"), Some("spec"), None, ..])
        )
    }

    /// Whether the object here has one owner, and other objects that say the same in the other version have not.
    fn is_one_field(&self) -> bool {
        matches!(self.names(), [Some("nodeSelector"), parent, ..] if parent != Some("profilingConfig"))
    }

    /// Whether the entries of the list here are values that each have owners.
    fn is_set(&self) -> bool {
        matches!(
            self.names(),
            [Some("extraClientContainers" | "gmsClientContainers"), ..]
                | [Some("values"), Some("exitCodes" | "onExitCodes"), ..]
        )
    }

    /// The identities of the entries of this list; none if the list is one field as a whole.
    fn identities(&self, entries: &[Value]) -> Option<Vec<String>> {
        let list = self.names()[0].filter(|_| !self.has_one_owner())?;
        if self.is_set() {
            return Some(entries.iter().map(Value::to_string).collect());
        }
        let (_, keys) = KEYS.iter().find(|(lists, _)| lists.contains(&list))?;
        let identity = |entry: &Value| {
            let entry = entry.as_object()?;
            let parts = keys.iter().map(|(key, default)| match (entry.get(*key), default) {
                (Some(value), _) => Some(value.to_string()),
                (None, Some(default)) => Some(Value::from(*default).to_string()),
                (None, None) => None,
            });
            Some(parts.collect::<Option<Vec<String>>>()?.join(","))
        };
        entries.iter().map(identity).collect()
    }
}

/// All fields of an object: those of objects and the entries of lists, at every depth.
pub(super) fn fields(version: ApiVersion, object: &Value) -> HashSet<String> {
    let mut found = HashSet::new();
    visit(object, &FieldPlace::root(version), &mut |place| {
        found.insert(place.name());
    });
    found
}

fn visit(value: &Value, at: &FieldPlace<'_>, found: &mut dyn FnMut(&FieldPlace<'_>)) {
    each(value, at, &mut |place, child| {
        found(place);
        visit(child, place, found);
    });
}

/// The fields right below a value.
fn each(value: &Value, at: &FieldPlace<'_>, found: &mut dyn FnMut(&FieldPlace<'_>, &Value)) {
    match value {
        Value::Object(fields) if !at.is_one_field() => {
            fields.iter().for_each(|(key, child)| found(&at.step(FieldStep::Field(key)), child))
        }
        Value::Array(entries) => {
            for (identity, entry) in at.identities(entries).unwrap_or_default().iter().zip(entries) {
                found(&at.step(FieldStep::Entry(identity)), entry);
            }
        }
        _ => {}
    }
}

/// Removes the fields that are not to be kept. What holds a field that is kept is kept; what is kept and loses all that
/// it holds becomes null, as in a merge.
pub(super) fn retain(version: ApiVersion, object: &mut Value, keep: &dyn Fn(&str) -> bool) {
    retain_at(object, &FieldPlace::root(version), keep);
}

/// Whether something below the value is kept.
fn retain_at(value: &mut Value, at: &FieldPlace<'_>, keep: &dyn Fn(&str) -> bool) -> bool {
    let kept = |place: &FieldPlace<'_>, child: &mut Value| {
        let held = has_entries(child);
        let below = retain_at(child, place, keep);
        if held && !has_entries(child) {
            *child = Value::Null;
        }
        (held && below) || keep(&place.name())
    };
    match value {
        Value::Object(_) if at.is_one_field() => return false,
        Value::Object(fields) => fields.retain(|key, child| kept(&at.step(FieldStep::Field(key)), child)),
        Value::Array(entries) => {
            let Some(identities) = at.identities(entries) else { return false };
            let mut identities = identities.iter();
            entries.retain_mut(|entry| {
                identities.next().is_some_and(|identity| kept(&at.step(FieldStep::Entry(identity)), entry))
            });
        }
        _ => {}
    }
    has_entries(value)
}

fn has_entries(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| !fields.is_empty())
        || value.as_array().is_some_and(|entries| !entries.is_empty())
}

/// Whether all of `part` is in `whole`. Where a merge has taken all fields from an object, the object is null.
pub(super) fn contains(version: ApiVersion, whole: &Value, part: &Value) -> bool {
    contains_at(whole, part, &FieldPlace::root(version))
}

fn contains_at(whole: &Value, part: &Value, at: &FieldPlace<'_>) -> bool {
    match (whole, part) {
        (Value::Object(_) | Value::Array(_), Value::Null) => true,
        (Value::Object(whole), Value::Object(part)) if !at.is_one_field() => part.iter().all(|(key, part)| {
            let place = at.step(FieldStep::Field(key));
            whole.get(key).is_some_and(|whole| contains_at(whole, part, &place))
        }),
        (Value::Array(all), Value::Array(some)) => match (at.identities(all), at.identities(some)) {
            (Some(names), Some(part_names)) => {
                let known: HashMap<String, &Value> = names.into_iter().zip(all).collect();
                let mut entries = part_names.iter().zip(some);
                entries.all(|(name, entry)| {
                    let place = at.step(FieldStep::Entry(name));
                    known.get(name).is_some_and(|whole| contains_at(whole, entry, &place))
                })
            }
            _ => whole == part,
        },
        _ => whole == part,
    }
}

/// Fields that lie together, and the same in smaller parts.
pub(super) struct FieldGroup {
    /// A field and all below it.
    pub fields: HashSet<String>,
    /// The fields right below it, with all below them.
    pub parts: Vec<FieldGroup>,
}

/// The fields of `of`, by the topmost of them.
pub(super) fn groups(version: ApiVersion, object: &Value, of: &HashSet<String>) -> Vec<FieldGroup> {
    groups_at(object, &FieldPlace::root(version), of)
}

fn groups_at(value: &Value, at: &FieldPlace<'_>, of: &HashSet<String>) -> Vec<FieldGroup> {
    let mut groups = Vec::new();
    each(value, at, &mut |place, child| {
        let parts = groups_at(child, place, of);
        let name = place.name();
        if of.contains(&name) {
            let fields = parts.iter().flat_map(|part| part.fields.iter().cloned()).chain([name]).collect();
            groups.push(FieldGroup { fields, parts });
        } else {
            groups.extend(parts);
        }
    });
    groups
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversion::value::Object;

    /// The identities that the schema gives the entries of a list, by their keys and defaults.
    fn check(schema: &Value, at: &FieldPlace<'_>, way: &str, wrong: &mut Vec<String>) {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            check(schema, &at.step(FieldStep::Field(name)), &format!("{way}.{name}"), wrong);
        }
        if schema["additionalProperties"].is_object() {
            check(&schema["additionalProperties"], &at.step(FieldStep::Field("any")), &format!("{way}.any"), wrong);
        }
        if schema["type"] != "array" {
            return;
        }
        check(&schema["items"], &at.step(FieldStep::Entry("any")), &format!("{way}[]"), wrong);
        let keys: Vec<&str> =
            schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().flat_map(Value::as_str).collect();
        let entry: Object = keys.iter().map(|key| ((*key).to_owned(), json!("x"))).collect();
        let identities = |entry: &Object| at.identities(&[Value::Object(entry.clone())]);
        let agrees = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => at.identities(&[json!("x")]).is_some(),
            Some("map") => {
                identities(&entry).is_some()
                    && keys.iter().all(|key| {
                        let (mut less, mut same) = (entry.clone(), entry.clone());
                        less.remove(*key);
                        let default = &schema["items"]["properties"][key]["default"];
                        same.insert((*key).to_owned(), default.clone());
                        identities(&less) == identities(&same).filter(|_| !default.is_null())
                    })
            }
            _ => {
                let known = |key: &&str| schema["items"]["properties"].get(*key).is_some();
                let keys = KEYS.iter().flat_map(|(_, keys)| keys.iter()).map(|(key, _)| *key).filter(known);
                identities(&keys.map(|key| (key.to_owned(), json!("x"))).collect()).is_none()
            }
        };
        if !agrees {
            wrong.push(way.to_owned());
        }
    }

    /// Compares identities in lists: where they differ, the notes of a merge are about other fields than the API
    /// server's.
    #[test]
    fn entries_of_lists_are_distinguished_as_in_the_schemas() {
        let mut wrong = Vec::new();
        for crd in crate::crds::all().unwrap() {
            let kind = &crd.spec.names.kind;
            for version in crd.spec.versions.iter().filter(|_| crate::conversion::kind(kind).is_some()) {
                let at = FieldPlace::root(format!("nvidia.com/{}", version.name).parse().unwrap());
                let schema = &json!(version.schema)["openAPIV3Schema"];
                check(schema, &at, &format!("{kind} {}", version.name), &mut wrong);
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }
}
