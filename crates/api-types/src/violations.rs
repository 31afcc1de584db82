//! Violations in the specs of users' objects, and the texts of those that more than one program reports: the API server
//! by its schema (`schema::checks`), the webhook server and the controllers. Each text is here once, so that a user
//! reads the same from all.
//!
//! A text says what is wrong with the value and what to do about it. The field and the value precede it.

use std::fmt::{self, Display};

use serde_json::Value;

use crate::{
    labels,
    names::{self, GROVE_COMBINED_MAX},
    v1alpha1::ModelSource,
};

/// A violation in the spec of a user's object. Only the user can correct it.
///
/// The path is a text, or whatever a rule finds its place by before it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<P = String> {
    /// The field within the object, such as `spec.components[0].replicas`.
    pub path: P,
    /// Kind of the violation.
    pub reason: Reason,
    /// The value at fault; null if there is none to show.
    pub value: Value,
    /// Description of the problem.
    pub message: String,
    /// Remedy for the problem; empty if the message contains it.
    pub remedy: String,
}

/// Kinds of violations, by the names of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The field must be set.
    Required,
    /// The field has a value that is not possible.
    Invalid,
    /// The field must not be set, or not by this user.
    Forbidden,
    /// The field has a value that another one has.
    Duplicate,
    /// The field has a value that is none of those supported.
    NotSupported,
    /// The field is longer than it may be.
    TooLong,
}

impl Reason {
    /// The word in a `Status`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TooLong => "FieldValueTooLong",
        }
    }
}

impl<P> Violation<P> {
    /// A field that must be set.
    pub fn required(path: impl Into<P>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(path, Reason::Required, Value::Null, message, remedy)
    }

    /// A value that is not possible.
    pub fn invalid(
        path: impl Into<P>,
        value: impl Into<Value>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(path, Reason::Invalid, value, message, remedy)
    }

    /// A field that must not be set.
    pub fn forbidden(path: impl Into<P>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(path, Reason::Forbidden, Value::Null, message, remedy)
    }

    /// A violation of any reason, whose text is one of this module: message and remedy with a semicolon between them.
    pub fn of_text(path: impl Into<P>, reason: Reason, value: impl Into<Value>, text: &str) -> Self {
        let (message, remedy) = text.split_once("; ").unwrap_or((text, ""));
        Self::new(path, reason, value, message, remedy)
    }

    fn new(
        path: impl Into<P>,
        reason: Reason,
        value: impl Into<Value>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), reason, value: value.into(), message: message.into(), remedy: remedy.into() }
    }

    /// The same violation at another path.
    pub fn at<Q>(self, path: impl FnOnce(&P) -> Q) -> Violation<Q> {
        let Self { path: before, reason, value, message, remedy } = self;
        Violation { path: path(&before), reason, value, message, remedy }
    }

    /// Message and remedy.
    #[must_use]
    pub fn text(&self) -> String {
        let parts = [self.message.as_str(), self.remedy.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The violation without its path, as the API server shows its own: `Required value: …`.
    #[must_use]
    pub fn cause(&self) -> String {
        let (value, text) = (&self.value, self.text());
        let head = match self.reason {
            Reason::Required => "Required value".to_owned(),
            Reason::Invalid => format!("Invalid value: {value}"),
            Reason::Forbidden => "Forbidden".to_owned(),
            Reason::Duplicate => format!("Duplicate value: {value}"),
            Reason::NotSupported => format!("Unsupported value: {value}"),
            Reason::TooLong => "Too long".to_owned(),
        };
        if text.is_empty() { head } else { format!("{head}: {text}") }
    }
}

impl<P: Display> Violation<P> {
    /// The violation as the API server shows its own: `spec.a: Required value: …`.
    #[must_use]
    pub fn in_status(&self) -> String {
        format!("{}: {}", self.path, self.cause())
    }
}

/// As conditions show it.
impl<P: Display> Display for Violation<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.path, shown(&self.value), self.text())
    }
}

/// The value on one line of bearable length.
fn shown(value: &Value) -> String {
    const MAX_CHARS: usize = 80;
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let cut: String = text.chars().take(MAX_CHARS).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    if text.is_empty() { text } else { format!(" ({cut:?}{dots})") }
}

/// Text for a field that keeps the value it was created with.
#[must_use]
pub fn immutable(remedy: impl Display) -> String {
    format!("field is immutable; {remedy}")
}

