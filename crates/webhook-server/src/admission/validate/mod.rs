//! Validation: the rules of each kind, the permitted changes, and the version in which the user reads about a
//! violation.
//!
//! The size of a spec is limited far below that of etcd: every process keeps the objects of its kinds in memory, and
//! the API server sends whole lists of them to be converted.
//!
//! Rules may become stricter while objects live. Violations with which an object was admitted do not prevent
//! other changes: a violation counts on an update only if the update made it.

#[cfg(test)]
mod tests;

use std::io;

use api_types::{
    conversion,
    conversion::{ApiVersion, has_saved_data},
    limits::SPEC_BYTES,
    violations::{Reason, Violation},
};
use rendering::{rules, rules::graph::Permissions};
use serde_json::Value;

use super::{
    Answer, Facts, Operation, Request, authored, component_deployment, deployment_request, exposure,
    field::{FieldFindings, FieldNode, FieldPath, MOST, located},
    graph,
    kind::{ReviewedKind, in_version},
    request,
    subject::{Typed, TypedSubject},
};
use crate::admission::is_same;

/// Answers on one of the paths that validate.
pub(super) fn review(kind: ReviewedKind, request: &Request, facts: &Facts) -> Answer {
    match Case::new(kind, request, facts) {
        Ok(case) if super::is_deleting(&case.new.object) => Answer::admitted(),
        Ok(case) => case.answer(),
        Err(violation) => Answer::of(vec![violation], Vec::new()),
    }
}

/// A request, with its objects as the rules read them.
struct Case<'a> {
    kind: ReviewedKind,
    request: &'a Request,
    facts: &'a Facts,
    new: TypedSubject,
    /// The object as it is stored; none when it is created.
    old: Option<TypedSubject>,
    /// Whether the user sent v1alpha1.
    is_alpha: bool,
}

impl<'a> Case<'a> {
    fn new(kind: ReviewedKind, request: &'a Request, facts: &'a Facts) -> Result<Self, Violation> {
        kind.version_of(request)?;
        let subject = |object: &Value| -> Result<TypedSubject, Violation> {
            let object = object.clone();
            let hub = if kind.has_two_versions() { in_version(object, ApiVersion::V1Beta1)? } else { object };
            Ok(TypedSubject::new(kind, hub))
        };
        let object = request.object.as_ref().filter(|object| object.is_object());
        let Some(object) = object else {
            return Err(Violation::required("object", "the request holds no object", "nothing can be said about it"));
        };
        let old = request.old_object.as_ref().filter(|_| request.operation == Operation::Update);
        let old = old.map(subject).transpose()?;
        let is_alpha = kind.authored(request) == Some(ApiVersion::V1Alpha1);
        Ok(Self { kind, request, facts, new: subject(object)?, old, is_alpha })
    }

    fn answer(&self) -> Answer {
        let (new, old) = (&self.new.object, self.old.as_ref().map(|old| &old.object));
        let mut found = self.rules(&self.new);
        let mut violations = std::mem::take(&mut found.violations);
        if let Some(old) = &self.old {
            violations = made_by_change(violations, new, &self.rules(old).violations, &old.object);
            let changes = self.changes(old);
            for violation in changes.violations {
                if !violations.contains(&violation) {
                    violations.push(violation);
                }
            }
            found.warnings.extend(changes.warnings);
        }
        found.warnings.append(&mut self.warnings().warnings);
        if let Some(alpha) = self.more_in_alpha(&self.new) {
            violations.retain(|violation| !authored::is_further_cache(violation, self.kind, alpha));
            if self.is_alpha {
                let translate = |violation| authored::in_v1alpha1(violation, self.kind, alpha);
                violations = violations.into_iter().map(translate).collect();
            }
            violations.extend(self.alpha_rules(alpha, &mut found));
        }
        violations.extend(exposure::check(self.kind, new, old, self.is_alpha, self.request, self.facts));
        if let Some(violation) = check(new, old) {
            // That the annotations would be too long follows from it.
            violations.retain(|violation| violation.reason != Reason::TooLong);
            violations.push(violation);
        }
        if self.keeps_spec() {
            violations.retain(|violation| !violation.path.is_below("spec"));
        }
        let violations = violations.into_iter().map(|violation| violation.at(ToString::to_string)).collect();
        let warnings = found.warnings.iter().map(|warning| format!("{}: {}", warning.path, warning.text)).collect();
        Answer::of(violations, warnings)
    }

