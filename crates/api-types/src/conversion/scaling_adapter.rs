//! `DynamoGraphDeploymentScalingAdapter`: one field has another name, and v1alpha1 leaves a count of zero out of the
//! status.

use serde_json::{Value, json};

use super::{
    ApiVersion, ConversionSource, lens,
    lens::{RestoreEdit, Saved, Side},
    value::{Object, put},
};

/// The field that names the component, in v1alpha1 and v1beta1.
const TARGET: (&str, &str) = ("serviceName", "componentName");

/// Replicas in the status: required in v1beta1, left out by clients of v1alpha1 when they are zero.
const COUNT: &str = "replicas";

/// One version of the adapter.
struct Adapter(ApiVersion);

impl Side for Adapter {
    fn project(&self, object: &Object) -> Object {
        let mut projected = object.clone();
        let (from, to) = match self.0 {
            ApiVersion::V1Alpha1 => TARGET,
            ApiVersion::V1Beta1 => (TARGET.1, TARGET.0),
        };
        if let Some(Value::Object(target)) = projected.get_mut("spec").and_then(|spec| spec.get_mut("dgdRef")) {
            let name = target.remove(from);
            put(target, &[to], name);
        }
        if let Some(Value::Object(status)) = projected.get_mut("status") {
            let count = status.get(COUNT);
            match self.0 {
                ApiVersion::V1Alpha1 if count.is_none_or(Value::is_null) => {
                    status.insert(COUNT.to_owned(), json!(0));
                }
                ApiVersion::V1Beta1 if count == Some(&json!(0)) => {
                    status.remove(COUNT);
                }
                _ => {}
            }
        }
        projected
    }

    fn save(&self, _: &Object, _: &Object) -> Object {
        Object::new()
    }

    fn edits<'a>(&'a self, _: &'a Object) -> Vec<RestoreEdit<'a>> {
        Vec::new()
    }
}

pub(super) fn convert_scaling_adapter(source: ConversionSource<'_>) -> (Object, Option<Saved>) {
    let (alpha, beta) = (Adapter(ApiVersion::V1Alpha1), Adapter(ApiVersion::V1Beta1));
    lens::convert_part(&source.body, source.saved.as_ref(), source.to, &alpha, &beta)
}
