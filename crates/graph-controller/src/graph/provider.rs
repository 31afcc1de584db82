//! Chooses the workload provider of a graph: live objects first, then the annotation that admission wrote, then what
//! the cluster serves. The choice never changes while the graph lives. Pure.

use api_types::{annotations, conditions, grove};
use kube::ResourceExt;
use rendering::{
    WorkloadProvider,
    rules::{ProviderChoice, provider_of_new},
};

use crate::graph::{
    model::{GraphObserved, GraphObstacle},
    settings::GraphSettings,
};

/// Whether the provider depends on what the cluster serves, and Grove was not served by the last answer. Admission has
/// chosen for graphs that it has seen.
pub fn depends_on_grove(cached: &GraphObserved, settings: &GraphSettings) -> bool {
    let is_new = cached.components.is_empty() && cached.grove.sets.is_empty();
    let given = cached.graph.annotations();
    is_new && settings.grove.enabled && !cached.served.grove && !given.contains_key(annotations::WORKLOAD_PROVIDER)
}

/// Chooses the workload provider of a graph.
///
/// Live objects take precedence over the annotation, which may have been replaced: a serving graph must not be started
/// a second time with the other provider.
///
/// # Errors
/// There are live objects of both providers, or the annotation names an unknown one.
pub fn choose(cached: &GraphObserved, settings: &GraphSettings) -> Result<WorkloadProvider, GraphObstacle> {
    match (cached.components.is_empty(), cached.grove.sets.is_empty()) {
        (false, false) => return Err(both(cached)),
        (false, true) => return Ok(WorkloadProvider::Component),
        (true, false) => return Ok(WorkloadProvider::Grove),
        (true, true) => {}
    }
    let metadata = &cached.graph.metadata;
    match ProviderChoice::of(metadata) {
        ProviderChoice::Selected(provider) => Ok(provider),
        ProviderChoice::Unselected => Ok(provider_of_new(metadata, settings.grove.enabled && cached.served.grove)),
        ProviderChoice::Unknown(other) => Err(GraphObstacle::stalled(
            conditions::graph::PROVIDER_UNSUPPORTED,
            conditions::graph::INVALID_SPEC,
            format!(
                "metadata.annotations[{}]: {other:?} is no workload provider; use \"component\" or \"grove\"",
                annotations::WORKLOAD_PROVIDER
            ),
        )),
    }
}

fn both(cached: &GraphObserved) -> GraphObstacle {
    let names = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(", ");
    let message = format!(
        "the graph has DynamoComponentDeployments ({}) as well as PodCliqueSets ({}); nothing is changed until those \
         of one kind are deleted",
        names(&mut cached.components.iter().map(ResourceExt::name_any)),
        names(&mut cached.grove.sets.iter().map(ResourceExt::name_any)),
    );
    GraphObstacle::stalled(conditions::graph::FAILED, conditions::graph::CONFLICTING_PROVIDERS, message)
}

