//! What has to happen before the process may be called ready.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Named gates; the process is ready when there is at least one and all are open. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    gates: Arc<Mutex<Vec<State>>>,
    changes: Arc<watch::Sender<u64>>,
}

/// One gate. Closed until opened; it can close again.
#[derive(Debug, Clone)]
pub struct Gate {
    readiness: Readiness,
    index: usize,
}

#[derive(Debug)]
struct State {
    name: String,
    open: bool,
}

impl Readiness {
    /// Adds a closed gate. `name` says what is waited for, for example `Deployment caches`. Two of one name are two
    /// gates.
    #[must_use]
    pub fn gate(&self, name: &str) -> Gate {
        let mut gates = self.gates();
        gates.push(State { name: name.to_owned(), open: false });
        Gate { readiness: self.clone(), index: gates.len() - 1 }
    }

    /// The gates that are closed, by name; `None` if the process is ready.
    #[must_use]
    pub fn missing(&self) -> Option<Vec<String>> {
        let gates = self.gates();
        let mut closed: Vec<String> = gates.iter().filter(|gate| !gate.open).map(|gate| gate.name.clone()).collect();
        closed.sort();
        (gates.is_empty() || !closed.is_empty()).then_some(closed)
    }

    /// Returns once the process is ready.
    pub(crate) async fn ready(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.changes.subscribe().wait_for(|_| self.missing().is_none()).await;
    }

    fn gates(&self) -> MutexGuard<'_, Vec<State>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// It has happened.
    pub fn open(&self) {
        self.set(true);
    }

    /// It no longer holds.
    pub fn close(&self) {
        self.set(false);
    }

    fn set(&self, open: bool) {
        let mut gates = self.readiness.gates();
        let changed = gates.get_mut(self.index).is_some_and(|gate| std::mem::replace(&mut gate.open, open) != open);
        drop(gates);
        if changed {
            self.readiness.changes.send_modify(|number| *number += 1);
        }
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

    #[test]
    fn no_gate_hides_another_of_its_name() {
        let readiness = Readiness::default();
        let (one, other) = (readiness.gate("a"), readiness.gate("a"));
        other.open();
        assert_eq!(readiness.missing(), Some(vec!["a".to_owned()]), "the first is closed");
        one.open();
        assert_eq!(readiness.missing(), None);
    }
}