    /// Rules about an object as it is.
    fn rules(&self, subject: &TypedSubject) -> FieldFindings {
        let (facts, mut found) = (self.facts, rules::Findings::default());
        found.extend(subject.misfits.iter().cloned());
        match &subject.typed {
            Typed::Graph(graph) => graph::check(graph, self.request.operation, facts, &mut found),
            Typed::Component { metadata, component, framework } => {
                component_deployment::check(metadata, component, *framework, facts, &mut found);
            }
            Typed::Request(spec) => rules::request::check(spec, &facts.features, &mut found),
            Typed::Checkpoint { service, job } => rules::checkpoint::check(service, job, &facts.features, &mut found),
            Typed::Model => {}
        }
        let mut out = located(&subject.object, found);
        if self.kind.has_two_versions() {
            saved_data(&subject.object, &mut out);
        }
        out.violations.truncate(MOST);
        out
    }

    /// Rules about what has changed.
    fn changes(&self, old: &TypedSubject) -> FieldFindings {
        // A user of v1beta1 need not see the fields of v1alpha1.
        let alphas = || self.is_alpha.then(|| self.new.in_alpha().zip(old.in_alpha())).flatten();
        let mut found = rules::Findings::default();
        match (&self.new.typed, &old.typed) {
            (Typed::Graph(new), Typed::Graph(old)) => {
                let permissions = Permissions {
                    may_scale: request::may_scale(self.request, self.facts),
                    may_choose_provider: request::may_choose_provider(self.request, self.facts),
                };
                rules::graph::check_update(new, old, permissions, &mut found);
            }
            (
                Typed::Component { component: new, framework, .. },
                Typed::Component { component: old, framework: before, .. },
            ) => {
                let both = [(&**new, *framework), (&**old, *before)];
                component_deployment::check_update(both, self.request, self.facts, &mut found);
            }
            (Typed::Request(new), Typed::Request(_)) => {
                let alphas = alphas().map(|(new, old)| [new, old].map(FieldNode::root));
                let both = [&self.new.object, &old.object].map(FieldNode::root);
                deployment_request::check_update(new, both, alphas, &mut found);
            }
            _ => {}
        }
        located(&self.new.object, found)
    }

    fn warnings(&self) -> FieldFindings {
        let (features, mut found) = (&self.facts.features, rules::Findings::default());
        match &self.new.typed {
            Typed::Graph(graph) => graph::warn(graph, self.request.operation, self.facts, &mut found),
            Typed::Component { component, .. } => rules::component::warn("spec", component, &mut found),
            Typed::Request(spec) => rules::request::warn(spec, features, &mut found),
            Typed::Checkpoint { job, .. } => rules::checkpoint::warn(job, &mut found),
            Typed::Model => {}
        }
        located(&self.new.object, found)
    }

    /// Rules about fields that only v1alpha1 has.
    fn alpha_rules(&self, alpha: &Value, out: &mut FieldFindings) -> Vec<Violation<FieldPath>> {
        let mut found = self.alpha_findings(alpha);
        out.warnings.append(&mut found.warnings);
        match self.old.as_ref().and_then(|old| self.more_in_alpha(old)) {
            Some(old) => made_by_change(found.violations, alpha, &self.alpha_findings(old).violations, old),
            None => found.violations,
        }
    }

