//! A state as a screen, or as one line.

use crate::{
    model::State,
    table::{Style, Table, one_line},
};

/// Cells of a bar.
const WIDTH: usize = 30;

/// The state as a screen: heading, components, rollout.
pub fn screen(state: &State, wide: bool, style: Style) -> String {
    let word = match state {
        State { ready: true, .. } => style.good("ready"),
        State { stalled: true, .. } => style.bad("stalled"),
        _ => style.pending(&state.state),
    };
    let mut text = format!("{} {}/{}: {word}\n", style.strong(state.kind), state.namespace, state.name);
    if !state.ready {
        text.push_str(&format!("{}\n", one_line(&state.message)));
    }
    text.push('\n');
    let (narrow, more) = (["COMPONENT", "TYPE", "READY", "UPDATED", "GPUS"], ["REVISIONS", "PODS"]);
    let more = if wide { &more[..] } else { &[] };
    let mut table = Table::new(&[&narrow[..], more, &["WAITS FOR"]].concat());
    for one in &state.components {
        let cells = [
            one.component.clone(),
            one.role.clone(),
            format!("{}/{}", one.ready, one.desired),
            one.updated.to_string(),
            one.gpus.to_string(),
        ];
        let more = [one.revisions.join(", "), one.pods.clone()];
        let more = more.into_iter().take(if wide { 2 } else { 0 });
        table.row(cells.into_iter().chain(more).chain([one.waits_for.clone()]));
    }
    text.push_str(&table.text());
    if state.rollout {
        let (updated, desired) = state.progress();
        let filled = usize::try_from(updated).unwrap_or(0) * WIDTH / usize::try_from(desired.max(1)).unwrap_or(1);
        let filled = filled.min(WIDTH);
        let bar = format!("{}{}", "#".repeat(filled), "-".repeat(WIDTH - filled));
        text.push_str(&format!("\nrollout [{bar}] {updated}/{desired} workers are of the target revision\n"));
    }
    text
}

/// The state in one line, for logs.
pub fn line(state: &State) -> String {
    let word = match state {
        State { ready: true, .. } => "ready",
        State { stalled: true, .. } => "stalled",
        _ => &state.state,
    };
    let components = state.components.iter().map(|one| format!("{} {}/{}", one.component, one.ready, one.desired));
    let (updated, desired) = state.progress();
    let rollout = if state.rollout { format!("; rollout {updated}/{desired}") } else { String::new() };
    let message = if state.stalled { format!("; {}", state.message) } else { String::new() };
    one_line(&format!(
        "{}/{} {word}: {}{rollout}{message}",
        state.namespace,
        state.name,
        components.collect::<Vec<_>>().join(", ")
    ))
}
