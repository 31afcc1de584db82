//! Removes status fields that the upstream operator set and we do not set.
//!
//! Server-side apply removes a field only if no other manager owns it. The upstream operator wrote statuses by updates,
//! so its fields would stay for ever. The API server ignores `managedFields` in requests for a subresource; the fields
//! themselves go.

use kube::core::ApiResource;
use serde_json::{Value, json};
use tracing::info;

use super::{Applier, plan::text, same_status};
use crate::{
    metrics::WriteVerb,
    request::{Error, ObjectId},
};

/// Field manager of the upstream operator's updates: the name of its binary.
const UPSTREAM_MANAGER: &str = "manager";

impl Applier {
    /// Replaces the status by what was applied, if the answer differs and the upstream operator owns a part of it.
    /// Returns the object as it is then. A status with a third manager is left as it is.
    ///
    /// # Errors
    /// [`Error::Changed`] if the object changed after the answer; otherwise what the API server answered.
    pub(super) async fn remove_old_status(
        &self,
        resource: &ApiResource,
        id: &ObjectId,
        uid: &str,
        applied: &Value,
        answer: Value,
    ) -> Result<Value, Error> {
        if same_status(&answer["status"], applied) || !is_upstream_status(&answer, &self.status_manager()) {
            return Ok(answer);
        }
        let operations = json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "test", "path": "/metadata/resourceVersion", "value": text(&answer, "/metadata/resourceVersion") },
            { "op": "replace", "path": "/status", "value": applied },
        ]);
        let answer =
            self.edit("remove old fields from the status of", (resource, id), WriteVerb::Status, operations).await?;
        info!(object = %id, "removed status fields of the upstream operator");
        Ok(answer)
    }

    /// The field manager of statuses.
    pub(super) fn status_manager(&self) -> String {
        format!("{}/status", self.field_manager)
    }
}

/// True if updates of the upstream operator own a part of the status, and no manager but it and `ours` does.
fn is_upstream_status(object: &Value, ours: &str) -> bool {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let of_status = entries.into_iter().flatten().filter(|entry| !entry["fieldsV1"]["f:status"].is_null());
    let mut others = of_status.filter(|entry| entry["manager"] != ours).peekable();
    others.peek().is_some()
        && others.all(|entry| entry["manager"] == UPSTREAM_MANAGER && entry["operation"] == "Update")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::is_upstream_status;

    fn entry(manager: &str, operation: &str, part: &str) -> Value {
        json!({ "manager": manager, "operation": operation, "fieldsV1": { part: { "f:x": {} } } })
    }

    #[test]
    fn a_status_with_a_third_manager_is_left_as_it_is() {
        let is =
            |entries: &[Value]| is_upstream_status(&json!({ "metadata": { "managedFields": entries } }), "us/status");
        let ours = entry("us/status", "Apply", "f:status");
        let upstream = entry("manager", "Update", "f:status");
        assert!(is(&[ours.clone(), upstream.clone()]));
        assert!(is(&[ours.clone(), upstream.clone(), entry("kubectl", "Update", "f:spec")]));
        assert!(!is(&[ours.clone(), upstream.clone(), entry("agent", "Apply", "f:status")]));
        assert!(!is(&[ours.clone(), entry("manager", "Update", "f:spec")]));
        assert!(!is(&[ours.clone(), entry("manager", "Apply", "f:status")]));
        assert!(!is(&[ours]));
    }
}
