//! `DynamoComponentDeployment`.

use super::CrdError;
use super::version::{age_column, backend_column, column, version};
use crate::schema::kubernetes::Definitions;
use crate::schema::{SchemaError, edit};
use crate::v1beta1::{DynamoComponentDeployment, DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let available = column(
        "Available",
        r#".status.conditions[?(@.type=="Available")].status"#,
        "Whether enough replicas of the component serve",
    );
    let v1beta1 = version::<DynamoComponentDeployment, DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus>(
        definitions,
        "One component of an inference graph, of one generation.",
        vec![available, backend_column(), age_column()],
        stand_alone,
    )?;
    Ok(vec![v1beta1])
}

/// A component on its own takes its name from its object, and has no part in a Grove unit of a graph.
fn stand_alone(spec: &mut Value) -> Result<(), SchemaError> {
    edit::make_optional(spec, "name")?;
    edit::remove_property(spec, "providerOverride")?;
    let multinode = edit::property(spec, "multinode")?;
    edit::remove_property(multinode, "leader")?;
    edit::remove_property(multinode, "worker")
}
