//! The report of the comparison.

use std::{collections::BTreeMap, fmt::Write};

/// Differences that are reported of each case.
const LIMIT: usize = 5;
/// The first parts of the paths of fields, in objects and in statuses.
const FIELDS: [&str; 13] = [
    "metadata",
    "spec",
    "data",
    "rules",
    "roleRef",
    "subjects",
    "secrets",
    "type",
    "binaryData",
    "state",
    "components",
    "conditions",
    "phase",
];
const OWNERS: &str = "ownerReferences[";

/// Results by case.
#[derive(Debug, Default)]
pub(super) struct Report {
    cases: Vec<(String, Vec<String>)>,
}

impl Report {
    /// Adds a case with its differences.
    pub(super) fn add(&mut self, name: &str, differences: Vec<String>) {
        self.cases.push((name.to_owned(), differences));
    }

    /// Whether no case differs.
    pub(super) fn all_equal(&self) -> bool {
        self.equal() == self.cases.len()
    }

    fn equal(&self) -> usize {
        self.cases.iter().filter(|(_, differences)| differences.is_empty()).count()
    }

    /// The report: the differences of each case, or only some of them unless `all`; then, if expected, how often each
    /// field differs; then one line with the result.
    pub(super) fn text(&self, all: bool, by_field: bool) -> String {
        let mut text = String::new();
        for (name, differences) in self.cases.iter().filter(|(_, differences)| !differences.is_empty()) {
            let reported = if all { differences.len() } else { LIMIT.min(differences.len()) };
            let _ = writeln!(text, "DIFF {name}: {}", differences.len());
            for line in &differences[..reported] {
                let _ = writeln!(text, "     {line}");
            }
            if reported < differences.len() {
                let _ = writeln!(text, "     and {} more; --show {name}", differences.len() - reported);
            }
        }
        if by_field {
            let _ = writeln!(text, "cases that differ, by field:");
            for (field, cases) in self.by_field() {
                let _ = writeln!(text, "{cases:>6}  {field}");
            }
        }
        let _ = writeln!(text, "{} of {} cases equal", self.equal(), self.cases.len());
        text
    }

    /// Counts the cases that differ in each field, most first.
    fn by_field(&self) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (_, differences) in &self.cases {
            let mut fields: Vec<_> = differences.iter().map(|line| field(line)).collect();
            fields.sort();
            fields.dedup();
            fields.into_iter().for_each(|field| *counts.entry(field).or_default() += 1);
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }
}

/// A difference without the names and values of its case: kind and field, and in what way they differ.
fn field(line: &str) -> String {
    let (place, manner) = line.split_once(": ").unwrap_or((line, ""));
    let manner = manner.split(' ').next().unwrap_or_default();
    // `apps/Deployment/<name>.spec.…`, `status Graph/<name>.…`, `applied Graph/<name>`; names may hold dots, fields do
    // not.
    let slashes = if place.starts_with("status ") || place.starts_with("applied ") { 1 } else { 2 };
    let name = place.match_indices('/').nth(slashes - 1).map_or(place.len(), |(slash, _)| slash + 1);
    let rest = FIELDS.iter().filter_map(|field| place[name..].find(&format!(".{field}"))).min();
    let rest = rest.map_or("", |rest| &place[name + rest..]);
    let (start, end) = rest.split_once(OWNERS).unwrap_or((rest, ""));
    let owner = end.split_once(']').map_or(String::new(), |(_, end)| format!("{OWNERS}*]{end}"));
    format!("{}*{start}{owner}: {manner}", &place[..name])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("apps/Deployment/web-{index}.spec.a: missing (expected {index})")).collect()
    }

    #[test]
    fn the_last_line_is_the_result() {
        let mut report = Report::default();
        report.add("a", vec![]);
        report.add("b", lines(7));
        assert!(!report.all_equal());
        let text = report.text(false, false);
        assert_eq!(text.lines().last(), Some("1 of 2 cases equal"));
        assert_eq!(text.lines().nth(6), Some("     and 2 more; --show b"));
        assert_eq!(report.text(true, false).lines().count(), 9);
    }

    #[test]
    fn differences_are_counted_once_for_each_case() {
        let mut report = Report::default();
        report.add("a", lines(3));
        report.add("b", lines(1));
        assert_eq!(report.by_field(), [("apps/Deployment/*.spec.a: missing".to_owned(), 2)]);
    }

    #[test]
    fn names_and_values_are_left_out_of_fields() {
        for (line, expected) in [
            ("v1/Service/web: not generated", "v1/Service/*: not"),
            (
                "apps/Deployment/a.b.spec.c[main].env: order/names expected [1]",
                "apps/Deployment/*.spec.c[main].env: order/names",
            ),
            (
                "v1/Secret/a.metadata.ownerReferences[g].uid: missing (expected 1)",
                "v1/Secret/*.metadata.ownerReferences[*].uid: missing",
            ),
            ("status Graph/g.state: expected 1, got 2", "status Graph/*.state: expected"),
            ("applied Graph/g: expected accepted, got rejected: spec.a: no", "applied Graph/*: expected"),
        ] {
            assert_eq!(field(line), expected);
        }
    }
}
