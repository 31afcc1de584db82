//! `DynamoCheckpoint`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{
    CrdError,
    version::{Version, age_column, column},
};
use crate::{
    schema::{edit, kubernetes::Definitions, rules},
    v1alpha1::{DynamoCheckpoint, DynamoCheckpointSpec, DynamoCheckpointStatus},
};

const DESCRIPTION: &str = "The state of an engine process, from which pods start faster.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let columns = vec![
        column("Model", ".spec.identity.model", "The model"),
        column("Backend", ".spec.identity.backendFramework", "Engine family: vllm, sglang or trtllm"),
        column("Phase", ".status.phase", "Where the checkpoint is in its life"),
        column("CheckpointID", ".status.checkpointID", "Identifier of the artifact"),
        age_column(),
    ];
    let v1alpha1 = Version {
        rules: rules::DYNAMO_CHECKPOINT,
        // An empty name of a model is refused in a graph, and was never refused here.
        edit: |spec| edit::remove_limit(spec, "identity.model", "minLength"),
        ..Version::new(definitions, DESCRIPTION, columns)
    };
    Ok(vec![v1alpha1.definition::<DynamoCheckpoint, DynamoCheckpointSpec, DynamoCheckpointStatus>()?])
}
