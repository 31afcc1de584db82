//! Rights without a use, and requests without a right. Pure.

use std::collections::BTreeSet;

use super::{
    arguments::{Argument, Reach},
    granted::Right,
    used::Use,
};

/// Verbs that only look.
const READS: [&str; 3] = ["get", "list", "watch"];

/// Difference between rights and requests of one account.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Rights without a request, and without an argument for them.
    pub(super) unused: Vec<Right>,
    /// Rights without a request, and why they stay.
    pub(super) argued: Vec<(Right, &'static str)>,
    /// Requests that were refused, and that no right would have allowed.
    pub(super) refused: Vec<Use>,
}

/// Compares what `program` may do with what it did. `reach` states how much the requests can show.
pub(super) fn of(
    program: &str,
    granted: &BTreeSet<Right>,
    used: &BTreeSet<Use>,
    arguments: &[Argument],
    reach: Reach,
) -> Difference {
    let mut difference = Difference::default();
    for right in granted {
        if used.iter().any(|request| request.allowed && shows(right, request)) {
            continue;
        }
        match arguments.iter().find(|argument| argument.covers(program, right, reach)) {
            Some(argument) => difference.argued.push((right.clone(), argument.why)),
            None => difference.unused.push(right.clone()),
        }
    }
    let refused = used.iter().filter(|request| !request.allowed);
    difference.refused =
        refused.filter(|request| !granted.iter().any(|right| allows(right, request, reach))).cloned().collect();
    difference
}

impl Difference {
    /// Lets rights pass that requests of the same program have shown under another account, in whatever namespace.
    pub(super) fn shown_elsewhere(&mut self, used: &BTreeSet<Use>, why: &'static str) {
        let shown = |right: &Right| {
            let anywhere = Right { namespace: None, ..right.clone() };
            used.iter().any(|request| request.allowed && shows(&anywhere, request))
        };
        let (shown, unused) = std::mem::take(&mut self.unused).into_iter().partition(shown);
        self.unused = unused;
        self.argued.extend(Vec::into_iter(shown).map(|right| (right, why)));
    }
}

/// Whether a request is one that the right is for. A list shows what a `get` and a watch show; which of the
/// three is sent depends on what the API server can do and on what is cached, so one of them counts for all.
fn shows(right: &Right, request: &Use) -> bool {
    let reads = |verb: &String| READS.contains(&verb.as_str());
    (right.verb == request.verb || reads(&right.verb) && reads(&request.verb)) && concerns(right, request)
}

/// Whether the right is one to the request. Tests give objects names of their own, so there only the kind counts.
fn allows(right: &Right, request: &Use, reach: Reach) -> bool {
    let right = Right { name: right.name.clone().filter(|_| reach == Reach::Run), ..right.clone() };
    right.verb == request.verb && concerns(&right, request)
}

fn concerns(right: &Right, request: &Use) -> bool {
    let name = right.name.is_none() || right.name == request.name;
    let namespace = right.namespace.is_none() || right.namespace == request.namespace;
    (&right.group, &right.resource) == (&request.group, &request.resource) && name && namespace
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `verb group/resource [name] [in namespace]`, as a right is shown.
    fn right(text: &str) -> Right {
        let (text, namespace) = text.split_once(" in ").map_or((text, None), |(text, ns)| (text, Some(ns.to_owned())));
        let mut words = text.split(' ');
        let (verb, path) = (words.next().unwrap(), words.next().unwrap());
        let (group, resource) = path.split_once('/').unwrap();
        let group = if group == "core" { "" } else { group };
        Right {
            group: group.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            name: words.next().map(str::to_owned),
            namespace,
        }
    }

    fn request(text: &str, allowed: bool) -> Use {
        let Right { group, resource, verb, name, namespace } = right(text);
        Use { user: "u".to_owned(), agent: String::new(), group, resource, verb, name, namespace, allowed }
    }

    fn unused(granted: &[&str], used: &[&str]) -> Vec<String> {
        let granted = granted.iter().map(|text| right(text)).collect();
        let used = used.iter().map(|text| request(text, true)).collect();
        of("p", &granted, &used, &[], Reach::Run).unused.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_right_is_used_by_a_request_that_needs_it() {
        for (granted, used, left) in [
            ("patch apps/deployments", "patch apps/deployments a in n", true),
            ("patch apps/deployments", "patch apps/deployments/status a in n", false),
            ("patch apps/deployments", "patch core/deployments a in n", false),
            ("patch apps/deployments", "create apps/deployments a in n", false),
            ("patch core/x a", "patch core/x a in n", true),
            ("patch core/x a", "patch core/x b in n", false),
            ("patch core/x in n", "patch core/x a in n", true),
            ("patch core/x in n", "patch core/x a in m", false),
            ("get core/x", "list core/x", true),
            ("list core/x", "watch core/x", true),
            ("delete core/x", "watch core/x", false),
        ] {
            let expected = if left { vec![] } else { vec![granted.to_owned()] };
            assert_eq!(unused(&[granted], &[used]), expected, "{granted} by {used}");
        }
    }

    #[test]
    fn another_account_of_the_program_may_show_a_right() {
        let granted = BTreeSet::from([right("patch core/x in n"), right("delete core/x in n")]);
        let mut found = of("p", &granted, &BTreeSet::new(), &[], Reach::Run);
        found.shown_elsewhere(&BTreeSet::from([request("patch core/x a in m", true)]), "there");
        assert_eq!(found.argued, [(right("patch core/x in n"), "there")]);
        assert_eq!(found.unused, [right("delete core/x in n")]);
    }

    #[test]
    fn a_refused_request_uses_nothing_and_is_shown_if_no_right_would_allow_it() {
        let granted = BTreeSet::from([right("get core/nodes")]);
        let used = BTreeSet::from([request("get core/nodes a", false), request("list core/pods", false)]);
        let found = of("p", &granted, &used, &[], Reach::Run);
        assert_eq!(found.unused, [right("get core/nodes")], "the right was removed meanwhile");
        assert_eq!(found.refused, [request("list core/pods", false)]);
    }

    #[test]
    fn tests_are_refused_objects_of_other_names() {
        let granted = BTreeSet::from([right("patch core/x a")]);
        let used = BTreeSet::from([request("patch core/x b", false)]);
        let refused = |reach| of("p", &granted, &used, &[], reach).refused.len();
        assert_eq!((refused(Reach::Run), refused(Reach::Tests)), (1, 0));
    }

    #[test]
    fn an_argument_is_for_what_it_names() {
        let argument =
            |reach| Argument { programs: &["p"], rights: &["delete apps/deployments"], reach, why: "because" };
        let granted = BTreeSet::from([right("delete apps/deployments")]);
        let argued = |program: &str, own: Reach, reach: Reach| {
            !of(program, &granted, &BTreeSet::new(), &[argument(own)], reach).argued.is_empty()
        };
        assert!(argued("p", Reach::Run, Reach::Run));
        assert!(argued("p", Reach::Never, Reach::Run));
        assert!(argued("p", Reach::Never, Reach::Tests));
        assert!(!argued("p", Reach::Run, Reach::Tests), "the tests show what a run cannot");
        assert!(!argued("q", Reach::Never, Reach::Run), "it is another program's");
    }
}
