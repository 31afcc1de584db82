//! A prediction for people.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use serde_json::Value;
use status_view::{Style, Table, one_line};

use super::prediction::{ObjectChange, Prediction, RevisionNames, replaced};
use crate::preview::FieldChange;

/// Longest value of a field that is shown whole.
const LONGEST: usize = 100;

/// Most lines of pods, and most steps.
const MOST: usize = 40;

impl Prediction {
    /// The prediction as text.
    pub fn text(&self, style: Style) -> String {
        let mut out = String::new();
        self.write(style, &mut out).map_or_else(|_| String::new(), |()| out)
    }

    fn write(&self, style: Style, out: &mut String) -> std::fmt::Result {
        let title = format!("Graph {}/{}", self.namespace, self.graph);
        writeln!(out, "{}, by the operator's version {}", style.strong(&title), self.operator_version)?;
        for note in &self.notes {
            writeln!(out, "  {} {}", style.pending("note:"), one_line(note))?;
        }
        for warning in &self.warnings {
            writeln!(out, "  {} {}", style.pending("warning:"), one_line(warning))?;
        }
        if let Some(why) = &self.refused {
            writeln!(out, "{} {}", style.bad("Refused:"), one_line(why))?;
        }
        if self.changes.is_empty() && self.edit.is_empty() {
            return if self.refused.is_none() { writeln!(out, "No change.") } else { Ok(()) };
        }
        if !self.edit.is_empty() {
            writeln!(out, "{}", style.strong("Edit"))?;
            fields(out, &self.edit)?;
        }
        if self.changes.is_empty() {
            return if self.refused.is_none() { writeln!(out, "No object and no pod changes.") } else { Ok(()) };
        }
        writeln!(out, "{}", style.strong("Objects"))?;
        for change in &self.changes {
            object(out, change, style)?;
        }
        self.revisions(out, style)?;
        self.pods(out, style)?;
        self.capacity(out, style)
    }

    fn revisions(&self, out: &mut String, style: Style) -> std::fmt::Result {
        let RevisionNames { before, after } = &self.revision;
        if before.is_empty() && after.is_empty() {
            return Ok(());
        }
        writeln!(out, "{} {}", style.strong("Worker revision:"), self.revision.text())
    }

    fn pods(&self, out: &mut String, style: Style) -> std::fmt::Result {
        if self.pods.is_empty() {
            return writeln!(out, "{} none is created or deleted", style.strong("Pods:"));
        }
        let all = replaced(&self.pods);
        let counts = all.iter().map(|(name, (made, gone))| format!("{name} +{made} -{gone}"));
        writeln!(out, "{} {}", style.strong("Pods:"), counts.collect::<Vec<_>>().join(", "))?;
        for pod in self.pods.iter().take(MOST) {
            writeln!(out, "  step {}: {} {}", pod.step, pod.verb, pod.name)?;
        }
        more(out, self.pods.len())
    }

    fn capacity(&self, out: &mut String, style: Style) -> std::fmt::Result {
        let (reduced, least) = self.reduced();
        let text = match reduced {
            0 => "never below today's".to_owned(),
            _ => format!("below today's in {reduced} of {} steps, {least} % at least", self.steps.len()),
        };
        writeln!(out, "{} {text}", style.strong("Capacity:"))?;
        for (index, moment) in self.steps.iter().enumerate().take(MOST) {
            let counts = moment.components.iter().map(|(name, count)| format!("{name} {}/{}", count.ready, count.pods));
            let counts = counts.collect::<Vec<_>>().join(", ");
            writeln!(out, "  {index}: {} %, {} GPUs, {counts}", moment.share, moment.gpus)?;
        }
        more(out, self.steps.len())?;
        let (today, peak, after) = self.gpus();
        writeln!(out, "{} {today} today, {peak} at the peak, {after} after", style.strong("GPUs:"))?;
        for excess in &self.quotas {
            writeln!(
                out,
                "{} {} has {} {}, {} would be used ({} today): pods beyond it are not created",
                style.bad("ResourceQuota"),
                excess.quota,
                excess.hard,
                excess.resource,
                excess.needed,
                excess.used
            )?;
        }
        Ok(())
    }
}

impl RevisionNames {
    fn text(&self) -> String {
        let Self { before, after } = self;
        let names = |all: &[&String]| all.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let with_verb = |all: &[&String], one: &str, several: &str| {
            format!("{} {}", names(all), if all.len() == 1 { one } else { several })
        };
        let stay: Vec<_> = after.intersection(before).collect();
        let new: Vec<_> = after.difference(before).collect();
        let gone: Vec<_> = before.difference(after).collect();
        match (stay.is_empty(), new.is_empty(), gone.is_empty()) {
            (true, _, true) => with_verb(&new, "is the first", "are the first"),
            (true, true, false) => with_verb(&gone, "is deleted", "are deleted"),
            (true, false, false) => {
                let new_ones = if new.len() == 1 { "a new one" } else { "new ones" };
                format!("{} by {}, {new_ones}", with_verb(&gone, "is replaced", "are replaced"), names(&new))
            }
            (false, new_is_empty, gone_is_empty) => {
                let mut parts = vec![with_verb(&stay, "stays", "stay")];
                parts.extend((!new_is_empty).then(|| with_verb(&new, "is new", "are new")));
                parts.extend((!gone_is_empty).then(|| with_verb(&gone, "is deleted", "are deleted")));
                parts.join("; ")
            }
        }
    }
}

/// One line for each graph, and their sum: for a change that is none of a graph's own.
pub fn overview(all: &[Prediction], style: Style) -> String {
    let mut table = Table::new(&["NAMESPACE", "GRAPH", "OBJECTS", "PODS DELETED", "PODS CREATED", "NOTE"]);
    let (mut rolled, mut deleted) = (0, 0);
    for one in all {
        let pods = replaced(&one.pods);
        let sum = |count: fn(&(usize, usize)) -> usize| pods.values().map(count).sum::<usize>();
        let (made, gone) = (sum(|counts| counts.0), sum(|counts| counts.1));
        (rolled, deleted) = (rolled + usize::from(made + gone > 0), deleted + gone);
        let note = one.refused.as_ref().map(|why| format!("refused: {why}"));
        table.row([
            one.namespace.clone(),
            one.graph.clone(),
            one.changes.len().to_string(),
            gone.to_string(),
            made.to_string(),
            one_line(&note.unwrap_or_default()),
        ]);
    }
    let text = format!("{rolled} of {} graphs replace pods; {deleted} pods are deleted.", all.len());
    format!("{}{}\n", table.text(), if rolled == 0 { style.good(&text) } else { style.pending(&text) })
}

fn object(out: &mut String, change: &ObjectChange, style: Style) -> std::fmt::Result {
    let verb = match change.verb {
        "create" => style.good(change.verb),
        "delete" => style.bad(change.verb),
        verb => style.pending(verb),
    };
    writeln!(out, "  {verb} {} {}", change.kind, change.name)?;
    fields(out, &change.fields)
}

fn fields(out: &mut String, changes: &[FieldChange]) -> std::fmt::Result {
    for FieldChange { path, before, after } in changes {
        let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "none".to_owned(), shown);
        writeln!(out, "      {path}: {} -> {}", show(before), show(after))?;
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    let text = one_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn more(out: &mut String, count: usize) -> std::fmt::Result {
    if count > MOST { writeln!(out, "  … and {} more; -o json has all", count - MOST) } else { Ok(()) }
}
