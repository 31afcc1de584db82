//! Any input as what the legacy API says of a graph and of a component, and as the configuration of its services: it
//! is applied or refused, and never fails. The first line is the configuration, the rest what annotations keep. All of
//! it is also an archive in which a manifest is looked for.

use api_types::{
    conversion::preserved::legacy::{PreservedGraph, PreservedService},
    env::DYN_DEPLOYMENT_CONFIG,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use component_controller::{
    component::{legacy::convert as convert_component, model::ObservedLegacy},
    image_build::manifest::parse,
};
use graph_controller::graph::legacy::{configured, translate};
use rendering::legacy::workers;
use serde_json::{Value, json};

fn metadata(annotation: &str, kept: &str) -> Value {
    json!({ "name": "chat", "namespace": "team", "uid": "u", "annotations": { annotation: kept } })
}

/// The fuzz target.
pub fn run(data: &[u8]) {
    let _ = parse::read(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (config, kept) = text.split_once('\n').unwrap_or((text, text));
    let env = json!([{ "name": DYN_DEPLOYMENT_CONFIG, "value": config }]);
    for type_ in ["frontend", "worker"] {
        let component = json!({
            "name": "Frontend", "type": type_, "podTemplate": { "spec": { "containers": [{ "name": "main", "env": env }] } },
        });
        let spec = json!({ "env": env, "components": [component, { "name": "b", "type": type_ }] });
        let graph = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "spec": spec,
            "metadata": metadata(PreservedGraph::ANNOTATION, kept),
        });
        let Ok(graph) = serde_json::from_value::<DynamoGraphDeployment>(graph) else { panic!("a graph is a graph") };
        let _ = configured(&graph.spec);
        let _ = translate(&graph, None);
        let inherited = graph.spec.env.unwrap_or_default();
        assert!(workers("Frontend", type_ == "frontend", &[], &inherited).is_none_or(|workers| workers >= 0));

        let single = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment", "spec": component,
            "metadata": metadata("nvidia.com/dcd-spec", kept),
        });
        let Ok(mut single) = serde_json::from_value::<DynamoComponentDeployment>(single) else {
            panic!("a component is a component")
        };
        let said = single.metadata.annotations.as_ref().and_then(PreservedService::of_component_deployment);
        let live = ObservedLegacy { fields: said.unwrap_or_default(), ..ObservedLegacy::default() };
        let _ = convert_component(&mut single, &live);
    }
}
