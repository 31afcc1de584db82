//! Who places the pods of a graph.

use std::collections::BTreeMap;

use api_types::{
    annotations,
    grove::{self, PodCliqueTemplate},
    labels,
};

const KAI: &str = "kai-scheduler";
const KAI_DEFAULT_QUEUE: &str = "dynamo";
const VOLCANO: &str = "volcano";

/// Who places the pods of a graph, unless its user names a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// The default of Grove or of the cluster.
    #[default]
    Default,
    /// The KAI scheduler, which takes pods from queues.
    Kai,
    /// Volcano.
    Volcano,
}

impl Scheduler {
    /// Queue of the KAI scheduler in which a graph with these annotations waits; `None` with another scheduler.
    pub fn kai_queue(self, graph: &BTreeMap<String, String>) -> Option<&str> {
        let queue = || given(graph, annotations::KAI_QUEUE).unwrap_or(KAI_DEFAULT_QUEUE);
        (self == Self::Kai).then(queue)
    }

    /// Annotations of the PodCliqueSet.
    pub(super) fn annotate(self, set: &mut BTreeMap<String, String>, graph: &BTreeMap<String, String>) {
        let queue = given(graph, annotations::VOLCANO_QUEUE).filter(|_| self == Self::Volcano);
        if let Some(queue) = queue {
            set.insert(grove::VOLCANO_QUEUE.to_owned(), queue.to_owned());
        }
    }

    /// Hands a clique to the scheduler, unless the user chose another one.
    pub(super) fn take(self, clique: &mut PodCliqueTemplate, graph: &BTreeMap<String, String>) {
        let name = match self {
            Self::Default => return,
            Self::Kai => KAI,
            Self::Volcano => VOLCANO,
        };
        let chosen = &mut clique.spec.pod_spec.scheduler_name;
        if chosen.as_deref().is_some_and(|chosen| !chosen.is_empty() && chosen != name) {
            return;
        }
        *chosen = Some(name.to_owned());
        if let Some(queue) = self.kai_queue(graph) {
            clique.labels.insert(labels::KAI_QUEUE.to_owned(), queue.to_owned());
        }
    }
}

fn given<'a>(graph: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    graph.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_queue_is_the_graphs_or_the_default() {
        assert_eq!(Scheduler::Kai.kai_queue(&graph(annotations::KAI_QUEUE, " team ")), Some("team"));
        assert_eq!(Scheduler::Kai.kai_queue(&graph(annotations::KAI_QUEUE, "  ")), Some("dynamo"));
        assert_eq!(Scheduler::Volcano.kai_queue(&BTreeMap::new()), None);
        let mut set = BTreeMap::new();
        Scheduler::Kai.annotate(&mut set, &graph(annotations::VOLCANO_QUEUE, "q"));
        assert!(set.is_empty(), "Volcano's queue means nothing to others");
        Scheduler::Volcano.annotate(&mut set, &graph(annotations::VOLCANO_QUEUE, "q"));
        assert_eq!(set[grove::VOLCANO_QUEUE], "q");
    }

    #[test]
    fn the_authors_scheduler_stays() {
        for (declared, after, labelled) in
            [(None, "kai-scheduler", true), (Some("kai-scheduler"), "kai-scheduler", true), (Some("own"), "own", false)]
        {
            let mut clique = PodCliqueTemplate::default();
            clique.spec.pod_spec.scheduler_name = declared.map(str::to_owned);
            Scheduler::Kai.take(&mut clique, &BTreeMap::new());
            assert_eq!(clique.spec.pod_spec.scheduler_name.as_deref(), Some(after));
            assert_eq!(clique.labels.contains_key(labels::KAI_QUEUE), labelled);
        }
    }
}
