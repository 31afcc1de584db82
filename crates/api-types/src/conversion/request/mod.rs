//! `DynamoGraphDeploymentRequest`.

mod saved;
mod spec;

use serde_json::{Value, json};

use super::{
    ConversionSource, Extent, lens,
    lens::{RestoreEdit, Saved, Side},
    value::{Object, at, copy, each_part, insert_filled, is_true, object, put, text},
};

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
        each_part(body, |spec| spec::to_beta(spec, self.0), |status| to_beta(status, self.0))
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        saved::save_alpha(original, rebuilt)
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<RestoreEdit<'a>> {
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
        each_part(body, |spec| spec::to_alpha(spec, self.0), |status| to_alpha(status, self.0))
    }

    fn save(&self, original: &Object, rebuilt: &Object) -> Object {
        saved::save_beta(original, rebuilt)
    }

    fn edits<'a>(&'a self, saved: &'a Object) -> Vec<RestoreEdit<'a>> {
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

pub(super) fn convert_request(source: ConversionSource<'_>) -> (Object, Option<Saved>) {
    let (alpha, beta) = (AlphaRequest(source.extent), BetaRequest(source.extent));
    lens::convert_part(&source.body, source.saved.as_ref(), source.to, &alpha, &beta)
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
    let generated = object(alpha, "generatedDeployment").map(|generated| json!(generated));
    put(&mut beta, &["profilingResults", "selectedConfig"], generated);
    insert_filled(&mut beta, "dgdName", deployment.and_then(|deployment| text(deployment, "name")));
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
    let generated = at(beta, &["profilingResults", "selectedConfig"]).filter(|config| config.is_object());
    put(&mut alpha, &["generatedDeployment"], generated.cloned());
    let deployment = text(beta, "dgdName").map(|name| json!({ "name": name, "created": false }));
    put(&mut alpha, &["deployment"], deployment);
    alpha
}
