//! `DynamoGraphDeploymentRequest`.

mod config;
mod saved;
mod spec;
mod status;

use serde_json::Value;

use super::{
    ApiVersion, Extent, Source,
    lens::{self, Edit, Saved, Side},
    value::{Object, object},
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

struct Alpha(Extent);
struct Beta(Extent);

impl Side for Alpha {
    fn project(&self, body: &Object) -> Object {
        each_part(body, self.0, spec::to_beta, status::to_beta)
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

impl Side for Beta {
    fn project(&self, body: &Object) -> Object {
        each_part(body, self.0, spec::to_alpha, status::to_alpha)
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

pub(super) fn convert_request(source: Source<'_>) -> (Object, Option<Saved>) {
    let (alpha, beta) = (Alpha(source.extent), Beta(source.extent));
    match source.to {
        ApiVersion::V1Beta1 => lens::convert_part(&source.body, source.saved.as_ref(), &alpha, &beta),
        ApiVersion::V1Alpha1 => lens::convert_part(&source.body, source.saved.as_ref(), &beta, &alpha),
    }
}
