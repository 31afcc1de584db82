//! Writes what Grove runs.

use api_types::grove::PodCliqueSet;

use super::writer::{Writer, Written};
use crate::graph::{
    model::{Child, GrovePlan, Observed, Scale, Tally},
    observe::Caches,
};

/// Writes the PodCliqueSet, then asks Grove for other replicas. Returns the set as it is now. A set that is new is
/// written only if `accounts_exist`.
pub(super) async fn apply(
    writer: Writer<'_>,
    caches: &Caches,
    observed: &Observed,
    plan: &GrovePlan,
    accounts_exist: bool,
) -> (Option<PodCliqueSet>, Tally) {
    let (mut tally, live) = (Tally::default(), observed.grove.set());
    let writes = !plan.held_back && (accounts_exist || live.is_some());
    let written = match writes {
        true => tally.take(writer.write(&caches.grove.sets, &plan.set).await),
        false => None,
    };
    let set = match written.map(Written::typed) {
        Some(Written::As(set)) => Some(*set),
        Some(Written::Waits(why)) => {
            tally.waiting.push(why);
            return (live.cloned(), tally);
        }
        Some(Written::Not) | None => live.cloned(),
    };
    // What Grove made of the set before is scaled even if the set cannot be changed.
    for Scale { child, from, to } in &plan.scale {
        let scaled = match child {
            Child::PodClique(clique) => writer.applier.scale(clique.as_ref(), writer.uid(), *from, *to).await,
            Child::PodCliqueScalingGroup(group) => writer.applier.scale(group.as_ref(), writer.uid(), *from, *to).await,
        };
        tally.take(scaled);
    }
    (set, tally)
}
