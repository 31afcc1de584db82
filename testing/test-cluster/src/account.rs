//! Accounts with rights of their own.

use serde_json::{Value, json};

/// A ServiceAccount of this name in this namespace, with `role`, a Role of the same name.
#[must_use]
pub fn account(name: &str, namespace: &str, role: Value) -> [Value; 3] {
    let metadata = json!({ "name": name, "namespace": namespace });
    let group = "rbac.authorization.k8s.io";
    [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }),
        role,
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": group, "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }],
        }),
    ]
}