    fn alpha_findings(&self, alpha: &Value) -> FieldFindings {
        let (mut out, node) = (FieldFindings::default(), FieldNode::root(alpha));
        match self.kind {
            ReviewedKind::Graph => graph::alpha_graph(&node, &mut out),
            ReviewedKind::Component => {
                let namespace = component_deployment::dynamo_namespace(&node);
                graph::alpha_component(&node.field("spec"), &namespace, &mut out);
            }
            ReviewedKind::Request | ReviewedKind::Checkpoint | ReviewedKind::Model => {}
        }
        out.violations.truncate(MOST);
        out
    }

    /// The object in v1alpha1, if that says more of it than v1beta1.
    fn more_in_alpha<'s>(&self, subject: &'s TypedSubject) -> Option<&'s Value> {
        let needs_alpha = self.is_alpha || has_saved_data(&subject.object);
        needs_alpha.then(|| subject.in_alpha()).flatten()
    }

    /// Whether an update leaves the spec unchanged, including the fields of v1alpha1. Rules that came later do not
    /// block it.
    fn keeps_spec(&self) -> bool {
        let Some(old) = &self.old else { return false };
        let is_kept = |new: &Value, old: &Value| is_same(new.get("spec"), old.get("spec"));
        let needs_alpha = has_saved_data(&self.new.object) || has_saved_data(&old.object);
        let alphas = || needs_alpha.then(|| self.new.in_alpha().zip(old.in_alpha())).flatten();
        is_kept(&self.new.object, &old.object) && alphas().is_none_or(|(new, old)| is_kept(new, old))
    }
}

/// Checks that data that only one version can express fits into annotations of the other version.
fn saved_data(object: &Value, out: &mut FieldFindings) {
    let node = FieldNode::root(object);
    if node.fields(&["metadata", "annotations"]).key(conversion::payload::INCOMPLETE).is_set() {
        let detail =
            "this object was read without what only v1beta1 can say, which would be removed; write it in v1beta1";
        out.forbidden(&node.fields(&["metadata", "annotations"]).key(conversion::payload::INCOMPLETE), detail);
    }
    if let Some(long) = conversion::payload::too_long(object) {
        let field = long.field.iter().fold(node, |node, step| node.field(step));
        let detail = format!(
            "v1alpha1 keeps what only v1beta1 can say in annotations, which have {} bytes at most; make it shorter",
            conversion::payload::ANNOTATION_BYTES
        );
        out.push(&field, Reason::TooLong, Value::Null, detail);
    }
}

/// The violation of an object whose spec is too large, unless it was no smaller before.
pub(super) fn check(new: &Value, old: Option<&Value>) -> Option<Violation<FieldPath>> {
    let node = FieldNode::root(new).field("spec");
    let bytes = bytes_of(node.value);
    let before = old.map_or(0, |old| bytes_of(FieldNode::root(old).field("spec").value));
    (bytes > SPEC_BYTES && bytes > before).then(|| {
        let message = format!("is more than {SPEC_BYTES} bytes of JSON");
        let remedy = "move data into ConfigMaps, volumes or images";
        Violation::invalid(node.path.clone(), format!("{bytes} bytes"), message, remedy)
    })
}

/// Bytes of a value as JSON, without writing it down: many large objects may be on their way.
fn bytes_of(value: &Value) -> usize {
    let mut count = ByteCount(0);
    // Counting never fails, and JSON values can always be written.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The violations in `new` that the change from `old` to `new` made. What was missing already is missing still, whatever
/// else has changed in the place where it belongs.
pub(super) fn made_by_change(
    violations: Vec<Violation<FieldPath>>,
    new: &Value,
    before: &[Violation<FieldPath>],
    old: &Value,
) -> Vec<Violation<FieldPath>> {
    let was_there = |violation: &Violation<FieldPath>| {
        before.iter().any(|earlier| {
            earlier.path.is_same_place(&violation.path)
                && (earlier.reason, &earlier.value) == (violation.reason, &violation.value)
                && (&earlier.message, &earlier.remedy) == (&violation.message, &violation.remedy)
                && (violation.reason == Reason::Required || is_same(earlier.path.find(old), violation.path.find(new)))
        })
    };
    violations.into_iter().filter(|violation| !was_there(violation)).collect()
}
