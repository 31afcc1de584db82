//! Somebody else makes the certificates and gives webhook configurations their CA; ours are the CRDs.

use super::{Decision, LOOK_AGAIN, Observed, Place, differing};
use crate::certificates::PlaceKind;
use crate::certificates::material::{Authority, Pair};

pub(super) fn decide(observed: &Observed) -> Decision {
    let stored = observed.stored.clone().unwrap_or_default();
    let has_ca = !Authority::read_all(&stored.ca).is_empty();
    let definitions = observed.places.as_ref().map(|places| {
        let definitions = places.iter().filter(|place| place.kind == PlaceKind::Definition);
        definitions.cloned().collect::<Vec<Place>>()
    });
    let inject = if has_ca { differing(definitions.as_deref().unwrap_or_default(), &stored.ca) } else { Vec::new() };
    let serve = Pair::read(&stored.certificate, &stored.key);
    let all_set = definitions.is_some_and(|places| differing(&places, &stored.ca).is_empty());
    Decision {
        trusted: serve.is_some() && all_set,
        serve,
        remember: None,
        write: None,
        inject,
        bundle: stored.ca,
        spread: Vec::new(),
        again: LOOK_AGAIN,
    }
}
