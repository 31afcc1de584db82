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

use std::{cell::OnceCell, io};

use api_types::{
    conversion,
    conversion::{ApiVersion, convert, has_saved_data},
    limits::SPEC_BYTES,
    violations::{Reason, Violation},
};
use rendering::rules;
use serde_json::Value;

use super::{
    Answer, Facts, Operation, Request, authored, component_deployment, deployment_request, exposure,
    field::{FieldFindings, FieldNode, FieldPath},
    graph,
    kind::{ReviewedKind, in_version},
    subject::{Typed, TypedSubject},
};
use crate::admission::is_same;

/// Answers on one of the paths that validate.
pub(super) fn review(kind: ReviewedKind, request: &Request, facts: &Facts) -> Answer {
    match Case::new(kind, request, facts) {
        Ok(case) if super::is_deleting(&case.new) => Answer::admitted(),
        Ok(case) => case.answer(),
        Err(violation) => Answer::of(vec![violation], Vec::new()),
    }
}

/// A request, with objects in the version that the rules are about.
struct Case<'a> {
    kind: ReviewedKind,
    request: &'a Request,
    facts: &'a Facts,
    new: Value,
    /// The object as it is stored; none when it is created.
    old: Option<Value>,
    /// Whether the user sent v1alpha1.
    is_alpha: bool,
    /// Both in v1alpha1, once a rule reads them.
    alphas: [AlphaObject; 2],
}

/// An object in v1alpha1; none if it cannot be converted. That takes long enough to be done once.
type AlphaObject = OnceCell<Option<Value>>;

impl<'a> Case<'a> {
    fn new(kind: ReviewedKind, request: &'a Request, facts: &'a Facts) -> Result<Self, Violation> {
        kind.version_of(request)?;
        let hub = |object: &Value| match kind.has_two_versions() {
            true => in_version(object.clone(), ApiVersion::V1Beta1),
            false => Ok(object.clone()),
        };
        let object = request.object.as_ref().filter(|object| object.is_object());
        let Some(object) = object else {
            return Err(Violation::required("object", "the request holds no object", "nothing can be said about it"));
        };
        let old = match &request.old_object {
            Some(old) if request.operation == Operation::Update => Some(hub(old)?),
            _ => None,
        };
        let is_alpha = kind.authored(request) == Some(ApiVersion::V1Alpha1);
        Ok(Self { kind, request, facts, new: hub(object)?, old, is_alpha, alphas: Default::default() })
    }

    fn answer(&self) -> Answer {
        let subject = TypedSubject::new(self.kind, &self.new);
        let mut found = self.rules(&self.new, &subject);
        let mut violations = std::mem::take(&mut found.violations);
        if let Some(old) = &self.old {
            let before = TypedSubject::new(self.kind, old);
            violations = made_by_change(violations, &self.new, &self.rules(old, &before).violations, old);
            let changes = self.changes(&subject.typed, old, &before.typed);
            for violation in changes.violations {
                if !violations.contains(&violation) {
                    violations.push(violation);
                }
            }
            found.warnings.extend(changes.warnings);
        }
        found.warnings.append(&mut self.warnings(&subject.typed).warnings);
        let alpha = self.says_more(&self.new).then(|| self.new_in_alpha()).flatten();
        if let Some(alpha) = alpha {
            violations.retain(|violation| !authored::is_further_cache(violation, self.kind, alpha));
            if self.is_alpha {
                let translate = |violation| authored::in_v1alpha1(violation, self.kind, alpha);
                violations = violations.into_iter().map(translate).collect();
            }
        }
        violations.extend(self.alpha_rules(alpha, &mut found));
        let old = self.old.as_ref();
        violations.extend(exposure::check(self.kind, &self.new, old, self.is_alpha, self.request, self.facts));
        if let Some(violation) = check(&self.new, self.old.as_ref()) {
            // That the annotations would be too long follows from it.
            violations.retain(|violation| violation.reason != Reason::TooLong);
            violations.push(violation);
        }
        if self.keeps_spec() {
            violations.retain(|violation| !violation.path.is_below("spec"));
        }
        Answer::of(violations.into_iter().map(|violation| violation.at(ToString::to_string)).collect(), found.warnings)
    }

    /// Rules about an object as it is.
    fn rules(&self, object: &Value, subject: &TypedSubject) -> FieldFindings {
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
        let mut out = FieldFindings::of(object, found);
        if self.kind.has_two_versions() {
            saved_data(object, &mut out);
        }
        out
    }

    /// Rules about what has changed.
    fn changes(&self, new: &Typed, old_object: &Value, old: &Typed) -> FieldFindings {
        // A user of v1beta1 need not know what v1alpha1 says besides.
        let alphas = || self.is_alpha.then(|| self.new_in_alpha().zip(self.old_in_alpha())).flatten();
        let mut found = rules::Findings::default();
        match (new, old) {
            (Typed::Graph(new), Typed::Graph(old)) => {
                graph::check_update(new, old, self.request, self.facts, &mut found);
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
                let both = [&self.new, old_object].map(FieldNode::root);
                deployment_request::check_update(new, both, alphas, &mut found);
            }
            _ => {}
        }
        FieldFindings::of(&self.new, found)
    }

    fn warnings(&self, new: &Typed) -> FieldFindings {
        let (features, mut found) = (&self.facts.features, rules::Findings::default());
        match new {
            Typed::Graph(graph) => graph::warn(graph, self.request.operation, self.facts, &mut found),
            Typed::Component { component, .. } => rules::component::warn("spec", component, &mut found),
            Typed::Request(spec) => rules::request::warn(spec, features, &mut found),
            Typed::Checkpoint { job, .. } => rules::checkpoint::warn(job, &mut found),
            Typed::Model => {}
        }
        FieldFindings::of(&self.new, found)
    }

    /// Rules about fields that only v1alpha1 has.
    fn alpha_rules(&self, alpha: Option<&Value>, out: &mut FieldFindings) -> Vec<Violation<FieldPath>> {
        let Some(alpha) = alpha else { return Vec::new() };
        let mut found = self.alpha_findings(alpha);
        out.warnings.append(&mut found.warnings);
        let old = self.old.as_ref().filter(|old| self.says_more(old)).and_then(|_| self.old_in_alpha());
        match old {
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
        out
    }

    fn new_in_alpha(&self) -> Option<&Value> {
        self.in_alpha(&self.alphas[0], &self.new)
    }

    fn old_in_alpha(&self) -> Option<&Value> {
        self.in_alpha(&self.alphas[1], self.old.as_ref()?)
    }

    fn in_alpha<'s>(&self, alpha: &'s AlphaObject, object: &Value) -> Option<&'s Value> {
        let convert = || convert(object.clone(), ApiVersion::V1Alpha1).ok();
        if self.kind.has_two_versions() { alpha.get_or_init(convert).as_ref() } else { None }
    }

    /// Whether v1alpha1 says more of an object than v1beta1.
    fn says_more(&self, object: &Value) -> bool {
        self.is_alpha || has_saved_data(object)
    }

    /// Whether an update leaves the spec alone, in what only v1alpha1 says too. Rules that came later do not
    /// block it.
    fn keeps_spec(&self) -> bool {
        let Some(old) = self.old.as_ref().filter(|old| is_same(self.new.get("spec"), old.get("spec"))) else {
            return false;
        };
        let says_more = has_saved_data(&self.new) || has_saved_data(old);
        match says_more.then(|| self.new_in_alpha().zip(self.old_in_alpha())).flatten() {
            Some((new, old)) => is_same(new.get("spec"), old.get("spec")),
            None => true,
        }
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
        out.too_long(&field, detail);
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
