//! Own writes that the caches do not show yet, and differences that the API server insists on.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::{Difference, plan::fingerprint};
use crate::{
    request::{CORRECTIONS_WINDOW, MAX_CORRECTIONS, ObjectId},
    store::{CacheView, Key, Shown},
};

/// A write that no cache has shown after this long is taken as lost; the next plan then rests on the cache as it
/// is. That is safe: creation looks again, and updates and deletions carry the uid.
pub(super) const EXPIRY: Duration = Duration::from_secs(5);

/// Everything remembered, by uid of the reconciled object.
#[derive(Debug, Default)]
pub(super) struct WriteMemory {
    parents: HashMap<String, Parent>,
}

#[derive(Debug, Default)]
struct Parent {
    writes: HashMap<GroupKind, RememberedWrite>,
    removals: HashMap<String, RememberedRemoval>,
    /// Fingerprints of what we applied and of how the live object still differed from it afterwards.
    residuals: HashMap<ObjectId, String>,
    corrections: HashMap<ObjectId, Corrections>,
    /// Since when a status has been delayed.
    held_since: Option<Instant>,
    /// The marks of a predecessor on objects, by uid, whose fields are ours by now.
    inherited: HashMap<String, String>,
}

type GroupKind = (String, String);

#[derive(Debug)]
struct RememberedWrite {
    version: u64,
    at: Instant,
}

#[derive(Debug)]
struct RememberedRemoval {
    kind: GroupKind,
    key: Key,
    /// As soon as the cache shows this, it has seen the removal.
    until: Shown,
    at: Instant,
}

/// Corrections of drift of one object.
#[derive(Debug)]
struct Corrections {
    since: Instant,
    count: u32,
}

impl WriteMemory {
    /// A write of an object of this kind came back with this resourceVersion.
    pub(super) fn wrote(&mut self, parent: &str, id: &ObjectId, version: u64, at: Instant) {
        let writes = &mut self.parents.entry(parent.to_owned()).or_default().writes;
        let entry = writes.entry((id.group.clone(), id.kind.clone())).or_insert(RememberedWrite { version, at });
        if version >= entry.version {
            *entry = RememberedWrite { version, at };
        }
    }

    /// We deleted this object, or took its last finalizer off: as soon as the cache shows this, it has seen the removal.
    pub(super) fn wait_until(&mut self, until: Shown, parent: &str, id: &ObjectId, uid: &str, at: Instant) {
        let (kind, key) = ((id.group.clone(), id.kind.clone()), Key::new(&id.namespace, &id.name));
        let removal = RememberedRemoval { kind, key, until, at };
        self.parents.entry(parent.to_owned()).or_default().removals.insert(uid.to_owned(), removal);
    }

    /// Returns the maximum wait until the caches show what we wrote for this parent; `None` if they do.
    ///
    /// Resource versions of one kind only grow and a watch delivers them in order, so a cache that has seen a version
    /// at least as new as our write has seen the write.
    pub(super) fn stale(&mut self, parent: &str, caches: &[&dyn CacheView], now: Instant) -> Option<Duration> {
        let memory = self.parents.get_mut(parent)?;
        // One kind may be watched under several selectors. What one of them has passed, the others have nearly, too.
        let caches_of = |kind: &GroupKind| {
            let kind = kind.clone();
            caches.iter().filter(move |cache| {
                let (group, name) = cache.group_kind();
                group == kind.0 && name == kind.1
            })
        };
        let open = |at: Instant| (at + EXPIRY).saturating_duration_since(now);
        memory.writes.retain(|kind, written| {
            let newest = caches_of(kind).map(|cache| cache.latest()).max();
            !open(written.at).is_zero() && newest.is_some_and(|newest| newest < written.version)
        });
        memory.removals.retain(|uid, removal| {
            !open(removal.at).is_zero()
                && caches_of(&removal.kind).any(|cache| cache.shows(&removal.key, uid) > removal.until)
        });
        let writes = memory.writes.values().map(|written| open(written.at));
        let removals = memory.removals.values().map(|removal| open(removal.at));
        writes.chain(removals).max()
    }

    /// Remembers how the live object still differs right after we applied `desired`.
    pub(super) fn record_residual(&mut self, parent: &str, id: &ObjectId, desired: &str, left: &[Difference]) {
        let residuals = &mut self.parents.entry(parent.to_owned()).or_default().residuals;
        if left.is_empty() {
            residuals.remove(id);
        } else {
            residuals.insert(id.clone(), residue(desired, left));
        }
    }

    /// True if the API server left exactly these differences the last time we applied the same: applying it again is
    /// useless.
    pub(super) fn is_residual(&self, parent: &str, id: &ObjectId, desired: &str, left: &[Difference]) -> bool {
        let known = self.parents.get(parent).and_then(|memory| memory.residuals.get(id));
        !left.is_empty() && known.is_some_and(|known| *known == residue(desired, left))
    }

    /// Counts a correction of drift. False if there were too many within the window.
    pub(super) fn may_correct(&mut self, parent: &str, id: &ObjectId, now: Instant) -> bool {
        let corrections = &mut self.parents.entry(parent.to_owned()).or_default().corrections;
        corrections.retain(|_, past| now.saturating_duration_since(past.since) < CORRECTIONS_WINDOW);
        let past = corrections.entry(id.clone()).or_insert(Corrections { since: now, count: 0 });
        let may = past.count < MAX_CORRECTIONS;
        past.count += u32::from(may);
        may
    }

    /// Whatever the predecessor that left these marks set on the object with this uid, is ours.
    pub(super) fn inherited(&mut self, parent: &str, uid: &str, marks: &str) {
        let inherited = &mut self.parents.entry(parent.to_owned()).or_default().inherited;
        inherited.insert(uid.to_owned(), marks.to_owned());
    }

    /// True if that was said before. Other marks mean that the predecessor was at work again.
    pub(super) fn has_inherited(&self, parent: &str, uid: &str, marks: &str) -> bool {
        self.parents.get(parent).and_then(|memory| memory.inherited.get(uid)).is_some_and(|known| known == marks)
    }

    /// For how long a status of this parent has been delayed, from now on if none is.
    pub(super) fn held_back(&mut self, parent: &str, now: Instant) -> Duration {
        let since = self.parents.entry(parent.to_owned()).or_default().held_since.get_or_insert(now);
        now.saturating_duration_since(*since)
    }

    /// The parent's status is what it should be.
    pub(super) fn status_is_current(&mut self, parent: &str) {
        if let Some(memory) = self.parents.get_mut(parent) {
            memory.held_since = None;
        }
    }

    /// The parent is gone.
    pub(super) fn forget(&mut self, parent: &str) {
        self.parents.remove(parent);
    }
}

fn residue(desired: &str, left: &[Difference]) -> String {
    let left: Vec<_> = left.iter().map(|d| (&d.path, &d.live)).collect();
    fingerprint(&serde_json::json!([desired, left]))
}

#[cfg(test)]
mod tests;