/// Remedy for a change of an immutable field; `kind` is that of the object.
#[must_use]
pub fn anew(kind: &str) -> String {
    format!("leave it as it was, or delete the {kind} and create it anew")
}

/// Text for a value that is not supported.
#[must_use]
pub fn supported<S: AsRef<str>>(values: &[S]) -> String {
    let values: Vec<_> = values.iter().map(|value| format!("{:?}", value.as_ref())).collect();
    format!("supported values: {}", values.join(", "))
}

/// Text for a quantity below zero.
#[must_use]
pub fn negative(remedy: impl Display) -> String {
    format!("is negative; {remedy}")
}

/// Text for an adapter without a source.
#[must_use]
pub fn source() -> String {
    format!("say where the adapter is; begin with one of: {}", ModelSource::SCHEMES.join(", "))
}

/// Text for an adapter with a source that workers cannot load.
#[must_use]
pub fn scheme() -> String {
    format!("is no address that workers can load from; begin with one of: {}", ModelSource::SCHEMES.join(", "))
}

/// Violation and remedy for the name of a graph that is too long for the label it becomes; none if it fits. If all
/// components of the graph are `global`, only the name itself is a label value.
#[must_use]
pub fn graph_name(namespace: &str, name: &str, global: bool) -> Option<(String, &'static str)> {
    let (label, value, remedy) = if global {
        (labels::GRAPH, name.to_owned(), "shorten the name of the graph")
    } else {
        let dynamo_namespace = names::dynamo_namespace(namespace, name, false);
        (labels::DYNAMO_NAMESPACE, dynamo_namespace, "shorten the name of the graph or of its namespace")
    };
    let max = names::LABEL_MAX;
    let problem = || format!("gives the label {label} the value {value:?}, which has more than {max} characters");
    (value.len() > max).then(|| (problem(), remedy))
}

/// Text for a component whose name makes names of `length` characters on Grove. The schema has no such rule; the graph
/// controller checks it where no webhook server runs.
#[must_use]
pub fn combined_name(length: usize) -> String {
    format!("makes names on Grove of {length} characters, and it takes {GROVE_COMBINED_MAX}")
}

/// Remedy for a component whose name makes names that are too long.
pub const COMBINED_NAME_REMEDY: &str = "shorten the name of the component";

/// `modelName` of a model is empty.
pub const MODEL_NAME: &str = "write the name of the model that clients send";
/// `baseModelName` of a model is empty.
pub const BASE_MODEL_NAME: &str = "name the model that the workers serve";
/// A search that measures, without an engine to measure.
pub const THOROUGH: &str = "is not possible with spec.backend auto; set spec.backend to one of: sglang, trtllm, vllm";

/// An order for a parallel restart.
pub const PARALLEL_ORDER: &str = "a parallel restart has no order; remove it, or use type Sequential";
/// A restart while workers change.
pub const RESTART_IN_UPDATE: &str = "cannot change while a rolling update is under way; wait until it is done";
/// Components have topology constraints, and no topology is named.
pub const TOPOLOGY: &str = "components have constraints; name the topology that they are about";
/// A topology without a domain.
pub const PACK_DOMAIN: &str = "no component has a constraint either; name the domain in which pods are to be packed";
/// A topology with a name that is not valid.
pub const OBJECT_NAME: &str =
    "is no name of an object; use lower-case letters, digits, '-' and '.', at most 253 of them";
/// A volume of v1alpha1 without a name.
pub const CLAIM_NAME: &str = "name the PersistentVolumeClaim";

/// Remedy for a size that `/dev/shm` cannot have.
pub const MEMORY_SIZE: &str = "give a size such as 8Gi, or 0 for a pod without memory-backed /dev/shm";
/// An endpoint picker on several nodes.
pub const PICKER_NODES: &str = "an endpoint picker runs on one node; remove the field";
/// Several endpoint pickers.
pub const PICKER_REPLICAS: &str = "an endpoint picker runs once; write 1, or remove the field";
/// An endpoint picker without configuration.
pub const PICKER_CONFIG: &str =
    "an endpoint picker needs its configuration; set eppConfig.config or eppConfig.configMapRef";
/// A configuration in a ConfigMap without name.
pub const PICKER_CONFIG_MAP: &str = "name the ConfigMap with the configuration";
/// Two configurations, or none.
pub const PICKER_ONE_CONFIG: &str = "set exactly one of configMapRef and config";
/// A sidecar of a component without pods.
pub const SIDECAR_WITHOUT_POD: &str = "frontendSidecar names a container, and there is none; name a container beside main \
                                       that answers HTTP, or remove the field";
