//! Causes in the operator itself: it does not run, the namespace is fenced, or an object is being deleted.

use k8s_openapi::jiff::Timestamp;

use super::{
    model::{Cause, DiagnosisInputs, ObjectName, Program, Subject, Weight},
    rules,
    rules::REJECTIONS,
};
use crate::diagnosis;

/// Time the operator may take for a new spec before that counts as a fault, in seconds.
const PATIENCE: i64 = 15;

/// Error text of the API server for an object that it cannot convert.
pub const CONVERSION: &str = "conversion webhook for";

/// Beginnings of the finalizers that Kubernetes, or this operator, removes by itself.
const REMOVED: [&str; 5] = ["foregroundDeletion", "orphan", "kubernetes.io/", api_types::GROUP, "operator.dynamo/"];

/// The conversion webhook, if objects cannot be read without it. One webhook is for all kinds: one cause.
pub fn unconverted(observed: &DiagnosisInputs) -> Option<Cause> {
    let is_of_conversion = |why: &&String| why.contains(CONVERSION);
    let why = observed.not_read.iter().find(is_of_conversion)?;
    let rule = rules::matching(REJECTIONS, why)?;
    let servers = observed.programs.iter().flatten().filter(|program| program.name == "webhook-server");
    let evidence = servers.map(|one| {
        format!("webhook-server in namespace {}: {} of {} pods are ready", one.namespace, one.ready, one.desired)
    });
    let cause = Cause::new(rule.code, Weight::Blocks, vec![observed.root.object()], why, rule.remedy);
    Some(Cause { evidence: evidence.collect(), ..cause })
}

/// Causes of the object and its components that no controller has reconciled.
pub fn causes(observed: &DiagnosisInputs, ready: bool, now: Timestamp) -> Vec<Cause> {
    let root = &observed.root;
    if let Some(remaining) = &observed.terminating {
        let chain = vec![root.object(), ObjectName::new("Namespace", &root.namespace)];
        let text = format!("namespace {} is being deleted, and all that is in it", root.namespace);
        let remedy = "create the object in another namespace; this one is gone when its finalizers are removed";
        let cause = Cause::new("NamespaceTerminating", Weight::Blocks, chain, text, remedy);
        return vec![Cause { evidence: remaining.clone(), ..cause }];
    }
    if let Some(deleted) = root.deleted {
        return vec![deletion(observed, seconds(now, deleted))];
    }
    if let Some(cause) = unobserved(observed, root, ready, now) {
        return vec![cause];
    }
    let components = observed.components.iter().map(Subject::of_component).filter(|one| one.name != root.name);
    // One controller for all of them: one cause.
    components.filter_map(|component| unobserved(observed, &component, ready, now)).take(1).collect()
}

fn deletion(observed: &DiagnosisInputs, waited: i64) -> Cause {
    let root = &observed.root;
    let finalizers = root.finalizers.join(", ");
    let is_foreign = root.finalizers.iter().any(|one| !REMOVED.iter().any(|own| one.starts_with(own)));
    let (weight, remedy) = match finalizers.is_empty() || (waited < 60 && !is_foreign) {
        true => (Weight::Waits, "wait until it is gone".to_owned()),
        false => {
            (Weight::Blocks, format!("look at what removes {finalizers}; children are listed by `kubectl dynamo tree`"))
        }
    };
    let waits = if finalizers.is_empty() { String::new() } else { format!(" and waits for {finalizers}") };
    Cause::new("Deleted", weight, vec![root.object()], format!("it has been deleted for {waited} s{waits}"), remedy)
}

/// Returns the cause of a status that is not of the object's latest spec.
fn unobserved(observed: &DiagnosisInputs, subject: &Subject, ready: bool, now: Timestamp) -> Option<Cause> {
    let controller = match subject.kind.as_str() {
        "DynamoGraphDeployment" | "DynamoGraphDeploymentRequest" => "graph-controller",
        "DynamoModel" => "model-controller",
        _ => "component-controller",
    };
    let program = serving(observed, controller);
    let is_down = program.is_some_and(|program| program.ready == 0);
    if subject.is_current() && (ready || !is_down) {
        return None;
    }
    let waited = subject.changed.map_or(i64::MAX, |changed| seconds(now, changed));
    let mut evidence = vec![format!(
        "metadata.generation is {}, status.observedGeneration is {}",
        subject.generation.map_or("not set".to_owned(), |generation| generation.to_string()),
        subject.observed_generation.map_or("not set".to_owned(), |generation| generation.to_string()),
    )];
    let marker = observed.marker.as_ref().filter(|marker| marker.is_valid(now));
    let (code, weight, cause, remedy) = if let Some(marker) = marker.filter(|_| !is_installed_in(observed, controller))
    {
        evidence.push(format!("Lease dynamo-operator-namespace-scope is held by {}", marker.holder));
        (
            "Fenced",
            Weight::Blocks,
            format!(
                "namespace {} belongs to a namespace-restricted operator, whose {controller} does not act; the \
                cluster-wide \
                 operator skips the namespace",
                subject.namespace
            ),
            "start the restricted install of the namespace, or uninstall it".to_owned(),
        )
    } else if observed.programs.is_some() && program.is_none() {
        let text = format!("{controller} is not installed");
        ("OperatorMissing", Weight::Blocks, text, "install the operator's chart".to_owned())
    } else if let Some(program) = program.filter(|_| is_down) {
        let text = format!("{controller} in namespace {}: 0 of {} pods are ready", program.namespace, program.desired);
        let remedy = format!(
            "kubectl describe pods --namespace {} --selector app.kubernetes.io/component={controller}",
            program.namespace
        );
        ("OperatorDown", Weight::Blocks, text, remedy)
    } else if waited < PATIENCE {
        let text = "no controller has reconciled the latest spec yet".to_owned();
        ("Unobserved", Weight::Waits, text, "wait".to_owned())
    } else {
        let text = format!("{controller} has not reconciled the latest spec");
        let remedy = format!("look at the log of {controller}; `kubectl dynamo doctor` checks the install");
        ("Unobserved", Weight::Blocks, text, remedy)
    };
    let chain = match subject.name == observed.root.name && subject.kind == observed.root.kind {
        true => vec![observed.root.object()],
        false => diagnosis::to_component(observed, &subject.name),
    };
    Some(Cause { evidence, ..Cause::new(code, weight, chain, cause, remedy) })
}

/// The program that serves the namespace: of an install in it, or of any other.
fn serving<'a>(observed: &'a DiagnosisInputs, controller: &str) -> Option<&'a Program> {
    let named = || observed.programs.iter().flatten().filter(|program| program.name == controller);
    named().find(|program| program.namespace == observed.root.namespace).or_else(|| named().max_by_key(|one| one.ready))
}

/// Whether the namespace has an install of its own. That it runs, its Deployment shows.
fn is_installed_in(observed: &DiagnosisInputs, controller: &str) -> bool {
    let mut named = observed.programs.iter().flatten().filter(|program| program.name == controller);
    named.any(|program| program.namespace == observed.root.namespace)
}

/// Whole seconds from one time to another.
pub fn seconds(now: Timestamp, since: Timestamp) -> i64 {
    now.as_second().saturating_sub(since.as_second())
}
