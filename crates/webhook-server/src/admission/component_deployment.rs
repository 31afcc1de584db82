//! DynamoComponentDeployments: what the rules about components depend on.

use api_types::{
    conversion::preserved::legacy::PreservedService,
    names,
    v1beta1::{BackendFramework, ComponentSpec},
    violations,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rendering::rules::{Findings, component, component::ComponentRuleContext};

use super::{Facts, Request, field::FieldNode, kind::ReviewedKind, request};

const KIND: &str = ReviewedKind::Component.name();
const AT: &str = "spec";

/// Checks a component as it is.
pub(super) fn check(
    metadata: &ObjectMeta,
    component: &ComponentSpec,
    framework: Option<BackendFramework>,
    facts: &Facts,
    out: &mut Findings,
) {
    let preserved = metadata.annotations.as_ref().and_then(PreservedService::of_component_deployment);
    let is_built = preserved.is_some_and(|preserved| preserved.source.is_some());
    let context = ComponentRuleContext {
        features: &facts.features,
        provider: None,
        lacks_grove: Some(violations::ONLY_ON_GROVE),
        framework,
        is_built,
    };
    component::check(AT, component, &context, out);
}

/// Checks the change from one component to another.
pub(super) fn check_update(
    [new, old]: [(&ComponentSpec, Option<BackendFramework>); 2],
    request: &Request,
    facts: &Facts,
    out: &mut Findings,
) {
    // The operator follows the workers of a graph, whose command lines may start another engine.
    if new.1 != old.1 && !request::is_operator(request, facts) {
        let (path, value) = ("spec.backendFramework", new.1.map_or("", BackendFramework::as_str));
        out.invalid(path, value, violations::immutable(violations::anew(KIND)));
        out.warn(path, "another engine reads other commands and settings than those of this object");
    }
    component::check_update(AT, new.0, old.0, KIND, out);
}

/// Returns the Dynamo namespace of the component of a v1alpha1 object: that of the graph that owns it, the one that its
/// user specifies if its image is built, or one by its own name.
pub(super) fn dynamo_namespace(object: &FieldNode<'_>) -> String {
    let metadata = object.field("metadata");
    let is_graph = |owner: &FieldNode<'_>| owner.field("kind").text() == ReviewedKind::Graph.name();
    let graph = metadata.field("ownerReferences").items().find(is_graph);
    let given = object.fields(&["spec", "dynamoNamespace"]);
    if graph.is_none() && !given.text().is_empty() && is_built(object) {
        return given.text().to_owned();
    }
    let owner = graph.unwrap_or_else(|| metadata.clone());
    let is_global = object.fields(&["spec", "globalDynamoNamespace"]).is_true();
    names::dynamo_namespace(metadata.field("namespace").text(), owner.field("name").text(), is_global)
}

/// Whether the image of a v1alpha1 object's component is built from an archive.
fn is_built(object: &FieldNode<'_>) -> bool {
    let is_empty = |path: &[&str]| object.fields(path).text().is_empty();
    !is_empty(&["spec", "dynamoComponent"]) && is_empty(&["spec", "extraPodSpec", "mainContainer", "image"])
}
