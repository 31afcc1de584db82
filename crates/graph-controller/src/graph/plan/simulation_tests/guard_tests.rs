//! Capacity and workers that the simulation must not lose with any write.

use api_types::names::RevisionSuffix;

use super::*;

/// The least common multiple of all replica counts: every share is a whole number of these parts.
const WHOLE: i32 = 840;

/// Capacity and workers that must not be lost in one pass.
pub(super) struct Guard {
    /// The components that count: of a target that is not that of the spec, those that it has.
    counted: Vec<Desired>,
    capacity: i32,
    each: Vec<i32>,
    pub(super) ceilings: Vec<i32>,
}

impl Guard {
    pub(super) fn of(system: &System, target: Option<&RevisionSuffix>, is_behind: bool) -> Self {
        let has_it = |desired: &&Desired| system.serving(desired.name).contains_key(&target.cloned());
        let counted: Vec<_> = system.desired.iter().filter(|desired| !is_behind || has_it(desired)).cloned().collect();
        let (graph, each) = floors(&counted);
        let (capacity, waste) = system.capacity(&counted, target);
        let each = counted.iter().zip(each).map(|(desired, floor)| floor.min(total(&system.serving(desired.name))));
        let each = each.collect();
        let ceilings = counted.iter().map(|desired| {
            let ceiling = desired.replicas + desired.steps.bounds(desired.replicas).0;
            ceiling.max(system.requested(desired.name))
        });
        let ceilings = ceilings.collect();
        Self { capacity: capacity.min(graph) - waste, each, ceilings, counted }
    }

    pub(super) fn check(&self, system: &System, target: Option<&RevisionSuffix>) {
        let (capacity, _) = system.capacity(&self.counted, target);
        assert!(capacity >= self.capacity, "the graph serves {capacity} of {WHOLE}, and must {}", self.capacity);
        for (desired, floor) in self.counted.iter().zip(&self.each) {
            let serving = total(&system.serving(desired.name));
            assert!(serving >= *floor, "{serving} of {desired:?} serve, and {floor} must");
        }
        for (desired, ceiling) in self.counted.iter().zip(&self.ceilings) {
            let requested = system.requested(desired.name);
            assert!(requested <= *ceiling, "{requested} of {desired:?} are requested, and {ceiling} may");
        }
    }
}

impl System {
    /// Serving workers of a component, by revision. A revision without the component has none.
    pub(super) fn serving(&self, name: &str) -> BTreeMap<Option<RevisionSuffix>, i32> {
        let of_component = self.components.iter().filter(|d| d.spec.component.name == name);
        of_component.map(|d| (revision::suffix_of(d), serving(d))).collect()
    }

    /// Returns the joint capacity of all revisions, and the part of it that may be lost to fragments: each old revision
    /// but one may waste less than one worker of a component.
    fn capacity(&self, counted: &[Desired], target: Option<&RevisionSuffix>) -> (i32, i32) {
        let counted: Vec<_> = counted.iter().filter(|desired| desired.replicas > 0).collect();
        let by_component: Vec<_> = counted.iter().map(|desired| (desired, self.serving(desired.name))).collect();
        let revisions: BTreeSet<_> = by_component.iter().flat_map(|(_, serving)| serving.keys().cloned()).collect();
        let share = |revision: &Option<RevisionSuffix>| {
            let is_target = revision.as_ref() == target;
            let has_it = |serving: &BTreeMap<Option<RevisionSuffix>, i32>| {
                is_target || serving.keys().any(|r| r.as_ref() != target)
            };
            let parts = by_component.iter().filter(|(_, serving)| has_it(serving)).map(|(desired, serving)| {
                let serving = serving.get(revision).copied().unwrap_or(0);
                let useful = if is_target { serving.min(desired.replicas) } else { serving };
                useful * WHOLE / desired.replicas
            });
            parts.min().unwrap_or(0)
        };
        let shares: Vec<_> = revisions.iter().map(|r| (r.as_ref() == target, share(r))).collect();
        let old = shares.iter().filter(|(is_target, share)| !is_target && *share > 0).count();
        let worker = counted.iter().map(|desired| WHOLE / desired.replicas).max().unwrap_or(0);
        let waste = worker * i32::try_from(old.saturating_sub(1)).unwrap();
        (shares.iter().map(|(_, share)| share).sum(), waste)
    }

    /// Requested workers of a component, of all revisions.
    pub(super) fn requested(&self, name: &str) -> i32 {
        let of_component = self.components.iter().filter(|d| d.spec.component.name == name);
        of_component.map(|d| d.spec.component.desired_replicas()).sum()
    }
}

/// Returns the least capacity that the graph must serve, and the serving workers that each component must have.
fn floors(all: &[Desired]) -> (i32, Vec<i32>) {
    let counted = all.iter().filter(|desired| desired.replicas > 0);
    let lost = counted.map(|desired| desired.steps.bounds(desired.replicas).1 * WHOLE / desired.replicas);
    let each = all.iter().map(|desired| desired.replicas - desired.steps.bounds(desired.replicas).1);
    (WHOLE - lost.max().unwrap_or(WHOLE), each.collect())
}

pub(super) fn total(serving: &BTreeMap<Option<RevisionSuffix>, i32>) -> i32 {
    serving.values().sum()
}
