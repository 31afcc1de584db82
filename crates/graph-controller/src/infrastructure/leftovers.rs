//! Which places in NATS and etcd nobody uses any more. Pure: time is an argument.
//!
//! A place is in use while a graph, a component or a pod stands for it. Pods count, because a graph that was deleted with
//! `--cascade=orphan` goes on serving, and because workers that end still answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::v1beta1::ComponentType;
use api_types::{labels, names};

/// How long after a place was last in use it is cleaned: what ends may still write.
const GRACE: Duration = Duration::from_secs(15);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// How long it is tried at all. What is left after that goes with its lease, or stays.
const PATIENCE: Duration = Duration::from_secs(600);

/// Something of which the runtime keeps keys or streams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A Dynamo namespace, under which workers of one generation, or everything of a graph, register.
    Namespace(String),
    /// A component in a namespace that others still use.
    Component {
        /// The namespace.
        namespace: String,
        /// The component.
        name: String,
    },
}

/// Where an object with these labels registers, or may register. `namespace` is the one of Kubernetes that it is in.
pub fn places_of(namespace: &str, labels: &BTreeMap<String, String>) -> Vec<Place> {
    let generation = labels.get(labels::WORKER_HASH).map(String::as_str);
    // Pods that stand alone are told a namespace of their component's, whatever they are labelled with.
    let alone = labels.get(labels::SELECTOR).filter(|_| !labels.contains_key(labels::GRAPH));
    let alone = alone.map(|component| names::dynamo_namespace(namespace, component, false));
    let all: BTreeSet<String> = labels.get(labels::DYNAMO_NAMESPACE).cloned().into_iter().chain(alone).collect();
    let components = components_of(labels);
    let places = all.into_iter().flat_map(|namespace| {
        let namespace = names::runtime_namespace(&namespace, generation);
        let of_component = |name: &String| Place::Component { namespace: namespace.clone(), name: name.clone() };
        let components: Vec<Place> = components.iter().map(of_component).collect();
        components.into_iter().chain([Place::Namespace(namespace)])
    });
    places.collect()
}

/// The names that an object's pods may have as components. Programs of 2025 are called like their service; those after them like
/// the type that `DYN_COMPONENT` says, and engines by what they do, which is theirs to say. So two components of one type share a
/// name, which is in use as long as one of them is.
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

/// What was in use, and what is to be cleaned. Times count from any fixed moment.
#[derive(Debug, Default)]
pub struct Leftovers {
    known: BTreeSet<Place>,
    due: BTreeMap<Place, Due>,
}

impl Leftovers {
    /// Takes in what is in use now, and says what is to be cleaned now.
    pub fn see(&mut self, in_use: BTreeSet<Place>, now: Duration) -> Vec<Place> {
        for place in self.known.difference(&in_use) {
            self.due.insert(place.clone(), Due { since: now, next: now + GRACE });
        }
        // One that is in use again, or goes with its whole namespace, has nothing of its own to clean.
        let namespaces: BTreeSet<Place> =
            self.due.keys().filter(|p| matches!(p, Place::Namespace(_))).cloned().collect();
        self.due.retain(|place, _| match place {
            Place::Component { namespace, .. } if namespaces.contains(&Place::Namespace(namespace.clone())) => false,
            place => !in_use.contains(place),
        });
        self.known = in_use;
        self.due.iter().filter(|(_, due)| due.next <= now).map(|(place, _)| place.clone()).collect()
    }

    /// A place is clean.
    pub fn cleaned(&mut self, place: &Place) {
        self.due.remove(place);
    }

    /// A place could not be cleaned. Returns whether that is tried again.
    pub fn failed(&mut self, place: &Place, now: Duration) -> bool {
        let Some(due) = self.due.get_mut(place) else { return false };
        due.next = now + RETRY;
        if now.saturating_sub(due.since) < PATIENCE {
            return true;
        }
        self.due.remove(place);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str) -> Place {
        Place::Namespace(name.to_owned())
    }

    fn component(name: &str) -> Place {
        Place::Component { namespace: "a".to_owned(), name: name.to_owned() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn labelled(name: &str, type_: &str, generation: Option<&str>) -> Vec<Place> {
        let mut all = BTreeMap::from([
            (labels::DYNAMO_NAMESPACE.to_owned(), "a".to_owned()),
            (labels::COMPONENT.to_owned(), name.to_owned()),
            (labels::COMPONENT_TYPE.to_owned(), type_.to_owned()),
        ]);
        all.extend(generation.map(|suffix| (labels::WORKER_HASH.to_owned(), suffix.to_owned())));
        places_of("team", &all)
    }

    /// Pods are told their type as the name to register under, and engines have names of their own.
    #[test]
    fn a_component_registers_by_what_it_does_and_by_its_name() {
        let names = |name: &str, type_: &str| -> Vec<String> {
            let component = |place| match place {
                Place::Component { name, .. } => Some(name),
                Place::Namespace(_) => None,
            };
            labelled(name, type_, None).into_iter().filter_map(component).collect()
        };
        assert_eq!(names("VllmDecode", "decode"), ["VllmDecode", "backend", "decode", "vllmdecode"]);
        assert_eq!(names("P", "prefill"), ["P", "p", "prefill"]);
        assert_eq!(names("w", "worker"), ["backend", "encode", "prefill", "w", "worker"]);
        assert_eq!(names("Frontend", "frontend"), ["Frontend", "frontend"]);
        assert!(labelled("w", "worker", Some("0badcafe")).contains(&namespace("a-0badcafe")));
        assert_eq!(places_of("team", &BTreeMap::new()), []);
        let alone = [(labels::SELECTOR, "x"), (labels::DYNAMO_NAMESPACE, "inference")];
        let alone = alone.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(places_of("team", &alone), [namespace("inference"), namespace("team-x")]);
    }

    #[test]
    fn what_two_components_share_goes_with_the_second() {
        let mut leftovers = Leftovers::default();
        let (x, y) = (labelled("x", "decode", None), labelled("y", "decode", None));
        let rest: BTreeSet<Place> = y.iter().cloned().collect();
        leftovers.see(x.into_iter().chain(y).collect(), at(0));
        leftovers.see(rest.clone(), at(1));
        assert_eq!(leftovers.see(rest, at(20)), [component("x")]);
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
