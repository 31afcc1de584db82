//! Which places in NATS and etcd nobody uses any more. Pure: time is an argument.
//!
//! A place is in use while a graph, a component or a worker pod stands for it. Pods count, because a graph that was deleted with
//! `--cascade=orphan` goes on serving, and because workers that end still answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
