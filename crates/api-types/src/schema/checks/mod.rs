//! Rules of ours in CEL, which the API server checks: about an object alone, or about an object and the one before.
//!
//! The API server checks them before it calls a webhook, so the webhook server does not check again what is here for
//! both versions. The rules of the upstream operator's definitions are in [`super::rules`]. Rules of graphs and of
//! components have modules of their own; those of other kinds are in this file.
//!
//! A rule does not reject changes of an object that was stored before the rule existed, unless they concern the rule:
//!
//! - A rule about a single value is at that value. The API server skips it while the value is unchanged.
//! - A rule about several fields is above them, and `unless_broken`: it is skipped if the old object violates it.
//! - A rule about a change sees old and new.

mod component;
mod engines;
mod graph;

use serde_json::{Value, json};

use super::{SchemaError, edit};
use crate::{
    conversion::{ApiVersion, COMPONENT_DEPLOYMENT, GRAPH},
    v1alpha1::ModelSource,
    violations,
    violations::Reason,
};

const VALIDATIONS: &str = "x-kubernetes-validations";

/// A rule of ours.
#[derive(Clone, Debug)]
pub struct SchemaCheck {
    /// Kind of the objects.
    pub kind: &'static str,
    /// Version of the objects.
    pub version: ApiVersion,
    /// Path of the rule in the schema of the object, such as `spec.components[]`; empty for the object itself.
    pub at: String,
    /// Path from there to the field at fault: `.replicas`; empty for the value of the rule itself.
    pub field: String,
    /// Kind of the violation.
    pub reason: Reason,
    /// The violation and its remedy.
    pub text: String,
    /// CEL that is true if nothing is wrong.
    rule: String,
    /// CEL for the value at fault, where the API server does not show it by itself.
    shows: Option<String>,
    /// Whether it is skipped if the old value broke it too.
    unless_broken: bool,
}

impl SchemaCheck {
    fn new(at: &str, rule: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            kind: "",
            version: ApiVersion::V1Beta1,
            at: at.to_owned(),
            field: String::new(),
            reason: Reason::Invalid,
            text: text.into(),
            rule: rule.into(),
            shows: None,
            unless_broken: false,
        }
    }

    fn field(self, field: impl Into<String>) -> Self {
        Self { field: field.into(), ..self }
    }

    /// The field at fault, of a rule about several fields. What was broken before may stay.
    fn field_of_several(self, field: impl Into<String>) -> Self {
        Self { unless_broken: true, ..self.field(field) }
    }

    fn required(self) -> Self {
        Self { reason: Reason::Required, ..self }
    }

    fn forbidden(self) -> Self {
        Self { reason: Reason::Forbidden, ..self }
    }

    fn shows(self, value: impl Into<String>) -> Self {
        Self { shows: Some(value.into()), ..self }
    }

    /// As an entry of `x-kubernetes-validations`.
    fn to_value(&self) -> Value {
        let mut entry = json!({ "rule": self.rule, "message": self.text, "reason": self.reason.as_str() });
        if self.unless_broken {
            let before = of_old(&self.rule);
            entry["rule"] = json!(format!("({}) || (oldSelf.hasValue() && !({before}))", self.rule));
            entry["optionalOldSelf"] = json!(true);
        }
        if !self.field.is_empty() {
            entry["fieldPath"] = json!(self.field);
        }
        if let Some(value) = &self.shows {
            // A text of JSON is one of CEL.
            entry["messageExpression"] = json!(format!("{value} + {}", json!(format!(": {}", self.text))));
        }
        entry
    }
}

/// The rule about the old value.
fn of_old(rule: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    rule.split_inclusive(|c| !is_word(c))
        .map(|part| match part.strip_prefix("self") {
            Some(rest) if !rest.starts_with(is_word) => format!("oldSelf.value(){rest}"),
            _ => part.to_owned(),
        })
        .collect()
}

/// All of them.
#[must_use]
pub fn all() -> Vec<SchemaCheck> {
    let mut all = checks();
    for version in [ApiVersion::V1Alpha1, ApiVersion::V1Beta1] {
        all.extend(graph::checks(version));
        all.extend([GRAPH, COMPONENT_DEPLOYMENT].into_iter().flat_map(|kind| component::checks(kind, version)));
    }
    all
}

