//! Fields that the API admits and this operator does not act on yet. Silence about them would be a lie: a graph that names
//! one serves as it would without it, and its status says so.

use api_types::v1beta1::{ComponentSpec, DynamoGraphDeploymentSpec};

/// Paths of the fields that have no effect, in the order of the spec; empty for most graphs.
pub fn unserved_fields(spec: &DynamoGraphDeploymentSpec) -> Vec<String> {
    let of_graph = [
        (spec.provider_override.is_some(), "spec.providerOverride"),
        (spec.priority_class_name.is_some(), "spec.priorityClassName"),
        (spec.topology_constraint.is_some(), "spec.topologyConstraint"),
    ];
    let mut fields: Vec<String> =
        of_graph.into_iter().filter(|(is_set, _)| *is_set).map(|(_, field)| field.to_owned()).collect();
    for component in &spec.components {
        let at = format!("spec.components[{}]", component.name);
        fields.extend(of_component(component).into_iter().map(|field| format!("{at}.{field}")));
    }
    fields
}

fn of_component(component: &ComponentSpec) -> Vec<&'static str> {
    let experimental = component.experimental.as_ref();
    let checkpoint = experimental.and_then(|experimental| experimental.checkpoint.as_ref()).is_some_and(|c| c.enabled);
    let fields = [
        (checkpoint, "experimental.checkpoint"),
        (component.provider_override.is_some(), "providerOverride"),
        (component.min_available.is_some(), "minAvailable"),
        (component.model_ref.is_some(), "modelRef"),
        (component.topology_constraint.is_some(), "topologyConstraint"),
    ];
    fields.into_iter().filter(|(is_set, _)| *is_set).map(|(_, field)| field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::fixtures::{graph, graph_with};
    use serde_json::json;

    #[test]
    fn an_ordinary_graph_is_served_whole() {
        assert_eq!(unserved_fields(&graph().spec), Vec::<String>::new());
    }

    #[test]
    fn every_field_without_effect_is_named() {
        let graph = graph_with(|g| {
            g["spec"]["priorityClassName"] = json!("high");
            g["spec"]["components"][0]["minAvailable"] = json!(1);
            g["spec"]["components"][1]["modelRef"] = json!({ "name": "m" });
        });
        let expected =
            ["spec.priorityClassName", "spec.components[Frontend].minAvailable", "spec.components[Decode].modelRef"];
        assert_eq!(unserved_fields(&graph.spec), expected);
    }
}
