//! `DynamoGraphDeploymentRequest`.

mod saved;
mod spec;

use serde_json::{Value, json};

use super::{
    ApiVersion, ConversionSource, Extent, lens,
    lens::{Edit, Saved, Side},
    value::{Object, object},
};
use crate::conversion::value::{at, copy, is_true, put, text};

/// One annotation per field, as the first conversion of the upstream operator had them.
pub(super) const RETIRED: [&str; 9] = [
    "nvidia.com/dgdr-config-map-ref",
    "nvidia.com/dgdr-output-pvc",
    "nvidia.com/dgdr-enable-gpu-discovery",
    "nvidia.com/dgdr-deployment-overrides",
    "nvidia.com/dgdr-profiling-config",
    "nvidia.com/dgdr-status-backend",
    "nvidia.com/dgdr-profiling-results",
    "nvidia.com/dgdr-deployment-status",
    "nvidia.com/dgdr-profiling-job-name",
];

struct AlphaRequest(Extent);
struct BetaRequest(Extent);

impl Side for AlphaRequest {
    fn project(&self, body: &Object) -> Object {
        each_part(body, self.0, spec::to_beta, to_beta)
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        saved::save_alpha(original, rebuilt)
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<Edit<'a>> {
        saved::alpha_edits(saved)
    }

    fn fill(&self, body: &mut Object) {
        if let Some(Value::Object(spec)) = body.get_mut("spec") {
            spec::fill_alpha_defaults(spec);
        }
    }
}

impl Side for BetaRequest {
    fn project(&self, body: &Object) -> Object {
        each_part(body, self.0, spec::to_alpha, to_alpha)
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        saved::save_beta(original, rebuilt)
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<Edit<'a>> {
        saved::beta_edits(saved)
    }

    fn complete(&self, body: &mut Object) {
        if self.0 == Extent::Whole {
            self.fill(body);
        }
    }

    fn fill(&self, body: &mut Object) {
        if let Some(Value::Object(spec)) = body.get_mut("spec") {
            spec::fill_defaults(spec);
        }
    }
}

/// Projects a part of an object to the other version.
type Projection = fn(&Object, Extent) -> Object;

fn each_part(body: &Object, extent: Extent, spec: Projection, status: Projection) -> Object {
    let mut projected = Object::new();
    for (key, change) in [("spec", spec), ("status", status)] {
        if let Some(part) = object(body, key) {
            projected.insert(key.to_owned(), Value::Object(change(part, extent)));
        }
    }
    projected
}

pub(super) fn convert_request(source: ConversionSource<'_>) -> (Object, Option<Saved>) {
    let (alpha, beta) = (AlphaRequest(source.extent), BetaRequest(source.extent));
    match source.to {
        ApiVersion::V1Beta1 => lens::convert_part(&source.body, source.saved.as_ref(), &alpha, &beta),
        ApiVersion::V1Alpha1 => lens::convert_part(&source.body, source.saved.as_ref(), &beta, &alpha),
    }
}

/// Fields that are the same in both versions.
const SAME: [&str; 2] = ["observedGeneration", "conditions"];

fn to_beta(alpha: &Object, extent: Extent) -> Object {
    let mut beta = Object::new();
    copy(alpha, &mut beta, &SAME);
    let deployment = object(alpha, "deployment");
    let deployed = deployment.is_some_and(|deployment| is_true(deployment, "created"));
    let phase = match text(alpha, "state") {
        Some("Profiling") => "Profiling",
        Some("Ready") if deployed => "Deployed",
        Some("Ready" | "DeploymentDeleted") => "Ready",
        Some("Deploying") => "Deploying",
        Some("Failed") => "Failed",
        _ => "Pending",
    };
    if extent == Extent::Whole || alpha.contains_key("state") {
        beta.insert("phase".to_owned(), json!(phase));
    }
    if let Some(generated) = object(alpha, "generatedDeployment") {
        put(&mut beta, &["profilingResults", "selectedConfig"], Some(json!(generated)));
    }
    if let Some(name) = deployment.and_then(|deployment| text(deployment, "name")) {
        beta.insert("dgdName".to_owned(), json!(name));
    }
    beta
}

fn to_alpha(beta: &Object, extent: Extent) -> Object {
    let mut alpha = Object::new();
    copy(beta, &mut alpha, &SAME);
    let state = match text(beta, "phase") {
        Some("Profiling") => "Profiling",
        Some("Ready" | "Deployed") => "Ready",
        Some("Deploying") => "Deploying",
        Some("Failed") => "Failed",
        _ => "Pending",
    };
    if extent == Extent::Whole || beta.contains_key("phase") {
        alpha.insert("state".to_owned(), json!(state));
    }
    if let Some(generated) = at(beta, &["profilingResults", "selectedConfig"]).filter(|config| config.is_object()) {
        alpha.insert("generatedDeployment".to_owned(), generated.clone());
    }
    if let Some(name) = text(beta, "dgdName") {
        alpha.insert("deployment".to_owned(), json!({ "name": name, "created": false }));
    }
    alpha
}
