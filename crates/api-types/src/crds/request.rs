//! `DynamoGraphDeploymentRequest`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};

use super::{
    CrdError,
    version::{Version, age_column, column},
};
use crate::{
    schema::kubernetes::Definitions,
    v1alpha1::schemas,
    v1beta1::{DynamoGraphDeploymentRequest, DynamoGraphDeploymentRequestSpec, DynamoGraphDeploymentRequestStatus},
};

const DESCRIPTION: &str = "A model with its targets, from which the operator makes an inference graph.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let columns = vec![
        column("Model", ".spec.model", "The model"),
        column("Backend", ".spec.backend", "Engine family: auto, sglang, trtllm or vllm"),
        column("Phase", ".status.phase", "Where the request is in its life"),
        column("Profiling", ".status.profilingPhase", "What the profiler is doing"),
        column("Reason", r#".status.conditions[?(@.type=="Succeeded")].reason"#, "Why it is there, in one word"),
        column("Message", r#".status.conditions[?(@.type=="Succeeded")].message"#, "Why it is there"),
        column("DGD", ".status.dgdName", "The graph"),
        age_column(),
    ];
    let v1beta1 = Version::new(definitions, DESCRIPTION, columns);
    let v1alpha1 = Version::new(definitions, DESCRIPTION, alpha_columns());
    Ok(vec![
        v1alpha1.deprecated_definition::<
            DynamoGraphDeploymentRequest,
            schemas::DynamoGraphDeploymentRequestSpec,
            schemas::DynamoGraphDeploymentRequestStatus,
        >()?,
        v1beta1.definition::<
            DynamoGraphDeploymentRequest,
            DynamoGraphDeploymentRequestSpec,
            DynamoGraphDeploymentRequestStatus,
        >()?,
    ])
}

fn alpha_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Model", ".spec.model", "The model"),
        column("Backend", ".status.backend", "Engine family"),
        column("State", ".status.state", "Where the request is in its life"),
        column("DGD-State", ".status.deployment.state", "Where the graph is in its life"),
        age_column(),
    ]
}
