//! Scaling adapters: one for each component that asks for one.
//!
//! An adapter is the component's replica count in the hands of whoever scales it. The graph makes it, with the author's
//! count, and from then on never writes that count again.

use std::collections::BTreeMap;

use api_types::{
    labels, names,
    v1beta1::{
        ComponentSpec, DynamoGraphDeploymentScalingAdapter as Adapter, DynamoGraphDeploymentScalingAdapterSpec,
        ScalingTarget,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::graph::{observe::Observed, validate::ValidGraph};

/// The adapters of a graph.
#[derive(Debug, Default)]
pub struct Adapters {
    /// Those that are missing, or not as they should be. Live ones keep their replicas.
    pub write: Vec<Adapter>,
    /// Names of all that shall be there.
    pub wanted: Vec<String>,
}

/// Decides on the adapters of a graph.
pub fn adapters(graph: &ValidGraph<'_>, observed: &Observed) -> Adapters {
    let asking = graph.spec.components.iter().filter(|component| component.scaling_adapter.is_some());
    let all: Vec<_> = asking.map(|component| adapter(graph, component)).collect();
    let wanted = all.iter().map(ResourceExt::name_any).collect();
    let write = all.into_iter().filter_map(|wanted| to_write(observed, wanted)).collect();
    Adapters { write, wanted }
}

/// The graph's components with the counts of their adapters; none if that changes nothing. An adapter is the source of truth: a
/// count that is set on the graph must not take workers away until it is brought back.
pub fn scaled(observed: &Observed) -> Option<Vec<ComponentSpec>> {
    let count_of = |component: &ComponentSpec| {
        let live = observed.adapters.iter().find(|live| {
            let target = &live.spec.dgd_ref;
            target.component_name == component.name && Some(&target.name) == observed.graph.metadata.name.as_ref()
        })?;
        let decides = component.scaling_adapter.is_some()
            && observed.is_owner(live)
            && live.metadata.deletion_timestamp.is_none()
            && live.spec.replicas != component.wanted_replicas();
        decides.then_some(live.spec.replicas)
    };
    let components = &observed.graph.spec.components;
    let scale = |component: &ComponentSpec| match count_of(component) {
        Some(count) => ComponentSpec { replicas: Some(count), ..component.clone() },
        None => component.clone(),
    };
    components.iter().any(|component| count_of(component).is_some()).then(|| components.iter().map(scale).collect())
}

fn adapter(graph: &ValidGraph<'_>, component: &ComponentSpec) -> Adapter {
    Adapter {
        metadata: ObjectMeta {
            name: Some(names::scaling_adapter(&graph.name, &component.name)),
            namespace: Some(graph.namespace.clone()),
            labels: Some(BTreeMap::from([
                (labels::GRAPH.to_owned(), graph.name.clone()),
                (labels::COMPONENT.to_owned(), names::label_value(&component.name)),
            ])),
            ..ObjectMeta::default()
        },
        spec: DynamoGraphDeploymentScalingAdapterSpec {
            replicas: component.wanted_replicas(),
            dgd_ref: ScalingTarget { name: graph.name.clone(), component_name: component.name.clone() },
        },
        status: None,
    }
}

/// The adapter as it shall be written; none if the live one is right, whatever its replicas.
fn to_write(observed: &Observed, mut wanted: Adapter) -> Option<Adapter> {
    let Some(live) = observed.adapters.iter().find(|live| live.metadata.name == wanted.metadata.name) else {
        return Some(wanted);
    };
    let labelled = wanted.labels().iter().all(|(key, value)| live.labels().get(key) == Some(value));
    if observed.is_owner(live) && labelled && live.spec.dgd_ref == wanted.spec.dgd_ref {
        return None;
    }
    wanted.spec.replicas = live.spec.replicas;
    Some(wanted)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use serde_json::json;

    use super::*;
    use crate::graph::fixtures::{graph_with, observed, owner, valid};

    fn decided(live: Vec<Adapter>) -> (Vec<(String, i32)>, Vec<String>) {
        let graph = graph_with(|g| g["spec"]["components"][1]["scalingAdapter"] = json!({}));
        let mut observed = observed(&graph, vec![]);
        observed.adapters = live;
        let Adapters { write, wanted } = adapters(&valid(&graph), &observed);
        (write.iter().map(|a| (a.name_any(), a.spec.replicas)).collect(), wanted)
    }

    fn live(replicas: i32) -> Adapter {
        let graph = graph_with(|_| {});
        let mut live = adapter(&valid(&graph), &graph.spec.components[1]);
        live.spec.replicas = replicas;
        live.metadata.owner_references = Some(vec![owner()]);
        live
    }

    #[test]
    fn an_adapter_starts_with_the_authors_count() {
        assert_eq!(decided(vec![]), (vec![("chat-decode".into(), 4)], vec!["chat-decode".into()]));
    }

    #[test]
    fn what_others_set_is_never_written_again() {
        assert_eq!(decided(vec![live(9)]).0, []);
        let mut orphan = live(9);
        orphan.metadata.owner_references = None;
        assert_eq!(decided(vec![orphan]).0, [("chat-decode".into(), 9)], "it becomes ours with its count");
        let mut astray = live(9);
        astray.spec.dgd_ref.component_name = "Other".into();
        assert_eq!(decided(vec![astray]).0, [("chat-decode".into(), 9)]);
    }

    #[test]
    fn a_component_that_does_not_ask_has_none() {
        let graph = graph_with(|_| {});
        let Adapters { write, wanted } = adapters(&valid(&graph), &observed(&graph, vec![]));
        assert!(write.is_empty() && wanted.is_empty());
    }

    #[test]
    fn a_live_adapter_of_the_graph_decides_on_the_count() {
        let counts = |live: Vec<Adapter>, asks: bool| {
            let graph = graph_with(|g| {
                if asks {
                    g["spec"]["components"][1]["scalingAdapter"] = json!({});
                }
            });
            let mut observed = observed(&graph, vec![]);
            observed.adapters = live;
            scaled(&observed).map(|components| components.iter().map(|c| c.replicas).collect::<Vec<_>>())
        };
        assert_eq!(counts(vec![live(9)], true), Some(vec![Some(1), Some(9)]));
        assert_eq!(counts(vec![live(0)], true), Some(vec![Some(1), Some(0)]));
        assert_eq!(counts(vec![live(4)], true), None, "the graph has that count");
        assert_eq!(counts(vec![], true), None);
        assert_eq!(counts(vec![live(9)], false), None, "the component does not ask for an adapter");
        let mut foreign = live(9);
        foreign.metadata.owner_references = None;
        assert_eq!(counts(vec![foreign], true), None);
        let mut astray = live(9);
        astray.spec.dgd_ref.component_name = "Other".into();
        assert_eq!(counts(vec![astray], true), None);
        let mut leaving = live(9);
        leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(counts(vec![leaving], true), None);
    }
}
