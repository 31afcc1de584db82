//! The versions of each kind: columns of `kubectl get`, rules, and edits of the schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{
    CustomResourceExt,
    object::{HasSpec, HasStatus},
};
use schemars::JsonSchema;
use serde_json::Value;

use super::{
    CrdError,
    version::{KindVersion, SchemaSources, age_column, backend_column, column, count_column},
};
use crate::{
    schema::{SchemaError, edit, rules},
    v1alpha1::{DynamoCheckpoint, DynamoComponent, DynamoModel, DynamoWorkerMetadata},
    v1beta1::{
        DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentRequest,
        DynamoGraphDeploymentScalingAdapter,
    },
};

/// One definition for each version of a kind.
type VersionDefinitions = Result<Vec<CustomResourceDefinition>, CrdError>;

/// The versions of a kind that is stored in v1beta1.
fn both<K>(v1alpha1: KindVersion<'_>, v1beta1: KindVersion<'_>) -> VersionDefinitions
where
    K: CustomResourceExt + HasSpec<Spec: JsonSchema> + HasStatus<Status: JsonSchema>,
{
    Ok(vec![v1alpha1.deprecated_definition::<K>()?, v1beta1.definition::<K>()?])
}

const GRAPH: &str = "An inference graph: components that serve a model together.";

pub(super) fn graph(sources: &SchemaSources) -> VersionDefinitions {
    let ready = column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#, "Whether the graph serves");
    let columns = vec![ready, backend_column(), age_column("Age")];
    let version = |columns| KindVersion::new(sources, GRAPH, columns);
    both::<DynamoGraphDeployment>(version(columns.clone()), version(columns))
}

const COMPONENT_DEPLOYMENT: &str = "One component of an inference graph, of one revision.";

pub(super) fn component_deployment(sources: &SchemaSources) -> VersionDefinitions {
    let available = column(
        "Available",
        r#".status.conditions[?(@.type=="Available")].status"#,
        "Whether enough replicas of the component serve",
    );
    let columns = vec![available, backend_column(), age_column("Age")];
    let image = column("DynamoComponent", ".spec.dynamoComponent", "Source of the image; empty if none is built");
    let alpha_columns = std::iter::once(image).chain(columns.clone()).collect();
    let new = |columns| KindVersion::new(sources, COMPONENT_DEPLOYMENT, columns);
    both::<DynamoComponentDeployment>(
        KindVersion { edit: outside_of_graphs, ..new(alpha_columns) },
        KindVersion { edit: stand_alone, ..new(columns) },
    )
}

/// A component on its own takes its name from its object.
fn stand_alone(spec: &mut Value) -> Result<(), SchemaError> {
    edit::make_optional(spec, "name")?;
    outside_of_graphs(spec)
}

/// A component on its own has no part in a Grove unit of a graph.
fn outside_of_graphs(spec: &mut Value) -> Result<(), SchemaError> {
    edit::remove_property(spec, "providerOverride")?;
    let multinode = edit::property(spec, "multinode")?;
    edit::remove_property(multinode, "leader")?;
    edit::remove_property(multinode, "worker")
}

const SCALING_ADAPTER: &str = "The replicas of one component of a graph, with a scale subresource for autoscalers.";

pub(super) fn scaling_adapter(sources: &SchemaSources) -> VersionDefinitions {
    let component = column("COMPONENT", ".spec.dgdRef.componentName", "The component");
    let service = column("SERVICE", ".spec.dgdRef.serviceName", "The service");
    let version = |target| {
        let graph = column("DGD", ".spec.dgdRef.name", "The graph");
        let count = count_column("REPLICAS", ".status.replicas", "Replicas of the component");
        KindVersion::new(sources, SCALING_ADAPTER, vec![graph, target, count, age_column("AGE")])
    };
    both::<DynamoGraphDeploymentScalingAdapter>(version(service), version(component))
}

