//! `DynamoComponentDeployment`.

use super::CrdError;
use super::version::{Version, age_column, backend_column, column};
use crate::schema::kubernetes::Definitions;
use crate::schema::{SchemaError, edit};
use crate::v1beta1::{DynamoComponentDeployment, DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

const DESCRIPTION: &str = "One component of an inference graph, of one generation.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let available = column(
        "Available",
        r#".status.conditions[?(@.type=="Available")].status"#,
        "Whether enough replicas of the component serve",
    );
    let v1beta1 = Version {
        edit: stand_alone,
        ..Version::new(definitions, DESCRIPTION, vec![available, backend_column(), age_column()])
    };
    Ok(vec![
        v1beta1
            .definition::<DynamoComponentDeployment, DynamoComponentDeploymentSpec, DynamoComponentDeploymentStatus>(
            )?,
    ])
}

/// A component on its own takes its name from its object, and has no part in a Grove unit of a graph.
fn stand_alone(spec: &mut Value) -> Result<(), SchemaError> {
    edit::make_optional(spec, "name")?;
    edit::remove_property(spec, "providerOverride")?;
    let multinode = edit::property(spec, "multinode")?;
    edit::remove_property(multinode, "leader")?;
    edit::remove_property(multinode, "worker")
}
