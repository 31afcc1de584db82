//! What the simulation may not lose with any write.

use super::*;

/// The least common multiple of all replica counts: every share is a whole number of these parts.
const WHOLE: i32 = 840;

/// What may not be lost in one pass.
pub(super) struct Guard {
    capacity: i32,
    each: Vec<i32>,
    pub(super) ceilings: Vec<i32>,
}

impl Guard {
    pub(super) fn of(system: &System, target: Option<&GenerationSuffix>) -> Self {
        let (graph, each) = system.floors();
        let (capacity, waste) = system.capacity(target);
        let each = system.wanted.iter().zip(each).map(|(wanted, floor)| floor.min(total(&system.serving(wanted.name))));
        let ceilings = system.wanted.iter().map(|wanted| {
            let ceiling = wanted.replicas + wanted.steps.bounds(wanted.replicas).0;
            ceiling.max(system.asked_for(wanted.name))
        });
        Self { capacity: capacity.min(graph) - waste, each: each.collect(), ceilings: ceilings.collect() }
    }

    pub(super) fn check(&self, system: &System, target: Option<&GenerationSuffix>) {
        let (capacity, _) = system.capacity(target);
        assert!(capacity >= self.capacity, "the graph serves {capacity} of {WHOLE}, and must {}", self.capacity);
        for (wanted, floor) in system.wanted.iter().zip(&self.each) {
            let serving = total(&system.serving(wanted.name));
            assert!(serving >= *floor, "{serving} of {wanted:?} serve, and {floor} must");
        }
        for (wanted, ceiling) in system.wanted.iter().zip(&self.ceilings) {
            let asked_for = system.asked_for(wanted.name);
            assert!(asked_for <= *ceiling, "{asked_for} of {wanted:?} are asked for, and {ceiling} may");
        }
    }
}

impl System {
    /// Serving workers of a component, by revision. A revision without the component has none.
    pub(super) fn serving(&self, name: &str) -> BTreeMap<Option<GenerationSuffix>, i32> {
        let of_component = self.components.iter().filter(|d| d.spec.component.name == name);
        of_component.map(|d| (generation::suffix_of(d), serving(d))).collect()
    }

    /// What all revisions can serve together, and how much of it may be lost to fragments: each old revision but one may waste
    /// less than one worker of a component.
    fn capacity(&self, target: Option<&GenerationSuffix>) -> (i32, i32) {
        let counted: Vec<_> = self.wanted.iter().filter(|wanted| wanted.replicas > 0).collect();
        let by_component: Vec<_> = counted.iter().map(|wanted| (wanted, self.serving(wanted.name))).collect();
        let revisions: BTreeSet<_> = by_component.iter().flat_map(|(_, serving)| serving.keys().cloned()).collect();
        let share = |revision: &Option<GenerationSuffix>| {
            let is_target = revision.as_ref() == target;
            let has_it = |serving: &BTreeMap<Option<GenerationSuffix>, i32>| {
                is_target || serving.keys().any(|r| r.as_ref() != target)
            };
            let parts = by_component.iter().filter(|(_, serving)| has_it(serving)).map(|(wanted, serving)| {
                let serving = serving.get(revision).copied().unwrap_or(0);
                let useful = if is_target { serving.min(wanted.replicas) } else { serving };
                useful * WHOLE / wanted.replicas
            });
            parts.min().unwrap_or(0)
        };
        let shares: Vec<_> = revisions.iter().map(|r| (r.as_ref() == target, share(r))).collect();
        let old = shares.iter().filter(|(is_target, share)| !is_target && *share > 0).count();
        let worker = counted.iter().map(|wanted| WHOLE / wanted.replicas).max().unwrap_or(0);
        let waste = worker * i32::try_from(old.saturating_sub(1)).unwrap();
        (shares.iter().map(|(_, share)| share).sum(), waste)
    }

    /// What the graph must serve at least, and the serving workers that each component must have.
    fn floors(&self) -> (i32, Vec<i32>) {
        let counted = self.wanted.iter().filter(|wanted| wanted.replicas > 0);
        let lost = counted.map(|wanted| wanted.steps.bounds(wanted.replicas).1 * WHOLE / wanted.replicas);
        let each = self.wanted.iter().map(|wanted| wanted.replicas - wanted.steps.bounds(wanted.replicas).1);
        (WHOLE - lost.max().unwrap_or(WHOLE), each.collect())
    }

    /// Workers of a component that are asked for, of all revisions.
    pub(super) fn asked_for(&self, name: &str) -> i32 {
        let of_component = self.components.iter().filter(|d| d.spec.component.name == name);
        of_component.map(|d| d.spec.component.wanted_replicas()).sum()
    }
}

pub(super) fn total(serving: &BTreeMap<Option<GenerationSuffix>, i32>) -> i32 {
    serving.values().sum()
}
