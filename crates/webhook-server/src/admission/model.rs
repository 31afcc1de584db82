//! DynamoModels.

use api_types::{v1alpha1::ModelSource, violations};

use super::{
    field::{Findings, Node},
    kind::Kind,
};

const LORA: &str = "lora";

/// Checks a model as it is.
pub(super) fn check(object: &Node<'_>, out: &mut Findings) {
    let spec = object.field("spec");
    for (name, remedy) in [("modelName", violations::MODEL_NAME), ("baseModelName", violations::BASE_MODEL_NAME)] {
        if spec.field(name).text().is_empty() {
            out.required(&spec.field(name), remedy);
        }
    }
    if spec.field("modelType").text() != LORA {
        return;
    }
    let (source, uri) = (spec.field("source"), spec.fields(&["source", "uri"]));
    if !source.is_set() {
        out.required(&source, violations::source());
    } else if uri.text().is_empty() {
        out.required(&uri, violations::source());
    } else if !ModelSource::SCHEMES.iter().any(|scheme| uri.text().starts_with(scheme)) {
        // People put credentials into addresses.
        out.invalid_secret(&uri, violations::scheme());
    }
}

/// Checks the change of a model.
pub(super) fn check_update(new: &Node<'_>, old: &Node<'_>, out: &mut Findings) {
    for (name, consequence) in [
        ("baseModelName", "the model's endpoints are found by it, and would be lost"),
        ("modelType", "what is loaded for one type is not what another type needs"),
    ] {
        let [now, before] = [new, old].map(|object| object.fields(&["spec", name]));
        if now.text() != before.text() {
            out.immutable(&now, violations::anew(Kind::Model.name()));
            out.warn(format!("{}: {consequence}", now.path()));
        }
    }
}
