//! What has to happen before the process may be called ready.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Named gates; the process is ready when there is at least one and all are open. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    gates: Arc<Mutex<BTreeMap<String, bool>>>,
}

/// One gate. Closed until opened; it can close again.
#[derive(Debug, Clone)]
pub struct Gate {
    readiness: Readiness,
    name: String,
}

impl Readiness {
    /// Adds a closed gate. `name` says what is waited for, for example `Deployment caches`.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        self.gates().insert(name.to_owned(), false);
        Gate { readiness: self.clone(), name: name.to_owned() }
    }

    /// The gates that are closed; `None` if the process is ready.
    #[must_use]
    pub fn missing(&self) -> Option<Vec<String>> {
        let gates = self.gates();
        let closed: Vec<String> = gates.iter().filter(|(_, open)| !**open).map(|(name, _)| name.clone()).collect();
        (gates.is_empty() || !closed.is_empty()).then_some(closed)
    }

    fn gates(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// It has happened.
    pub fn open(&self) {
        self.readiness.gates().insert(self.name.clone(), true);
    }

    /// It no longer holds.
    pub fn close(&self) {
        self.readiness.gates().insert(self.name.clone(), false);
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness;

    #[test]
    fn ready_when_every_gate_is_open() {
        let readiness = Readiness::default();
        assert_eq!(readiness.missing(), Some(vec![]), "nothing has started yet");
        let (a, b) = (readiness.gate("a"), readiness.gate("b"));
        a.open();
        assert_eq!(readiness.missing(), Some(vec!["b".to_owned()]));
        b.open();
        assert_eq!(readiness.missing(), None);
        a.close();
        assert_eq!(readiness.missing(), Some(vec!["a".to_owned()]));
    }
}
