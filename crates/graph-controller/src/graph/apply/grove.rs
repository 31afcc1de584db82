//! Writes what Grove runs.

use api_types::grove::PodCliqueSet;
use controller_kit::apply::Error;

use super::writer::{Writer, Written};
use crate::graph::decide::grove::{Child, GroveDecision, Scale};
use crate::graph::observe::{Caches, Observed};

/// Writes the PodCliqueSet, then asks Grove for other replicas. Gives the set as it is now; `waiting` gets what has to go
/// first.
pub(super) async fn apply(
    writer: Writer<'_>,
    caches: &Caches,
    observed: &Observed,
    decision: &GroveDecision,
    waiting: &mut Vec<String>,
) -> Result<Option<PodCliqueSet>, Error> {
    let written = match decision.held_back {
        true => Written::Not,
        false => writer.write(&caches.grove.sets, &decision.set).await?.typed(),
    };
    let set = match written {
        Written::As(set) => Some(*set),
        Written::Not => observed.grove.set().cloned(),
        Written::Waits(why) => {
            waiting.push(why);
            return Ok(observed.grove.set().cloned());
        }
    };
    for Scale { child, from, to } in &decision.scale {
        match child {
            Child::PodClique(clique) => writer.applier.scale(clique.as_ref(), writer.uid(), *from, *to).await?,
            Child::PodCliqueScalingGroup(group) => {
                writer.applier.scale(group.as_ref(), writer.uid(), *from, *to).await?;
            }
        }
    }
    Ok(set)
}
