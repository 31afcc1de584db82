//! `DynamoModel`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{
    CrdError,
    version::{Version, age_column, column, count_column},
};
use crate::{
    schema::kubernetes::Definitions,
    v1alpha1::{DynamoModel, DynamoModelSpec, DynamoModelStatus},
};

const DESCRIPTION: &str = "A model on the workers of a base model, such as a LoRA adapter.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let columns = vec![
        column("BaseModel", ".spec.baseModelName", "The base model"),
        column("Type", ".spec.modelType", "base, lora or adapter"),
        count_column("Ready", ".status.readyEndpoints", "Workers that serve the model"),
        count_column("Total", ".status.totalEndpoints", "Workers of the base model"),
        age_column(),
    ];
    let v1alpha1 = Version::new(definitions, DESCRIPTION, columns);
    Ok(vec![v1alpha1.definition::<DynamoModel, DynamoModelSpec, DynamoModelStatus>()?])
}