/// A sidecar that is no container.
pub const SIDECAR_UNKNOWN: &str = "names no container of podTemplate.spec.containers; name a container beside main that \
                                   answers HTTP, or remove the field";
/// A sidecar that is the component itself.
pub const SIDECAR_MAIN: &str = "names the container main, which runs the component itself; name a container beside it that \
                                answers HTTP, or remove the field";
/// An ingress without a host.
pub const INGRESS_HOST: &str = "name the host under which the component is reached, or set enabled to false";

/// A GPU memory service for a component without engine.
pub const MEMORY_TYPE: &str =
    "is for components of type worker, prefill or decode; remove the field, or change the type";
/// Standby engines without shared memory.
pub const FAILOVER_ALONE: &str = "needs the GPU memory service; set experimental.gpuMemoryService, or remove the field";
/// Standby engines elsewhere than the memory.
pub const FAILOVER_MODE: &str = "differs from gpuMemoryService.mode; give both the same mode: engines take over from each \
                                 other where they share memory";
/// Several standby engines within a pod.
pub const SHADOWS: &str = "a pod has at most one standby engine; write 1, or share GPU memory between pods";
/// A checkpoint of several pods.
pub const CHECKPOINT_BETWEEN_PODS: &str =
    "checkpoints do not cover GPU memory that is shared between pods; use mode IntraPod";
/// A checkpoint of several engines.
pub const CHECKPOINT_FAILOVER: &str = "checkpoints do not cover engines with failover; remove one of the two";
/// Clients without a GPU memory service.
pub const CLIENTS_ALONE: &str =
    "there is no GPU memory service; set experimental.gpuMemoryService, or remove the field";
/// Clients within a pod of memory between pods.
pub const CLIENTS_BETWEEN_PODS: &str = "is for GPU memory within a pod; use mode IntraPod, or remove the field";
/// A feature of Grove, for a component without a graph.
pub const ONLY_ON_GROVE: &str = "is for components of graphs that Grove runs; remove it";

/// A change between one node and several.
pub const NODES_STAY: &str = "one node cannot become several, nor several one";
/// A change of GPU memory between `IntraPod` and `InterPod`.
pub const MEMORY_STAYS: &str = "GPU memory cannot begin or cease to be shared between pods";
/// A change of failover between `IntraPod` and `InterPod`.
pub const FAILOVER_STAYS: &str = "failover between pods cannot be switched on or off";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_read_as_those_of_the_api_server() {
        let of_text = |reason, value: &str, text| Violation::<String>::of_text("spec.a", reason, value, text);
        for (violation, text) in [
            (Violation::required("spec.a", "name it", ""), "spec.a: Required value: name it"),
            (Violation::invalid("spec.a", "x", "is old", "use y"), "spec.a: Invalid value: \"x\": is old; use y"),
            (Violation::invalid("spec.a", 3, "use 2", ""), "spec.a: Invalid value: 3: use 2"),
            (Violation::forbidden("spec.a", "leave it", ""), "spec.a: Forbidden: leave it"),
            (of_text(Reason::Duplicate, "x", ""), "spec.a: Duplicate value: \"x\""),
            (
                of_text(Reason::NotSupported, "x", &supported(&["y", "z"])),
                "spec.a: Unsupported value: \"x\": supported values: \"y\", \"z\"",
            ),
            (
                of_text(Reason::Invalid, "x", &immutable("leave it; or delete it")),
                "spec.a: Invalid value: \"x\": field is immutable; leave it; or delete it",
            ),
        ] {
            assert_eq!(violation.in_status(), text);
        }
    }

    #[test]
    fn conditions_show_values_on_one_bearable_line() {
        for (value, text) in [
            (Value::Null, "spec.a: is old; use y".to_owned()),
            (Value::from(""), "spec.a: is old; use y".to_owned()),
            (Value::from("a\nb"), "spec.a (\"a\\nb\"): is old; use y".to_owned()),
            (Value::from("x".repeat(81)), format!("spec.a ({:?}…): is old; use y", "x".repeat(80))),
        ] {
            assert_eq!(Violation::<String>::invalid("spec.a", value, "is old", "use y").to_string(), text);
        }
    }
}
