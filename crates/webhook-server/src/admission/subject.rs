//! An object as the rules read it: typed, with a violation for each field that does not fit into its type.

use api_types::{
    v1alpha1::{CheckpointJobSpec, GpuMemoryService},
    v1beta1::{BackendFramework, ComponentSpec, DynamoGraphDeployment, DynamoGraphDeploymentRequestSpec},
    violations::Violation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rendering::rules::fit;
use serde_json::Value;

use super::kind::ReviewedKind;

/// An object of a kind that is validated.
pub(super) struct TypedSubject {
    pub(super) typed: Typed,
    pub(super) misfits: Vec<Violation>,
}

/// Parts of an object that the rules read.
pub(super) enum Typed {
    Graph(Box<DynamoGraphDeployment>),
    Component { metadata: Box<ObjectMeta>, component: Box<ComponentSpec>, framework: Option<BackendFramework> },
    Request(Box<DynamoGraphDeploymentRequestSpec>),
    Checkpoint { service: Box<GpuMemoryService>, job: Box<CheckpointJobSpec> },
    Model,
}

impl TypedSubject {
    pub(super) fn new(kind: ReviewedKind, object: &Value) -> Self {
        let (typed, misfits) = match kind {
            ReviewedKind::Graph => {
                let (graph, misfits) = graph(object);
                (Typed::Graph(Box::new(graph)), misfits)
            }
            ReviewedKind::Component => {
                let (component, mut misfits) = fit("spec", &object["spec"]);
                let (framework, unknown) = fit("spec.backendFramework", &object["spec"]["backendFramework"]);
                misfits.extend(unknown);
                (
                    Typed::Component {
                        metadata: Box::new(metadata(object)),
                        component: Box::new(component),
                        framework,
                    },
                    misfits,
                )
            }
            ReviewedKind::Request => {
                let (spec, misfits) = fit("spec", &object["spec"]);
                (Typed::Request(Box::new(spec)), misfits)
            }
            ReviewedKind::Checkpoint => {
                let (service, mut misfits) = fit("spec.gpuMemoryService", &object["spec"]["gpuMemoryService"]);
                let (job, more) = fit("spec.job", &object["spec"]["job"]);
                misfits.extend(more);
                (Typed::Checkpoint { service: Box::new(service), job: Box::new(job) }, misfits)
            }
            ReviewedKind::Model => (Typed::Model, Vec::new()),
        };
        Self { typed, misfits }
    }
}

/// A graph of v1beta1, and what of its spec does not fit.
pub(super) fn graph(object: &Value) -> (DynamoGraphDeployment, Vec<Violation>) {
    let (spec, misfits) = fit("spec", &object["spec"]);
    (DynamoGraphDeployment { metadata: metadata(object), spec, status: None }, misfits)
}

fn metadata(object: &Value) -> ObjectMeta {
    fit("metadata", &object["metadata"]).0
}
