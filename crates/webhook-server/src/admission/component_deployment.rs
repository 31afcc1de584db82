//! DynamoComponentDeployments.

use api_types::{
    conversion::preserved::{PreservedComponent, archive::PreservedService},
    names, violations,
};

use super::{
    Facts, Request,
    field::{Findings, Node},
    identity,
    kind::Kind,
    shared::{self, Change, Owner, Surroundings},
    view::Component,
};

const KIND: &str = Kind::Component.name();

/// Checks a component as it is.
pub(super) fn check(object: &Node<'_>, facts: &Facts, out: &mut Findings) {
    let component = Component::new(object.field("spec"));
    let framework = component.field("backendFramework").text();
    let kept = object.fields(&["metadata", "annotations"]).key(PreservedComponent::ANNOTATION).text();
    let said =
        PreservedService::of_component_deployment(&[(PreservedComponent::ANNOTATION.into(), kept.into())].into());
    let is_built = said.is_some_and(|said| said.source.is_some());
    shared::check(&component, &Surroundings { facts, owner: Owner::Nobody, framework, is_built }, out);
}

/// Tells what has no effect.
pub(super) fn warn(object: &Node<'_>, out: &mut Findings) {
    shared::warn(&Component::new(object.field("spec")), out);
}

/// Checks the change from one component to another.
pub(super) fn check_update(new: &Node<'_>, old: &Node<'_>, request: &Request, facts: &Facts, out: &mut Findings) {
    let [new, old] = [new, old].map(|object| Component::new(object.field("spec")));
    // The operator follows the workers of a graph, whose command lines may tell another engine.
    if !identity::is_operator(request, facts) {
        let [now, before] = [&new, &old].map(|component| component.field("backendFramework"));
        if now.text() != before.text() {
            out.immutable(&now, violations::anew(KIND));
            let consequence = "another engine reads other commands and settings than those of this object";
            out.warn(format!("{}: {consequence}", now.path()));
        }
    }
    shared::check_update(&new, &old, Change { owner: KIND, may_scale: true }, out);
}

/// Where the component of a v1alpha1 object registers: with the graph that owns it, where its author says if its image
/// is built, or by its own name.
pub(super) fn dynamo_namespace(object: &Node<'_>) -> String {
    let metadata = object.field("metadata");
    let is_graph = |owner: &Node<'_>| owner.field("kind").text() == Kind::Graph.name();
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
fn is_built(object: &Node<'_>) -> bool {
    let is_empty = |path: &[&str]| object.fields(path).text().is_empty();
    !is_empty(&["spec", "dynamoComponent"]) && is_empty(&["spec", "extraPodSpec", "mainContainer", "image"])
}