/// Adds those of a kind to its schema in a version, which is named as in `apiVersion`.
///
/// # Errors
/// [`SchemaError::Missing`] if the schema lacks the path of one of them.
pub fn add(schema: &mut Value, kind: &str, api_version: &str) -> Result<(), SchemaError> {
    let of_version = |check: &SchemaCheck| check.kind == kind && check.version.api_version() == api_version;
    for check in all().into_iter().filter(of_version) {
        let place = if check.at.is_empty() { &mut *schema } else { edit::property(schema, &check.at)? };
        match &mut place[VALIDATIONS] {
            Value::Array(rules) => rules.push(check.to_value()),
            none => *none = json!([check.to_value()]),
        }
    }
    Ok(())
}

/// Whether a field is the same in old and new, or in neither.
fn same(field: &str) -> String {
    format!("has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})")
}

const MODEL: &str = "DynamoModel";

/// The rules of models, checkpoints and requests.
fn checks() -> Vec<SchemaCheck> {
    let place = |kind, version| move |check| SchemaCheck { kind, version, ..check };
    let models = models().into_iter().map(place(MODEL, ApiVersion::V1Alpha1));
    let within_pod = "!self.?gpuMemoryService.?enabled.orValue(false) || \
                      self.gpuMemoryService.?mode.orValue('intraPod') == 'intraPod'";
    let checkpoint = SchemaCheck::new("spec", within_pod, violations::supported(&["intraPod"]))
        .field_of_several(".gpuMemoryService.mode")
        .shows("'\"' + self.gpuMemoryService.mode + '\"'");
    let has_engine = "self.?searchStrategy.orValue('rapid') != 'thorough' || self.?backend.orValue('auto') != 'auto'";
    let request = SchemaCheck::new("spec", has_engine, violations::THOROUGH)
        .field_of_several(".searchStrategy")
        .shows("'\"' + self.searchStrategy + '\"'");
    models
        .chain([place("DynamoCheckpoint", ApiVersion::V1Alpha1)(checkpoint)])
        .chain([place("DynamoGraphDeploymentRequest", ApiVersion::V1Beta1)(request)])
        .collect()
}

fn models() -> Vec<SchemaCheck> {
    let schemes = ModelSource::SCHEMES.map(|scheme| format!("'{scheme}'")).join(", ");
    let stays = || violations::immutable(violations::anew(MODEL));
    let of_adapter = |rule: &str, field: &str, text: String| {
        let rule = format!("self.?modelType.orValue('') != 'lora' || {rule}");
        SchemaCheck::new("spec", rule, text).field_of_several(field)
    };
    let has_scheme = format!(
        "self.?source.?uri.orValue('') == '' || [{schemes}].exists(scheme, self.source.uri.startsWith(scheme))"
    );
    vec![
        SchemaCheck::new("spec.modelName", "self != ''", violations::MODEL_NAME).required(),
        SchemaCheck::new("spec.baseModelName", "self != ''", violations::BASE_MODEL_NAME).required(),
        SchemaCheck::new("spec.baseModelName", "self == oldSelf", stays()),
        SchemaCheck::new("spec.modelType", "self == oldSelf", stays()),
        of_adapter("has(self.source)", ".source", violations::source()).required(),
        of_adapter("!has(self.source) || self.source.?uri.orValue('') != ''", ".source.uri", violations::source())
            .required(),
        // At `spec`, because the API server shows the value of the field at fault, and people put credentials into
        // addresses.
        of_adapter(&has_scheme, ".source.uri", violations::scheme()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_about_the_old_value_speaks_of_nothing_else() {
        for (rule, old) in [
            ("self == 'a'", "oldSelf.value() == 'a'"),
            (
                "has(self.a) || self.b.exists(c, c == self.a)",
                "has(oldSelf.value().a) || oldSelf.value().b.exists(c, c == oldSelf.value().a)",
            ),
            ("size(self) == 0", "size(oldSelf.value()) == 0"),
            ("myself.a && self_b && selfish", "myself.a && self_b && selfish"),
        ] {
            assert_eq!(of_old(rule), old);
        }
    }

    #[test]
    fn every_rule_has_a_place_of_its_own_and_says_one_line() {
        let all = all();
        for check in &all {
            assert!(!check.kind.is_empty() && !check.text.is_empty() && !check.text.contains('\n'), "{check:?}");
            let same = |other: &&SchemaCheck| {
                (&other.kind, other.version, &other.at, &other.field, &other.text)
                    == (&check.kind, check.version, &check.at, &check.field, &check.text)
            };
            assert_eq!(all.iter().filter(same).count(), 1, "{check:?}");
            assert!(!check.unless_broken || !check.rule.contains("oldSelf"), "{check:?}");
        }
    }
}
