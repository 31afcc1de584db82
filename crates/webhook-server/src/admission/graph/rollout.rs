//! The annotations by which users control the rollout of a graph's workers.

use api_types::{
    annotations::DEPLOYMENT_STRATEGY,
    rollout_control::{KEYS, rollout_control},
};

use super::super::{field::Findings, view::Graph};

/// Value of [`DEPLOYMENT_STRATEGY`].
const RECREATE: &str = "Recreate";

pub(super) fn check(graph: &Graph<'_>, on_grove: bool, out: &mut Findings) {
    let text = |key: &str| Some((key.to_owned(), graph.annotation(key).given()?.to_owned()));
    let annotations = KEYS.into_iter().filter_map(text).collect();
    let components = graph.components();
    let recreated = components.iter().filter(|c| c.is_worker() && c.annotation(DEPLOYMENT_STRATEGY).text() == RECREATE);
    let recreated: Vec<_> = recreated.map(|component| component.name()).collect();
    for violation in rollout_control(&annotations, on_grove, &recreated).err().into_iter().flatten() {
        let at = graph.annotation(violation.path);
        out.add_at(&at, violation);
    }
}
