//! `DynamoComponent`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{
    CrdError,
    version::{Version, age_column, column},
};
use crate::{
    schema::kubernetes::Definitions,
    v1alpha1::{DynamoComponent, DynamoComponentSpec, DynamoComponentStatus},
};

const DESCRIPTION: &str = "Code in an archive that is built into an image.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let exists = ".status.conditions[?(@.type==\"ImageExists\")].status";
    let columns = vec![
        column("DynamoComponent", ".spec.dynamoComponent", "What is built, as name:version"),
        column("Image-Exists", exists, "Whether the registry has the image"),
        age_column(),
    ];
    let v1alpha1 = Version::new(definitions, DESCRIPTION, columns);
    Ok(vec![v1alpha1.definition::<DynamoComponent, DynamoComponentSpec, DynamoComponentStatus>()?])
}
