//! Unused places in NATS and etcd. Pure: time is an argument.
//!
//! A place is in use while a graph, a component or a pod uses it. Pods count, because a graph that was deleted with
//! `--cascade=orphan` goes on serving, and because workers that end still answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api_types::{labels, names, v1beta1::ComponentType};

use crate::graph::observe::component_of;

/// Time between the last use of a place and its cleaning: a program that ends may still write.
const GRACE: Duration = Duration::from_secs(15);
/// Pause after a failure before the retry.
const RETRY: Duration = Duration::from_secs(30);
/// Time for which cleaning is retried. Remains are then removed with their lease, or stay.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Something of which the runtime keeps keys or streams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuntimePlace {
    /// A Dynamo namespace, under which workers of one revision, or everything of a graph, register.
    Namespace(String),
    /// A component in a namespace that others still use.
    Component {
        /// The namespace.
        namespace: String,
        /// The component.
        name: String,
    },
}

/// Returns the places where an object with these labels registers, or may register. `namespace` is the Kubernetes
/// namespace of the object.
///
/// Pods get the namespace of their graph, or of their component if it has no graph. Theirs may be labelled with
/// any other, which other programs may use: of that one, they are a component and no more.
pub fn places_of(namespace: &str, labels: &BTreeMap<String, String>) -> BTreeSet<RuntimePlace> {
    let revision = labels.get(labels::WORKER_HASH).map(String::as_str);
    let graph = labels.get(labels::GRAPH).map(String::as_str).filter(|graph| !graph.is_empty());
    let own = graph.or_else(|| component_of(labels)).map(|name| names::dynamo_namespace(namespace, name, false));
    let own = own.map(|own| names::runtime_namespace(&own, revision)).filter(|own| is_name(own));
    let labelled = labels.get(labels::DYNAMO_NAMESPACE).filter(|labelled| !labelled.is_empty());
    let labelled = labelled.map(|labelled| names::runtime_namespace(labelled, revision));
    let components = components_of(labels);
    let components = own.iter().chain(&labelled).flat_map(|namespace| {
        components.iter().map(|name| RuntimePlace::Component { namespace: namespace.clone(), name: name.clone() })
    });
    components.chain(own.clone().map(RuntimePlace::Namespace)).collect()
}

/// Whether a Dynamo namespace may be that of an object of Kubernetes. Labels take capitals, underscores and dots, too,
/// which NATS does not distinguish from other names.
fn is_name(namespace: &str) -> bool {
    namespace.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The names that an object's pods may have as components. Programs of the legacy API are called like their service;
/// those after them like the type that `DYN_COMPONENT` says, and engines by what they do, which is theirs to say. So
/// two components of one type share a name, which is in use as long as one of them is.
fn components_of(labels: &BTreeMap<String, String>) -> BTreeSet<String> {
    let text = |key: &str| labels.get(key).filter(|text| !text.is_empty());
    let (name, type_) = (text(labels::COMPONENT), text(labels::COMPONENT_TYPE));
    let by_engine: &[&str] = match type_.and_then(|name| ComponentType::named(name)) {
        Some(ComponentType::Worker) => &["backend", "prefill", "encode"],
        Some(ComponentType::Decode) => &["backend"],
        _ => &[],
    };
    let given = name.into_iter().chain(type_).chain(text(labels::SUB_COMPONENT_TYPE)).cloned();
    let by_engine = by_engine.iter().map(|name| (*name).to_owned());
    given.chain(name.map(|name| name.to_lowercase())).chain(by_engine).collect()
}

/// A place that is to be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    since: Duration,
    next: Duration,
}

impl Due {
    fn from(now: Duration) -> Self {
        Self { since: now, next: now + GRACE }
    }
}

/// Places that were in use, and places that are to be cleaned. Times count from any fixed moment.
#[derive(Debug, Default)]
pub struct Leftovers {
    known: BTreeSet<RuntimePlace>,
    due: BTreeMap<RuntimePlace, Due>,
}

impl Leftovers {
    /// Takes in what is in use now, and returns what is to be cleaned now.
    pub fn see(&mut self, in_use: BTreeSet<RuntimePlace>, now: Duration) -> Vec<RuntimePlace> {
        for place in self.known.difference(&in_use) {
            self.due.insert(place.clone(), Due::from(now));
        }
        // One that is in use again, or goes with its whole namespace, has nothing of its own to clean.
        let namespaces: BTreeSet<RuntimePlace> =
            self.due.keys().filter(|p| matches!(p, RuntimePlace::Namespace(_))).cloned().collect();
        self.due.retain(|place, _| match place {
            RuntimePlace::Component { namespace, .. }
                if namespaces.contains(&RuntimePlace::Namespace(namespace.clone())) =>
            {
                false
            }
            place => !in_use.contains(place),
        });
        self.known = in_use;
        self.due(now)
    }

