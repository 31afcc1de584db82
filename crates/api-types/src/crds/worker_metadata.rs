//! `DynamoWorkerMetadata`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{
    CrdError,
    version::{Version, age_column},
};
use crate::{
    schema::kubernetes::Definitions,
    v1alpha1::{DynamoWorkerMetadata, DynamoWorkerMetadataSpec},
};

const DESCRIPTION: &str = "What a worker says of itself, for the other processes of its graph.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let v1alpha1 = Version::new(definitions, DESCRIPTION, vec![age_column()]);
    Ok(vec![v1alpha1.definition_without_status::<DynamoWorkerMetadata, DynamoWorkerMetadataSpec>()?])
}
