//! `DynamoComponentDeployment`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use serde_json::Value;

use super::{
    CrdError,
    version::{Version, age_column, backend_column, column},
};
use crate::{
    schema::{SchemaError, edit, kubernetes::Definitions},
    v1alpha1::schemas,
    v1beta1::{DynamoComponentDeployment, DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus},
};

const DESCRIPTION: &str = "One component of an inference graph, of one generation.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let v1alpha1 = Version { edit: alpha_stand_alone, ..Version::new(definitions, DESCRIPTION, alpha_columns()) };
    let v1beta1 = Version { edit: stand_alone, ..Version::new(definitions, DESCRIPTION, columns()) };
    Ok(vec![
        v1alpha1.deprecated_definition::<
            DynamoComponentDeployment,
            schemas::DynamoComponentDeploymentSpec,
            schemas::DynamoComponentDeploymentStatus,
        >()?,
        v1beta1.definition::<
            DynamoComponentDeployment,
            DynamoComponentDeploymentSpec,
            DynamoComponentDeploymentStatus,
        >()?,
    ])
}

fn columns() -> Vec<CustomResourceColumnDefinition> {
    let available = column(
        "Available",
        r#".status.conditions[?(@.type=="Available")].status"#,
        "Whether enough replicas of the component serve",
    );
    vec![available, backend_column(), age_column()]
}

fn alpha_columns() -> Vec<CustomResourceColumnDefinition> {
    let image = column("DynamoComponent", ".spec.dynamoComponent", "What the image is built from; empty if nothing is");
    std::iter::once(image).chain(columns()).collect()
}

/// A component on its own takes its name from its object.
fn stand_alone(spec: &mut Value) -> Result<(), SchemaError> {
    edit::make_optional(spec, "name")?;
    outside_of_graphs(spec)
}

/// An empty name of a model was never refused in this version.
fn alpha_stand_alone(spec: &mut Value) -> Result<(), SchemaError> {
    edit::remove_limit(spec, "checkpoint.identity.model", "minLength")?;
    outside_of_graphs(spec)
}

/// A component on its own has no part in a Grove unit of a graph.
fn outside_of_graphs(spec: &mut Value) -> Result<(), SchemaError> {
    edit::remove_property(spec, "providerOverride")?;
    let multinode = edit::property(spec, "multinode")?;
    edit::remove_property(multinode, "leader")?;
    edit::remove_property(multinode, "worker")
}