    /// Returns what is to be cleaned now, if nothing else is in use than before.
    pub fn due(&mut self, now: Duration) -> Vec<RuntimePlace> {
        // A namespace is not cleaned while a program may be a component of it.
        let namespaces = self.known.iter().filter_map(|place| match place {
            RuntimePlace::Component { namespace, .. } => Some(namespace),
            RuntimePlace::Namespace(_) => None,
        });
        let components: BTreeSet<&String> = namespaces.collect();
        for (place, due) in &mut self.due {
            if matches!(place, RuntimePlace::Namespace(namespace) if components.contains(namespace)) {
                *due = Due::from(now);
            }
        }
        self.due.iter().filter(|(_, due)| due.next <= now).map(|(place, _)| place.clone()).collect()
    }

    /// A place is clean.
    pub fn cleaned(&mut self, place: &RuntimePlace) {
        self.due.remove(place);
    }

    /// A place could not be cleaned. Returns whether that is tried again.
    pub fn failed(&mut self, place: &RuntimePlace, now: Duration) -> bool {
        let Some(due) = self.due.get_mut(place) else { return false };
        due.next = now + RETRY;
        if now.saturating_sub(due.since) < TIMEOUT {
            return true;
        }
        self.due.remove(place);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str) -> RuntimePlace {
        RuntimePlace::Namespace(name.to_owned())
    }

