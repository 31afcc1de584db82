//! `DynamoGraphDeployment`.

use super::CrdError;
use super::version::{Version, age_column, backend_column, column};
use crate::schema::kubernetes::Definitions;
use crate::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentSpec, DynamoGraphDeploymentStatus};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

const DESCRIPTION: &str = "An inference graph: components that serve a model together.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let ready = column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#, "Whether the graph serves");
    let v1beta1 = Version::new(definitions, DESCRIPTION, vec![ready, backend_column(), age_column()])
        .definition::<DynamoGraphDeployment, DynamoGraphDeploymentSpec, DynamoGraphDeploymentStatus>()?;
    Ok(vec![v1beta1])
}
