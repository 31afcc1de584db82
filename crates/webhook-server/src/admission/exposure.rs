//! Exposure of frontends. The operator writes Ingresses and VirtualServices with its own rights, so a user chooses
//! within the operator's configuration, or has the right to create such objects.

use std::collections::BTreeMap;

use api_types::{
    conversion::preserved::{PreservedComponent, PreservedIngress, legacy::PreservedGraph},
    v1beta1::ComponentType,
    violations::Violation,
};
use rendering::{ExposureObject, ExposureSettings, MESH_DEPARTURE};
use serde_json::Value;

use super::{
    Facts, Lookup, Request,
    field::{FieldFindings, FieldNode, FieldPath, MOST},
    kind::ReviewedKind,
    request,
};

/// The frontends of an object in v1beta1 that are exposed by their own `ingress`. They are read as the controllers read
/// them.
#[derive(PartialEq)]
struct Exposed<'a> {
    /// `None`: the object is the component.
    component: Option<&'a str>,
    ingress: PreservedIngress,
}

/// The rights to create what the object exposes, where it departs from the configuration.
pub(super) fn lookups(kind: ReviewedKind, hub: &Value, request: &Request, facts: &Facts) -> Vec<Lookup> {
    let Some(settings) = facts.exposure.as_ref().filter(|settings| !settings.only_configured) else {
        return Vec::new();
    };
    if request.namespace.is_empty() || request::is_operator(request, facts) {
        return Vec::new();
    }
    let exposed = exposed(kind, hub);
    let departs =
        |object: &ExposureObject| exposed.iter().any(|e| !settings.departures(&e.ingress, *object).is_empty());
    let objects = ExposureObject::ALL.into_iter().filter(departs);
    objects.map(|object| Lookup::CreateRight { namespace: request.namespace.clone(), object }).collect()
}

/// Checks the exposures that the request adds or changes.
pub(super) fn check(
    kind: ReviewedKind,
    new: &Value,
    old: Option<&Value>,
    is_alpha: bool,
    request: &Request,
    facts: &Facts,
) -> Vec<Violation<FieldPath>> {
    // The operator copies a graph's exposure to the component, and the component controller applies the configuration.
    if kind == ReviewedKind::Component && request::is_operator(request, facts) {
        return Vec::new();
    }
    let before = old.map(|old| exposed(kind, old)).unwrap_or_default();
    let mut out = FieldFindings::default();
    for exposed in exposed(kind, new).iter().filter(|exposed| !before.contains(exposed)) {
        for object in ExposureObject::ALL {
            if let Some(detail) = violation(&exposed.ingress, object, request, facts) {
                out.forbidden(&place(kind, new, exposed.component, is_alpha), detail);
            }
        }
    }
    out.violations.truncate(MOST);
    out.violations
}

/// Returns the violation of one exposure, with its remedy.
fn violation(ingress: &PreservedIngress, object: ExposureObject, request: &Request, facts: &Facts) -> Option<String> {
    let unconfigured = ExposureSettings::default();
    let departures = facts.exposure.as_ref().unwrap_or(&unconfigured).departures(ingress, object);
    if departures.iter().any(|departure| departure == MESH_DEPARTURE) {
        return Some(MESH_DEPARTURE.to_owned());
    }
    // Another install exposes by a configuration of its own.
    let settings = facts.exposure.as_ref()?;
    if departures.is_empty() {
        return None;
    }
    let all = departures.join("; ");
    let (group, resource) = object.resource();
    if settings.only_configured {
        return Some(format!("{all}; the operator's configuration permits nothing else (ingress.onlyConfigured)"));
    }
    let right = Lookup::CreateRight { namespace: request.namespace.clone(), object };
    let reason = match facts.object(&right) {
        Ok(Some(review)) if review["status"]["allowed"] == true => return None,
        Err(error) => {
            format!("the right of {:?} to create {resource} is unknown: {error}", request.username())
        }
        Ok(_) => format!("{:?} may not create {resource}.{group}", request.username()),
    };
    Some(format!("{all}; {reason} in this namespace; use what is configured, or get the right to create {resource}"))
}

/// The field in the version that the user sent.
fn place<'a>(kind: ReviewedKind, object: &'a Value, component: Option<&str>, is_alpha: bool) -> FieldNode<'a> {
    let root = FieldNode::root(object);
    let is_graph = kind == ReviewedKind::Graph;
    let saved = if is_graph { PreservedGraph::ANNOTATION } else { PreservedComponent::ANNOTATION };
    match component {
        _ if !is_alpha => root.fields(&["metadata", "annotations"]).key(saved),
        Some(component) => root.fields(&["spec", "services"]).key(component).field("ingress"),
        None => root.fields(&["spec", "ingress"]),
    }
}

fn exposed<'a>(kind: ReviewedKind, hub: &'a Value) -> Vec<Exposed<'a>> {
    let root = FieldNode::root(hub);
    let annotations: BTreeMap<String, String> = root.fields(&["metadata", "annotations"]).parse().unwrap_or_default();
    let spec = root.field("spec");
    let is_frontend = |component: &FieldNode<'_>| component.field("type").text() == ComponentType::Frontend.as_str();
    let of_graph = |component: &FieldNode<'a>| {
        let name = component.field("name").text();
        Some(Exposed { component: Some(name), ingress: PreservedComponent::of_graph(&annotations, name).ingress? })
    };
    let all: Vec<_> = match kind {
        ReviewedKind::Graph => {
            spec.field("components").items().filter(is_frontend).filter_map(|c| of_graph(&c)).collect()
        }
        ReviewedKind::Component if is_frontend(&spec) => {
            let ingress = PreservedComponent::of_component_deployment(&annotations).ingress;
            ingress.map(|ingress| Exposed { component: None, ingress }).into_iter().collect()
        }
        _ => Vec::new(),
    };
    all.into_iter().filter(|exposed| exposed.ingress.enabled).collect()
}