    fn component(name: &str) -> RuntimePlace {
        RuntimePlace::Component { namespace: "a".to_owned(), name: name.to_owned() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns the places where an object of the namespace `team` with these labels registers.
    fn places(labels: &[(&str, &str)]) -> BTreeSet<RuntimePlace> {
        places_of("team", &labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    fn labelled(name: &str, type_: &str) -> BTreeSet<RuntimePlace> {
        places(&[(labels::DYNAMO_NAMESPACE, "a"), (labels::COMPONENT, name), (labels::COMPONENT_TYPE, type_)])
    }

    fn namespaces(labels: &[(&str, &str)]) -> Vec<RuntimePlace> {
        places(labels).into_iter().filter(|place| matches!(place, RuntimePlace::Namespace(_))).collect()
    }

    /// Pods get their type as the name to register under, and engines have names of their own.
    #[test]
    fn a_component_registers_by_what_it_does_and_by_its_name() {
        let names = |name: &str, type_: &str| -> Vec<String> {
            let component = |place| match place {
                RuntimePlace::Component { name, .. } => Some(name),
                RuntimePlace::Namespace(_) => None,
            };
            labelled(name, type_).into_iter().filter_map(component).collect()
        };
        assert_eq!(names("VllmDecode", "decode"), ["VllmDecode", "backend", "decode", "vllmdecode"]);
        assert_eq!(names("P", "prefill"), ["P", "p", "prefill"]);
        assert_eq!(names("w", "worker"), ["backend", "encode", "prefill", "w", "worker"]);
        assert_eq!(names("Frontend", "frontend"), ["Frontend", "frontend"]);
        assert!(places(&[]).is_empty());
    }

    /// The namespace in a label may be that of a graph that this operator does not observe.
    #[test]
    fn pods_use_the_namespace_in_their_environment_and_not_that_of_their_label() {
        let label = (labels::DYNAMO_NAMESPACE, "inference");
        let (set, revision) = ((labels::LEADER_WORKER_SET, "x-0"), (labels::WORKER_HASH, "0badcafe"));
        let of = |more: &[(&str, &str)]| namespaces(&[&[label], more].concat());
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[(labels::SELECTOR, "x")]), [namespace("team-x")]);
        assert_eq!(of(&[set]), [namespace("team-x")], "these pods have no other label of their component");
        assert_eq!(of(&[set, revision]), [namespace("team-x-0badcafe")]);
        assert_eq!(of(&[(labels::SELECTOR, "chat-x"), (labels::GRAPH, "chat")]), [namespace("team-chat")]);
        assert_eq!(of(&[set, revision, (labels::GRAPH, "chat.v1")]), [namespace("team-chat-v1-0badcafe")]);
        let of_set = places(&[label, set, (labels::COMPONENT, "w")]);
        for namespace in ["inference", "team-x"] {
            let component = RuntimePlace::Component { namespace: namespace.to_owned(), name: "w".to_owned() };
            assert!(of_set.contains(&component), "{namespace}: its keys in etcd go with it");
        }
    }

    /// A pod that was deleted took the streams of another tenant's graph along: NATS does not distinguish
    /// capitals, underscores and dots.
    #[test]
    fn a_label_that_names_no_object_uses_no_namespace() {
        for graph in ["A-llm", "a_llm", "Chat"] {
            assert_eq!(namespaces(&[(labels::GRAPH, graph), (labels::COMPONENT_TYPE, "worker")]), [], "{graph}");
        }
        assert_eq!(namespaces(&[(labels::GRAPH, "a"), (labels::WORKER_HASH, "0BADCAFE")]), []);
    }

    #[test]
    fn of_a_namespace_that_only_a_label_names_the_component_is_cleaned_alone() {
        let label = [(labels::DYNAMO_NAMESPACE, "a"), (labels::SELECTOR, "w"), (labels::COMPONENT, "x")];
        let mut leftovers = Leftovers::default();
        leftovers.see(places(&label), at(0));
        leftovers.see(BTreeSet::new(), at(1));
        assert_eq!(leftovers.see(BTreeSet::new(), at(20)), [namespace("team-w"), component("x")]);
    }

    #[test]
    fn the_namespace_of_a_graph_stays_while_pods_of_that_name_live() {
        let set = places(&[(labels::DYNAMO_NAMESPACE, "inference"), (labels::LEADER_WORKER_SET, "chat-0")]);
        let mut leftovers = Leftovers::default();
        leftovers.see(set.iter().cloned().chain([namespace("team-chat")]).collect(), at(0));
        leftovers.see(set.clone(), at(1));
        assert!(leftovers.see(set, at(60)).is_empty());
    }

    #[test]
    fn a_namespace_is_cleaned_only_when_no_pod_is_labelled_with_it() {
        let mut leftovers = Leftovers::default();
        leftovers.see([namespace("a"), component("x")].into(), at(0));
        assert!(leftovers.see([component("x")].into(), at(100)).is_empty());
        assert!(leftovers.see(BTreeSet::new(), at(101)).is_empty(), "what ends may still write");
        assert_eq!(leftovers.see(BTreeSet::new(), at(115)), [namespace("a")]);
    }

    #[test]
    fn what_two_components_share_goes_with_the_second() {
        let mut leftovers = Leftovers::default();
        let (x, y) = (labelled("x", "decode"), labelled("y", "decode"));
        leftovers.see(x.union(&y).cloned().collect(), at(0));
        leftovers.see(y.clone(), at(1));
        assert_eq!(leftovers.see(y, at(20)), [component("x")]);
    }

    #[test]
    fn only_what_was_in_use_and_is_no_more_is_cleaned() {
        let mut leftovers = Leftovers::default();
        assert!(leftovers.see([namespace("a"), namespace("b")].into(), at(0)).is_empty());
        assert!(leftovers.see([namespace("b")].into(), at(10)).is_empty(), "what ends may still write");
        assert_eq!(leftovers.see([namespace("b")].into(), at(25)), [namespace("a")]);
        leftovers.cleaned(&namespace("a"));
        assert!(leftovers.see([namespace("b")].into(), at(60)).is_empty());
    }

    #[test]
    fn what_is_in_use_again_stays() {
        let mut leftovers = Leftovers::default();
        leftovers.see([namespace("a")].into(), at(0));
        leftovers.see(BTreeSet::new(), at(10));
        assert!(leftovers.see([namespace("a")].into(), at(60)).is_empty());
    }

    #[test]
    fn a_component_goes_with_its_namespace_or_alone() {
        let mut leftovers = Leftovers::default();
        let all = || BTreeSet::from([namespace("a"), component("x"), component("y")]);
        leftovers.see(all(), at(0));
        leftovers.see([namespace("a"), component("y")].into(), at(1));
        assert_eq!(leftovers.see([namespace("a"), component("y")].into(), at(20)), [component("x")]);
        leftovers.see(BTreeSet::new(), at(21));
        assert_eq!(leftovers.see(BTreeSet::new(), at(60)), [namespace("a")]);
    }

    #[test]
    fn cleaning_is_given_up_in_the_end() {
        let mut leftovers = Leftovers::default();
        leftovers.see([namespace("a")].into(), at(0));
        leftovers.see(BTreeSet::new(), at(0));
        assert!(leftovers.failed(&namespace("a"), at(100)));
        assert!(leftovers.see(BTreeSet::new(), at(120)).is_empty());
        assert_eq!(leftovers.see(BTreeSet::new(), at(130)), [namespace("a")]);
        assert!(!leftovers.failed(&namespace("a"), at(700)));
        assert!(leftovers.see(BTreeSet::new(), at(800)).is_empty());
    }
}
