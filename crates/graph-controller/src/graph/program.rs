//! Which program runs a graph: components with workloads of their own, or one PodCliqueSet of Grove. For life: what is live
//! decides, then what admission wrote, then what the cluster has.

use api_types::{annotations, conditions, grove};
use kube::ResourceExt;
use workload::RunsOn;

use super::{
    observe::Observed,
    settings::Settings,
    validate::{Facts, Kstatus, Refusal},
};

/// The program that runs a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// DynamoComponentDeployments.
    #[default]
    Component,
    /// A PodCliqueSet.
    Grove,
}

impl Program {
    /// What the components of a graph run on.
    pub const fn runs_on(self) -> RunsOn {
        match self {
            Self::Component => RunsOn::Component,
            Self::Grove => RunsOn::Grove,
        }
    }

    /// The value of the annotation that pins a graph to the program.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Component => "component",
            Self::Grove => "grove",
        }
    }
}

/// Chooses the program of a graph.
///
/// Live objects win, whatever an annotation says: it may have been replaced, and a graph that serves must not be started a
/// second time elsewhere.
///
/// # Errors
/// There are live objects of both programs, or the annotation names none.
pub fn choose(observed: &Observed, settings: &Settings) -> Result<Program, Refusal> {
    match (observed.components.is_empty(), observed.grove.sets.is_empty()) {
        (false, false) => return Err(both(observed)),
        (false, true) => return Ok(Program::Component),
        (true, false) => return Ok(Program::Grove),
        (true, true) => {}
    }
    let given = |key| observed.graph.annotations().get(key).map(String::as_str);
    match given(annotations::WORKLOAD_PROVIDER) {
        Some("component") => Ok(Program::Component),
        Some("grove") => Ok(Program::Grove),
        Some(other) => Err(Refusal {
            ready_reason: conditions::graph::PROVIDER_UNSUPPORTED,
            kstatus: Kstatus::Stalled(conditions::graph::INVALID_SPEC),
            message: format!(
                "metadata.annotations[{}]: {other:?} is no workload provider; use \"component\" or \"grove\"",
                annotations::WORKLOAD_PROVIDER
            ),
        }),
        None => {
            let declined = given(annotations::ENABLE_GROVE).is_some_and(|value| value.eq_ignore_ascii_case("false"));
            let offered = settings.grove.enabled && observed.served.grove;
            Ok(if offered && !declined { Program::Grove } else { Program::Component })
        }
    }
}

fn both(observed: &Observed) -> Refusal {
    let names = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(", ");
    Refusal {
        ready_reason: conditions::graph::FAILED,
        kstatus: Kstatus::Stalled(conditions::graph::CONFLICTING_PROVIDERS),
        message: format!(
            "the graph has DynamoComponentDeployments ({}) as well as PodCliqueSets ({}); nothing is changed until those \
             of one kind are deleted",
            names(&mut observed.components.iter().map(ResourceExt::name_any)),
            names(&mut observed.grove.sets.iter().map(ResourceExt::name_any)),
        ),
    }
}

/// Why a graph that Grove runs cannot be worked on, although its spec has no mistake.
pub fn lacks_grove(facts: Facts<'_>, settings: &Settings) -> Option<Refusal> {
    let api = grove::API_VERSION;
    let message = if !settings.grove.enabled {
        "the graph runs on Grove, which the operator's configuration switches off (orchestrators.grove.enabled)"
            .to_owned()
    } else if !facts.served.grove {
        format!(
            "the graph runs on Grove, and the cluster does not serve podcliquesets, podcliques and \
             podcliquescalinggroups of {api}; install Grove"
        )
    } else if settings.grove.both_schedulers {
        "orchestrators.kaiScheduler and orchestrators.volcanoScheduler are both enabled in the operator's configuration, \
         and a graph can be placed by one of them only"
            .to_owned()
    } else if settings.grove.volcano && !facts.served.volcano {
        "orchestrators.volcanoScheduler is enabled in the operator's configuration, and the cluster does not serve podgroups of \
         scheduling.volcano.sh/v1beta1; install Volcano, or disable it there"
            .to_owned()
    } else {
        let queue = facts.missing_queue?;
        return Some(Refusal {
            ready_reason: conditions::graph::FAILED,
            kstatus: Kstatus::Stalled(conditions::graph::QUEUE_MISSING),
            message: format!(
                "metadata.annotations[{}]: there is no Queue {queue} of the KAI scheduler (scheduling.run.ai/v2); create it, \
                 or name another",
                annotations::KAI_QUEUE
            ),
        });
    };
    Some(Refusal {
        ready_reason: conditions::graph::PROVIDER_UNAVAILABLE,
        kstatus: Kstatus::Stalled(conditions::graph::API_MISSING),
        message,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::{
        fixtures::{graph_with, grove, live, observed, valid},
        observe::Served,
    };

    fn chosen(provider: Option<&str>, enable: Option<&str>, served: bool) -> Result<Program, &'static str> {
        let graph = graph_with(|g| {
            g["metadata"]["annotations"] = json!({});
            let all = [(annotations::WORKLOAD_PROVIDER, provider), (annotations::ENABLE_GROVE, enable)];
            for (key, value) in all.into_iter().filter_map(|(key, value)| Some((key, value?))) {
                g["metadata"]["annotations"][key] = json!(value);
            }
        });
        let mut observed = observed(&graph, vec![]);
        observed.served.grove = served;
        choose(&observed, grove::settings()).map_err(|refusal| refusal.ready_reason)
    }

    #[test]
    fn admission_decides_and_without_it_what_the_cluster_has() {
        use Program::{Component, Grove};
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
        let decided = crate::graph::decide::decide(&valid(&as_components), &observed(&as_components, vec![]));
        let components: Vec<_> = decided.components.iter().map(|d| live(d, 1)).collect();
        assert_eq!(choose(&observed(&on_grove, components.clone()), grove::settings()).unwrap(), Program::Component);

        let mut with_set = observed(&as_components, vec![]);
        with_set.grove.sets = vec![grove::live_set(&as_components)];
        assert_eq!(choose(&with_set, grove::settings()).unwrap(), Program::Grove);

        with_set.components = components;
        let refusal = choose(&with_set, grove::settings()).unwrap_err();
        assert_eq!(refusal.kstatus, Kstatus::Stalled(conditions::graph::CONFLICTING_PROVIDERS));
        assert!(refusal.message.contains("chat-frontend") && refusal.message.contains("PodCliqueSets (chat)"));
    }

    #[test]
    fn a_missing_api_is_named() {
        let refusal = lacks_grove(Facts::default(), grove::settings()).unwrap();
        assert_eq!(refusal.ready_reason, conditions::graph::PROVIDER_UNAVAILABLE);
        assert!(refusal.message.contains("grove.io/v1alpha1"), "{}", refusal.message);

        let mut settings = grove::settings().clone();
        settings.grove.volcano = true;
        let lacks = |volcano| {
            let served = Served { grove: true, volcano, ..Served::default() };
            lacks_grove(Facts { program: Program::Grove, served, ..Facts::default() }, &settings)
        };
        let refusal = lacks(false).unwrap();
        assert_eq!(refusal.kstatus, Kstatus::Stalled(conditions::graph::API_MISSING));
        assert!(refusal.message.contains("scheduling.volcano.sh/v1beta1"), "{}", refusal.message);
        assert_eq!(lacks(true), None);
    }
}
