//! `DynamoGraphDeploymentScalingAdapter`: one field has another name.

use super::lens::{self, Edit, Saved, Side};
use super::value::{Object, put};
use super::{ApiVersion, Source};
use serde_json::Value;

/// The field that names the component, in v1alpha1 and v1beta1.
const TARGET: (&str, &str) = ("serviceName", "componentName");

struct Rename {
    from: &'static str,
    to: &'static str,
}

impl Side for Rename {
    fn project(&self, object: &Object) -> Object {
        let mut projected = object.clone();
        if let Some(Value::Object(target)) = projected.get_mut("spec").and_then(|spec| spec.get_mut("dgdRef")) {
            let name = target.remove(self.from);
            put(target, &[self.to], name);
        }
        projected
    }

    fn save(&self, _: &Object, _: &Object) -> Object {
        Object::new()
    }

    fn edits<'a>(&'a self, _: &'a Object) -> Vec<Edit<'a>> {
        Vec::new()
    }
}

pub(super) fn convert(source: Source<'_>) -> (Object, Option<Saved>) {
    let alpha = Rename { from: TARGET.0, to: TARGET.1 };
    let beta = Rename { from: TARGET.1, to: TARGET.0 };
    let (from, to) = match source.to {
        ApiVersion::V1Beta1 => (alpha, beta),
        ApiVersion::V1Alpha1 => (beta, alpha),
    };
    lens::convert(&source.body, source.saved.as_ref(), &from, &to)
}
