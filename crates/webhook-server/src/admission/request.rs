//! Request of the API server, and its sender.

use api_types::names;
use controller_kit::request::is_object_name;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::core::GroupVersionKind;
use serde::Deserialize;
use serde_json::Value;

use super::Facts;

/// One admission request: the `request` of an `AdmissionReview` of version v1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Ties the answer to the request.
    pub uid: String,
    /// The type of [`Request::object`], after the API server has converted it to the version of the rule.
    pub kind: GroupVersionKind,
    /// The type as the user sent it.
    #[serde(default)]
    pub request_kind: Option<GroupVersionKind>,
    /// For example `status`.
    #[serde(default, rename = "subResource")]
    pub subresource: Option<String>,
    /// Requested operation.
    pub operation: Operation,
    /// Name of the object; empty if the API server is to make one up.
    #[serde(default)]
    pub name: String,
    /// Namespace of the object; empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// Sender of the request.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object as it is to be stored; none for a deletion.
    #[serde(default)]
    pub object: Option<Value>,
    /// The object as it is stored; none for a creation.
    #[serde(default)]
    pub old_object: Option<Value>,
}

impl Request {
    /// Whether namespace and name are what the API server lets them be. They become parts of paths.
    #[must_use]
    pub fn is_named_well(&self) -> bool {
        [&self.namespace, &self.name].iter().all(|name| name.is_empty() || is_object_name(name))
    }

    /// Name of the sender, for a ServiceAccount `system:serviceaccount:<namespace>:<name>`. Empty: unknown.
    #[must_use]
    pub fn username(&self) -> &str {
        self.user_info.username.as_deref().unwrap_or_default()
    }
}

/// Operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// A connection to it is opened.
    Connect,
}

impl Operation {
    /// As the API server writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Whether the request comes from the operator itself.
pub(super) fn is_operator(request: &Request, facts: &Facts) -> bool {
    let user = request.username();
    !user.is_empty() && facts.operators.iter().any(|operator| operator == user)
}

/// Whether the user may set replicas that belong to a scaling adapter: the operator, and the planners of the graph's
/// own namespace. A planner of another namespace has no such right. While this install does not hold the namespace,
/// a user who scales there may be the operator.
pub(super) fn may_scale(request: &Request, facts: &Facts) -> bool {
    let account = request.username().strip_prefix(SERVICE_ACCOUNT);
    let of_namespace = account.and_then(|account| account.strip_prefix(request.namespace.as_str())?.strip_prefix(':'));
    let is_planner = !request.namespace.is_empty() && of_namespace == Some(names::PLANNER_SERVICE_ACCOUNT);
    is_planner || is_operator(request, facts) || facts.another_operator
}

/// Whether the user may choose the workload provider. Where the accounts of the operator are not configured, no
/// user could, and graphs without a choice would stay so for ever.
pub(super) fn may_choose_provider(request: &Request, facts: &Facts) -> bool {
    let unknown = facts.operators.is_empty() || facts.another_operator;
    unknown || is_operator(request, facts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::{AdmissionPath, Answer, Facts, review};

    /// As the API server sends it; the spec would be refused in a request for the whole object.
    #[test]
    fn a_request_for_a_subresource_is_admitted() {
        let gvk = json!({ "group": "nvidia.com", "version": "v1beta1", "kind": "DynamoGraphDeployment" });
        let gvr = json!({ "group": "nvidia.com", "version": "v1beta1", "resource": "dynamographdeployments" });
        let object = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": { "name": "g", "namespace": "n" }, "spec": { "components": [] },
        });
        let request = |more: Value| -> Request {
            let mut request = json!({
                "uid": "ae7a2f43-7b7d-4a4b-8a51-1f5b0e2b1f5c", "kind": gvk, "resource": gvr, "requestKind": gvk,
                "requestResource": gvr, "name": "g", "namespace": "n", "operation": "UPDATE",
                "userInfo": { "username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"] },
                "object": object, "oldObject": null, "dryRun": false,
                "options": { "apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions" },
            });
            request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(request).unwrap()
        };
        let whole = review(AdmissionPath::ValidateGraph, &request(json!({})), &Facts::default());
        assert!(matches!(whole, Answer::Deny { .. }), "{whole:?}");
        let status = request(json!({ "subResource": "status", "requestSubResource": "status" }));
        assert_eq!(status.subresource.as_deref(), Some("status"));
        assert_eq!(review(AdmissionPath::ValidateGraph, &status, &Facts::default()), Answer::admitted());
    }
}
