//! Values by the uids of objects.

use std::collections::{HashMap, HashSet};

/// Number of values below which none is evicted.
const FEW: usize = 64;

/// Values by the uids of objects. Those of deleted objects are evicted when there are twice as many values as after the
/// last eviction: reading all objects with each new value would take time by the square of their number.
#[derive(Debug)]
pub struct UidMap<T> {
    values: HashMap<String, T>,
    /// Number of values at which those of deleted objects are evicted.
    full: usize,
}

impl<T> Default for UidMap<T> {
    fn default() -> Self {
        Self { values: HashMap::new(), full: FEW }
    }
}

impl<T> UidMap<T> {
    /// The value of an object.
    pub fn get(&self, uid: &str) -> Option<&T> {
        self.values.get(uid)
    }

    /// The value of an object, which is made if there is none. `present` returns the uids of all objects that exist.
    pub fn get_or_insert_with(
        &mut self,
        uid: &str,
        make: impl FnOnce() -> T,
        present: impl FnOnce() -> HashSet<String>,
    ) -> &mut T {
        if self.values.len() >= self.full && !self.values.contains_key(uid) {
            let present = present();
            self.values.retain(|uid, _| present.contains(uid));
            self.full = FEW.max(2 * self.values.len());
        }
        self.values.entry(uid.to_owned()).or_insert_with(make)
    }

    /// Removes the value of an object.
    pub fn remove(&mut self, uid: &str) {
        self.values.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uids(numbers: std::ops::Range<usize>) -> impl Iterator<Item = String> {
        numbers.map(|number| format!("uid-{number}"))
    }

    /// Found defect: each component that was taken over cost a read of all components.
    #[test]
    fn all_objects_are_read_a_few_times_for_ten_thousand() {
        let (mut map, mut reads) = (UidMap::default(), 0);
        for uid in uids(0..10_000) {
            map.get_or_insert_with(
                &uid,
                || (),
                || {
                    reads += 1;
                    uids(0..10_000).collect()
                },
            );
        }
        assert_eq!(map.values.len(), 10_000);
        assert_eq!(reads, 8, "64, 128, … 8,192");
    }

    #[test]
    fn deleted_objects_are_evicted() {
        let mut map = UidMap::default();
        for (number, uid) in uids(0..1_000).enumerate() {
            map.get_or_insert_with(&uid, || number, || uids(number.saturating_sub(10)..1_000).collect());
        }
        assert!(map.values.len() < FEW + 11, "{} are left of the last 10", map.values.len());
        assert_eq!(map.get("uid-999"), Some(&999));
        map.remove("uid-999");
        assert_eq!(map.get("uid-999"), None);
    }

    #[test]
    fn a_known_value_is_not_made_again() {
        let mut map = UidMap::default();
        *map.get_or_insert_with("uid", || 1, HashSet::new) += 1;
        assert_eq!(*map.get_or_insert_with("uid", || 1, HashSet::new), 2);
    }
}
