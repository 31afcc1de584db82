//! Namespaces in which the API server refused to show Secrets.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a refusal counts: rights are granted later, too.
const COUNTS: Duration = Duration::from_secs(600);

/// Namespaces in which Secrets cannot be read at the moment. A refusal says nothing about other namespaces.
#[derive(Debug, Default)]
pub struct Forbidden(Mutex<HashMap<String, Instant>>);

impl Forbidden {
    /// Records a refusal.
    pub fn mark(&self, namespace: &str, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, since| now.duration_since(*since) < COUNTS);
        all.insert(namespace.to_owned(), now);
    }

    /// Whether there was a refusal that still counts.
    pub fn is_marked(&self, namespace: &str, now: Instant) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(namespace).is_some_and(|since| now.duration_since(*since) < COUNTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One refusal anywhere switched the check off in all namespaces until the process restarted.
    #[test]
    fn a_refusal_counts_in_its_namespace_and_not_for_ever() {
        let (forbidden, now) = (Forbidden::default(), Instant::now());
        forbidden.mark("a", now);
        assert!(forbidden.is_marked("a", now + COUNTS - Duration::from_secs(1)));
        assert!(!forbidden.is_marked("b", now));
        assert!(!forbidden.is_marked("a", now + COUNTS));
        forbidden.mark("b", now + COUNTS);
        assert_eq!(forbidden.0.lock().unwrap().len(), 1, "old refusals are not kept");
    }
}
