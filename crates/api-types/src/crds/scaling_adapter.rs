//! `DynamoGraphDeploymentScalingAdapter`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};

use super::{
    CrdError,
    version::{Version, age_column_named, column, count_column},
};
use crate::{
    schema::kubernetes::Definitions,
    v1alpha1::schemas,
    v1beta1::{
        DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentScalingAdapterSpec,
        DynamoGraphDeploymentScalingAdapterStatus,
    },
};

const DESCRIPTION: &str = "The replicas of one component of a graph, with a scale subresource for autoscalers.";

pub(super) fn versions(definitions: &Definitions) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let component = column("COMPONENT", ".spec.dgdRef.componentName", "The component");
    let service = column("SERVICE", ".spec.dgdRef.serviceName", "The service");
    let v1alpha1 = Version::new(definitions, DESCRIPTION, columns(service));
    let v1beta1 = Version::new(definitions, DESCRIPTION, columns(component));
    Ok(vec![
        v1alpha1.deprecated_definition::<
            DynamoGraphDeploymentScalingAdapter,
            schemas::DynamoGraphDeploymentScalingAdapterSpec,
            schemas::DynamoGraphDeploymentScalingAdapterStatus,
        >()?,
        v1beta1.definition::<
            DynamoGraphDeploymentScalingAdapter,
            DynamoGraphDeploymentScalingAdapterSpec,
            DynamoGraphDeploymentScalingAdapterStatus,
        >()?,
    ])
}

fn columns(target: CustomResourceColumnDefinition) -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("DGD", ".spec.dgdRef.name", "The graph"),
        target,
        count_column("REPLICAS", ".status.replicas", "Replicas of the component"),
        age_column_named("AGE"),
    ]
}
