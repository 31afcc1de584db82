//! An object as the rules read it: typed, with a violation for each field that does not fit into its type.

use std::cell::OnceCell;

use api_types::{
    conversion::{ApiVersion, convert},
    v1alpha1::{AlphaGpuMemoryService, CheckpointJobSpec},
    v1beta1::{BackendFramework, ComponentSpec, DynamoGraphDeployment, DynamoGraphDeploymentRequestSpec},
    violations::Violation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rendering::rules::fit;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::kind::ReviewedKind;

/// An object of a kind that is validated, in the version that the rules are about.
pub(super) struct TypedSubject {
    pub(super) object: Value,
    pub(super) typed: Typed,
    pub(super) misfits: Vec<Violation>,
    /// The object in v1alpha1, once a rule reads it. A conversion takes long enough to be done once.
    alpha: OnceCell<Option<Value>>,
}

/// Parts of an object that the rules read.
pub(super) enum Typed {
    Graph(Box<DynamoGraphDeployment>),
    Component { metadata: Box<ObjectMeta>, component: Box<ComponentSpec>, framework: Option<BackendFramework> },
    Request(Box<DynamoGraphDeploymentRequestSpec>),
    Checkpoint { service: Box<AlphaGpuMemoryService>, job: Box<CheckpointJobSpec> },
    Model,
}

impl TypedSubject {
    pub(super) fn new(kind: ReviewedKind, object: Value) -> Self {
        let (spec, mut misfits) = (&object["spec"], Vec::new());
        let typed = match kind {
            ReviewedKind::Graph => Typed::Graph(Box::new(DynamoGraphDeployment {
                metadata: metadata(&object),
                spec: read("spec", spec, &mut misfits),
                status: None,
            })),
            ReviewedKind::Component => Typed::Component {
                metadata: Box::new(metadata(&object)),
                component: Box::new(read("spec", spec, &mut misfits)),
                framework: read("spec.backendFramework", &spec["backendFramework"], &mut misfits),
            },
            ReviewedKind::Request => Typed::Request(Box::new(read("spec", spec, &mut misfits))),
            ReviewedKind::Checkpoint => Typed::Checkpoint {
                service: Box::new(read("spec.gpuMemoryService", &spec["gpuMemoryService"], &mut misfits)),
                job: Box::new(read("spec.job", &spec["job"], &mut misfits)),
            },
            ReviewedKind::Model => Typed::Model,
        };
        let alpha = if kind.has_two_versions() { OnceCell::new() } else { OnceCell::from(None) };
        Self { object, typed, misfits, alpha }
    }

    /// The object in v1alpha1; none if it cannot be converted.
    pub(super) fn in_alpha(&self) -> Option<&Value> {
        self.alpha.get_or_init(|| convert(self.object.clone(), ApiVersion::V1Alpha1).ok()).as_ref()
    }
}

/// The value at the path `at`; adds what does not fit to `misfits`.
fn read<T: DeserializeOwned + Default>(at: &str, value: &Value, misfits: &mut Vec<Violation>) -> T {
    let (fitting, more) = fit(at, value);
    misfits.extend(more);
    fitting
}

/// A graph of v1beta1, as far as its spec fits.
pub(super) fn graph(object: &Value) -> DynamoGraphDeployment {
    DynamoGraphDeployment { metadata: metadata(object), spec: fit("spec", &object["spec"]).0, status: None }
}

fn metadata(object: &Value) -> ObjectMeta {
    fit("metadata", &object["metadata"]).0
}
