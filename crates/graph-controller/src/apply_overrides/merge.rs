//! Lays a part of an object over the whole, lists by the names of their entries.

use serde_json::Value;

/// Default protocol of a port.
const PROTOCOL: (&str, &str) = ("protocol", "TCP");

/// Merges `part` into `whole`, which is at `path`.
pub(super) fn merge(whole: &mut Value, part: &Value, path: &str) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) if !is_atomic(path) => {
            for (key, value) in part {
                match whole.get_mut(key) {
                    Some(known) => merge(known, value, &below(path, key)),
                    None => drop(whole.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(whole), Value::Array(part)) => match list(path) {
            List::Keyed(keys) => {
                for item in part {
                    match whole.iter_mut().find(|known| same(known, item, keys)) {
                        Some(known) => merge(known, item, &format!("{path}[]")),
                        None => whole.push(item.clone()),
                    }
                }
            }
            List::Set => part.iter().for_each(|item| {
                if !whole.contains(item) {
                    whole.push(item.clone());
                }
            }),
            List::Atomic => whole.clone_from(part),
        },
        (whole, part) => whole.clone_from(part),
    }
}

fn same(one: &Value, other: &Value, keys: &[&str]) -> bool {
    let (protocol, default) = (PROTOCOL.0, Value::from(PROTOCOL.1));
    keys.iter().all(|key| {
        let of = |item: &Value| item.get(*key).cloned().or_else(|| (*key == protocol).then(|| default.clone()));
        of(one) == of(other)
    })
}

/// Lists whose items are found again by these fields, by the name of the list, as the definitions have it. A test
/// compares.
const KEYED: [(&str, &[&str]); 16] = [
    ("claims", &["name"]),
    ("components", &["name"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("extraClientPods", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];
/// Lists of these names that are replaced nevertheless.
const REPLACED: [&str; 3] = [".spec.env", ".spec.services.*.volumeMounts", ".spec.services.*.resources.claims"];
/// Lists that are sets.
const SETS: [&str; 2] = ["extraClientContainers", "gmsClientContainers"];
/// Objects that are replaced as a whole.
const ATOMIC: [&str; 14] = [
    "configMapKeyRef",
    "configMapRef",
    "dataSource",
    "fieldRef",
    "fileKeyRef",
    "labelSelector",
    "namespaceSelector",
    "nodePublishSecretRef",
    "nodeSelector",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "resourceFieldRef",
    "secretKeyRef",
    "secretRef",
    "selector",
];

/// Merge strategy of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Item by item, found by these fields.
    Keyed(&'static [&'static str]),
    /// Set to which missing items are added.
    Set,
    /// Replaced.
    Atomic,
}

/// Returns the merge strategy of the list at a path. Names of services are written as `*`.
pub(super) fn list(path: &str) -> List {
    let field = path.rsplit('.').next().unwrap_or_default();
    let keyed = KEYED.iter().find(|(name, _)| *name == field && !REPLACED.contains(&path));
    match keyed {
        Some((_, keys)) => List::Keyed(keys),
        None if SETS.contains(&field) => List::Set,
        None => List::Atomic,
    }
}

/// Whether an object is replaced as a whole.
pub(super) fn is_atomic(path: &str) -> bool {
    ATOMIC.contains(&path.rsplit('.').next().unwrap_or_default())
}

/// The place of a field.
pub(super) fn below(path: &str, field: &str) -> String {
    if path == ".spec.services" { format!("{path}.*") } else { format!("{path}.{field}") }
}