const REQUEST: &str = "A model with its targets, from which the operator makes an inference graph.";

pub(super) fn request(sources: &SchemaSources) -> VersionDefinitions {
    let alpha_columns = vec![
        column("Model", ".spec.model", "The model"),
        column("Backend", ".status.backend", "Engine family"),
        column("State", ".status.state", "Phase of the request"),
        column("DGD-State", ".status.deployment.state", "Phase of the graph"),
        age_column("Age"),
    ];
    let columns = vec![
        column("Model", ".spec.model", "The model"),
        column("Backend", ".spec.backend", "Engine family: auto, sglang, trtllm or vllm"),
        column("Phase", ".status.phase", "Phase of the request"),
        column("Profiling", ".status.profilingPhase", "Phase of the profiler"),
        column("Reason", r#".status.conditions[?(@.type=="Succeeded")].reason"#, "Reason of the condition Succeeded"),
        column(
            "Message",
            r#".status.conditions[?(@.type=="Succeeded")].message"#,
            "Message of the condition Succeeded",
        ),
        column("DGD", ".status.dgdName", "The graph"),
        age_column("Age"),
    ];
    let version = |columns| KindVersion::new(sources, REQUEST, columns);
    both::<DynamoGraphDeploymentRequest>(version(alpha_columns), version(columns))
}

const MODEL: &str = "A model on the workers of a base model, such as a LoRA adapter.";

pub(super) fn model(sources: &SchemaSources) -> VersionDefinitions {
    let columns = vec![
        column("BaseModel", ".spec.baseModelName", "The base model"),
        column("Type", ".spec.modelType", "base, lora or adapter"),
        count_column("Ready", ".status.readyEndpoints", "Workers that serve the model"),
        count_column("Total", ".status.totalEndpoints", "Workers of the base model"),
        age_column("Age"),
    ];
    Ok(vec![KindVersion::new(sources, MODEL, columns).definition::<DynamoModel>()?])
}

const CHECKPOINT: &str = "The state of an engine process, from which pods start faster.";

pub(super) fn checkpoint(sources: &SchemaSources) -> VersionDefinitions {
    let columns = vec![
        column("Model", ".spec.identity.model", "The model"),
        column("Backend", ".spec.identity.backendFramework", "Engine family: vllm, sglang or trtllm"),
        column("Phase", ".status.phase", "Phase of the checkpoint"),
        column("CheckpointID", ".status.checkpointID", "Identifier of the artifact"),
        age_column("Age"),
    ];
    let v1alpha1 = KindVersion {
        rules: rules::DYNAMO_CHECKPOINT,
        // An empty name of a model is refused in a graph, and was never refused here.
        edit: |spec| edit::remove_limit(spec, "identity.model", "minLength"),
        ..KindVersion::new(sources, CHECKPOINT, columns)
    };
    Ok(vec![v1alpha1.definition::<DynamoCheckpoint>()?])
}

const DYNAMO_COMPONENT: &str = "Code in an archive that is built into an image.";

pub(super) fn dynamo_component(sources: &SchemaSources) -> VersionDefinitions {
    let exists = ".status.conditions[?(@.type==\"ImageExists\")].status";
    let columns = vec![
        column("DynamoComponent", ".spec.dynamoComponent", "Built code, as name:version"),
        column("Image-Exists", exists, "Whether the registry has the image"),
        age_column("Age"),
    ];
    Ok(vec![KindVersion::new(sources, DYNAMO_COMPONENT, columns).definition::<DynamoComponent>()?])
}

const WORKER_METADATA: &str = "Metadata that a worker publishes for the other processes of its graph.";

pub(super) fn worker_metadata(sources: &SchemaSources) -> VersionDefinitions {
    let v1alpha1 = KindVersion::new(sources, WORKER_METADATA, vec![age_column("Age")]);
    Ok(vec![v1alpha1.definition_without_status::<DynamoWorkerMetadata>()?])
}
