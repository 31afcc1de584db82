//! What an adapter asks of its graph: pure.

use api_types::labels;
use api_types::v1beta1::DynamoGraphDeploymentScalingAdapterStatus as Status;
use controller_kit::events::EventType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::Told;
use super::observe::Observed;

/// What shall be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The change of the graph, if it needs one.
    pub scale: Option<Scale>,
    /// The adapter's status.
    pub status: Option<Status>,
    /// Why the adapter has no effect.
    pub idle: Option<String>,
}

/// A component that gets another number of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Its place in the list of components.
    pub index: usize,
    /// Its name.
    pub component: String,
    /// Replicas that it has in the spec; none means one.
    pub from: Option<i32>,
    /// Replicas that it gets.
    pub to: i32,
}

/// Decides on an adapter that is not being deleted.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let (wanted, target) = (observed.adapter.spec.replicas, &observed.adapter.spec.dgd_ref);
    let idle = |why: String| Decision { scale: None, status: None, idle: Some(why) };
    let Some(graph) = &observed.graph else {
        return idle(format!("there is no DynamoGraphDeployment {} in this namespace", target.name));
    };
    let found = graph.spec.components.iter().enumerate().find(|(_, c)| c.name == target.component_name);
    let Some((index, component)) = found else {
        return idle(format!("DynamoGraphDeployment {} has no component {}", target.name, target.component_name));
    };
    if component.scaling_adapter.is_none() {
        let note = "has no scalingAdapter: its replicas are those of the graph";
        return idle(format!("component {} of DynamoGraphDeployment {} {note}", component.name, target.name));
    }
    let scale = (component.wanted_replicas() != wanted).then(|| Scale {
        index,
        component: component.name.clone(),
        from: component.replicas,
        to: wanted,
    });
    let before = observed.adapter.status.clone().unwrap_or_default();
    let counted = graph.status.as_ref().and_then(|status| status.components.get(&component.name));
    let status = Status {
        replicas: counted.map_or(before.replicas, |counted| counted.replicas),
        selector: Some(format!("{}={},{}={}", labels::COMPONENT, component.name, labels::GRAPH, target.name)),
        last_scale_time: if scale.is_some() { Some(Time(now)) } else { before.last_scale_time },
    };
    Decision { scale, status: Some(status), idle: None }
}

impl Decision {
    /// What to tell about it. `scaled` is whether the graph was changed.
    pub fn event(&self, scaled: bool) -> Option<Told> {
        if let Some(why) = &self.idle {
            return Some(Told { type_: EventType::Warning, reason: "NoTarget", note: why.clone() });
        }
        let Scale { component, from, to, .. } = self.scale.as_ref().filter(|_| scaled)?;
        let from = from.unwrap_or(1);
        Some(Told {
            type_: EventType::Normal,
            reason: "Scaled",
            note: format!("component {component} goes from {from} to {to} replicas"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::fixtures::graph_with;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn decided(replicas: i32, edit: impl FnOnce(&mut Value)) -> Decision {
        let graph = graph_with(|g| {
            g["spec"]["components"][1]["scalingAdapter"] = json!({});
            edit(g);
        });
        let adapter = serde_json::from_value(json!({
            "metadata": { "name": "chat-decode", "namespace": "team-a" },
            "spec": { "replicas": replicas, "dgdRef": { "name": "chat", "componentName": "Decode" } },
        }));
        decide(&Observed { adapter: adapter.unwrap(), graph: Some(graph) }, NOW)
    }

    #[test]
    fn the_adapter_is_the_source_of_truth() {
        let Decision { scale, status, .. } = decided(7, |_| {});
        assert_eq!(scale, Some(Scale { index: 1, component: "Decode".into(), from: Some(4), to: 7 }));
        assert_eq!(status.unwrap().last_scale_time, Some(Time(NOW)));
        assert_eq!(decided(4, |_| {}).scale, None);
        assert_eq!(decided(1, |g| g["spec"]["components"][1]["replicas"] = json!(null)).scale, None, "none means one");
        assert_eq!(decided(0, |_| {}).scale.unwrap().to, 0, "zero is a number like any other");
    }

    #[test]
    fn the_status_counts_the_pods_that_there_are() {
        let counts = |g: &mut Value| {
            g["status"] = json!({ "state": "pending", "components": { "Decode": {
                "componentKind": "Deployment", "replicas": 2, "updatedReplicas": 2 } } });
        };
        let status = decided(4, counts).status.unwrap();
        assert_eq!((status.replicas, status.last_scale_time), (2, None));
        let selector = "nvidia.com/dynamo-component=Decode,nvidia.com/dynamo-graph-deployment-name=chat";
        assert_eq!(status.selector.as_deref(), Some(selector));
    }

    #[test]
    fn an_adapter_without_effect_says_why() {
        let why = |edit: fn(&mut Value)| decided(7, edit).event(false).unwrap().note;
        assert!(why(|g| g["spec"]["components"][1]["scalingAdapter"] = json!(null)).contains("has no scalingAdapter"));
        assert!(why(|g| g["spec"]["components"][1]["name"] = json!("Other")).contains("has no component Decode"));
        assert_eq!(decided(7, |_| {}).event(true).unwrap().note, "component Decode goes from 4 to 7 replicas");
        assert_eq!(decided(7, |_| {}).event(false), None, "told when it is done");
    }
}