/// Returns the reason why a valid graph on Grove cannot be reconciled.
pub fn lacks_grove(observed: &GraphObserved, settings: &GraphSettings) -> Option<GraphObstacle> {
    let api = grove::API_VERSION;
    let message = if !settings.grove.enabled {
        "the graph runs on Grove, which the operator's configuration switches off (orchestrators.grove.enabled)"
            .to_owned()
    } else if !observed.served.grove {
        format!(
            "the graph runs on Grove, and the cluster does not serve podcliquesets, podcliques and \
             podcliquescalinggroups of {api}; install Grove"
        )
    } else if settings.grove.both_schedulers {
        "orchestrators.kaiScheduler and orchestrators.volcanoScheduler are both enabled in the operator's configuration, \
         and a graph can be placed by one of them only"
            .to_owned()
    } else if settings.grove.volcano && !observed.served.volcano {
        "orchestrators.volcanoScheduler is enabled in the operator's configuration, and the cluster does not serve podgroups of \
         scheduling.volcano.sh/v1beta1; install Volcano, or disable it there"
            .to_owned()
    } else {
        let queue = observed.grove.missing_queue.as_ref()?;
        let message = format!(
            "metadata.annotations[{}]: there is no Queue {queue} of the KAI scheduler (scheduling.run.ai/v2); create it, \
             or name another",
            annotations::KAI_QUEUE
        );
        return Some(GraphObstacle::stalled(conditions::graph::FAILED, conditions::graph::QUEUE_MISSING, message));
    };
    Some(GraphObstacle::stalled(conditions::graph::PROVIDER_UNAVAILABLE, conditions::graph::API_MISSING, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::{
        fixtures::{NOW, graph_with, grove, live, observed, valid},
        model::{ClusterApis, ObstacleProgress},
    };

    fn chosen(provider: Option<&str>, enable: Option<&str>, served: bool) -> Result<WorkloadProvider, &'static str> {
        let graph = graph_with(|g| {
            g["metadata"]["annotations"] = json!({});
            let all = [(annotations::WORKLOAD_PROVIDER, provider), (annotations::ENABLE_GROVE, enable)];
            for (key, value) in all.into_iter().filter_map(|(key, value)| Some((key, value?))) {
                g["metadata"]["annotations"][key] = json!(value);
            }
        });
        let mut cached = observed(&graph, vec![]);
        cached.served.grove = served;
        choose(&cached, grove::settings()).map_err(|obstacle| obstacle.ready_reason)
    }

    #[test]
    fn the_annotation_takes_precedence_over_what_the_cluster_serves() {
        use WorkloadProvider::{Component, Grove};
        let table = [
            ((Some("component"), None, true), Ok(Component)),
            ((Some("grove"), Some("false"), false), Ok(Grove)),
            ((Some("other"), None, true), Err(conditions::graph::PROVIDER_UNSUPPORTED)),
            ((None, None, true), Ok(Grove)),
            ((None, Some("False"), true), Ok(Component)),
            ((None, Some("true"), true), Ok(Grove)),
            ((None, None, false), Ok(Component)),
        ];
        for ((provider, enable, served), expected) in table {
            assert_eq!(chosen(provider, enable, served), expected, "{provider:?} {enable:?} {served}");
        }
    }

    #[test]
    fn what_is_live_wins_over_every_annotation() {
        let pinned = |provider: &str| {
            graph_with(|g| g["metadata"]["annotations"] = json!({ annotations::WORKLOAD_PROVIDER: provider }))
        };
        let (on_grove, as_components) = (pinned("grove"), pinned("component"));
        let planned = crate::graph::plan::plan(&valid(&as_components), &observed(&as_components, vec![]), NOW);
        let components: Vec<_> = planned.components.iter().map(|d| live(d, 1)).collect();
        assert_eq!(
            choose(&observed(&on_grove, components.clone()), grove::settings()).unwrap(),
            WorkloadProvider::Component
        );

        let mut with_set = observed(&as_components, vec![]);
        with_set.grove.sets = vec![grove::live_set(&as_components)];
        assert_eq!(choose(&with_set, grove::settings()).unwrap(), WorkloadProvider::Grove);

        with_set.components = components;
        let obstacle = choose(&with_set, grove::settings()).unwrap_err();
        assert_eq!(obstacle.progress, ObstacleProgress::Stalled(conditions::graph::CONFLICTING_PROVIDERS));
        assert!(obstacle.message.contains("chat-frontend") && obstacle.message.contains("PodCliqueSets (chat)"));
    }

    #[test]
    fn a_missing_api_is_named() {
        let mut observed = observed(&graph_with(|_| {}), vec![]);
        let obstacle = lacks_grove(&observed, grove::settings()).unwrap();
        assert_eq!(obstacle.ready_reason, conditions::graph::PROVIDER_UNAVAILABLE);
        assert!(obstacle.message.contains("grove.io/v1alpha1"), "{}", obstacle.message);

        let mut settings = grove::settings().clone();
        settings.grove.volcano = true;
        let mut lacks = |volcano| {
            observed.served = ClusterApis { grove: true, volcano, ..ClusterApis::default() };
            lacks_grove(&observed, &settings)
        };
        let obstacle = lacks(false).unwrap();
        assert_eq!(obstacle.progress, ObstacleProgress::Stalled(conditions::graph::API_MISSING));
        assert!(obstacle.message.contains("scheduling.volcano.sh/v1beta1"), "{}", obstacle.message);
        assert_eq!(lacks(true), None);
    }
}
