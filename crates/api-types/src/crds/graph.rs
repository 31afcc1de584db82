//! `DynamoGraphDeployment`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};

use super::{
    CrdError,
    version::{Version, age_column, backend_column, column},
};
use crate::{
    schema::{edit, kubernetes::Definitions},
    v1alpha1::schemas,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentSpec, DynamoGraphDeploymentStatus},
};

const DESCRIPTION: &str = "An inference graph: components that serve a model together.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let v1beta1 = Version::new(definitions, DESCRIPTION, columns());
    let v1alpha1 = Version {
        // An empty name of a model was never refused in this version.
        edit: |spec| edit::remove_limit(spec, "services{}.checkpoint.identity.model", "minLength"),
        ..Version::new(definitions, DESCRIPTION, columns())
    };
    Ok(vec![
        v1alpha1.deprecated_definition::<
            DynamoGraphDeployment,
            schemas::DynamoGraphDeploymentSpec,
            schemas::DynamoGraphDeploymentStatus,
        >()?,
        v1beta1.definition::<DynamoGraphDeployment, DynamoGraphDeploymentSpec, DynamoGraphDeploymentStatus>()?,
    ])
}

fn columns() -> Vec<CustomResourceColumnDefinition> {
    let ready = column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#, "Whether the graph serves");
    vec![ready, backend_column(), age_column()]
}
