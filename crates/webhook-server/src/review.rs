//! `AdmissionReview`: what the API server sends and what it is answered.

use api_types::violations::Violation;
use json_patch::Patch;
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admission::{Answer, Request};

/// The one supported version.
const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A body that is no admission request.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or not of the form.
    #[error("not an AdmissionReview: {0}")]
    Form(#[from] serde_json::Error),
    /// Another type.
    #[error("{found:?} cannot be answered; send {KIND} of {API_VERSION}")]
    Type {
        /// `apiVersion` and `kind`.
        found: String,
    },
    /// The review has no request.
    #[error("request: missing; send an {KIND} with a request")]
    NoRequest,
    /// No API server sends such names.
    #[error("request.namespace or request.name: not a name in Kubernetes")]
    Name,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

/// Reads an `AdmissionReview`.
///
/// # Errors
/// If it is none, or holds no request.
pub fn decode(body: &[u8]) -> Result<Request, DecodeError> {
    let review: AdmissionReview = serde_json::from_slice(body)?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(DecodeError::Type { found: format!("{} {}", review.api_version, review.kind) });
    }
    let request = review.request.ok_or(DecodeError::NoRequest)?;
    if request.is_named_well() { Ok(request) } else { Err(DecodeError::Name) }
}

/// The `AdmissionReview` with the answer to a request.
#[must_use]
pub fn encode(request: &Request, answer: &Answer) -> Value {
    let mut response = json!({ "uid": request.uid });
    let warnings = match answer {
        Answer::Allow { patch, warnings } => {
            response["allowed"] = json!(true);
            if !patch.is_empty() {
                // A patch is plain data.
                let patch = serde_json::to_vec(&Patch(patch.clone())).unwrap_or_default();
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(ByteString(patch));
            }
            warnings
        }
        Answer::Deny { violations, warnings } => {
            response["allowed"] = json!(false);
            response["status"] = rejection(request, violations);
            warnings
        }
    };
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response })
}

/// The `Status` that the user is shown, in the form of the API server's own for fields that are not valid.
fn rejection(request: &Request, violations: &[Violation]) -> Value {
    let kind = &request.kind;
    let cause = |violation: &Violation| json!({ "reason": violation.reason.as_str(), "message": violation.cause(), "field": violation.path });
    let causes: Vec<_> = violations.iter().map(cause).collect();
    json!({
        "status": "Failure",
        "code": UNPROCESSABLE,
        "reason": "Invalid",
        "message": message(request, violations),
        "details": { "name": request.name, "group": kind.group, "kind": kind.kind, "causes": causes },
    })
}

/// HTTP status of an object that is not valid.
const UNPROCESSABLE: u16 = 422;

fn message(request: &Request, violations: &[Violation]) -> String {
    let kind = &request.kind;
    let of = if kind.group.is_empty() { kind.kind.clone() } else { format!("{}.{}", kind.kind, kind.group) };
    let texts: Vec<_> = violations.iter().map(Violation::in_status).collect();
    let list = match texts.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    };
    format!("{of} {:?} is invalid: {list}", request.name)
}

#[cfg(test)]
mod tests {
    use json_patch::PatchOperation;

    use super::*;

    fn review() -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "request": {
                "uid": "u", "operation": "CREATE", "name": "chat", "namespace": "team",
                "kind": { "group": "nvidia.com", "version": "v1beta1", "kind": "DynamoGraphDeployment" },
                "resource": { "group": "nvidia.com", "version": "v1beta1", "resource": "dynamographdeployments" },
                "userInfo": { "username": "ann", "extra": { "a": ["b"] } },
                "object": { "spec": {} }, "oldObject": null, "dryRun": true, "options": { "kind": "CreateOptions" },
            },
        })
    }

    fn request() -> Request {
        decode(&serde_json::to_vec(&review()).unwrap()).unwrap()
    }

    #[test]
    fn a_request_is_read() {
        let request = request();
        assert_eq!((request.uid.as_str(), request.name.as_str(), request.namespace.as_str()), ("u", "chat", "team"));
        assert_eq!(request.username(), "ann");
        assert_eq!((request.object, request.old_object), (Some(json!({ "spec": {} })), None));
    }

    #[test]
    fn what_is_no_review_is_named() {
        let mut other = review();
        other["apiVersion"] = json!("admission.k8s.io/v1beta1");
        let mut empty = review();
        empty["request"] = Value::Null;
        let mut odd = review();
        odd["request"]["operation"] = json!("PATCH");
        let [mut query, mut above] = [review(), review()];
        query["request"]["namespace"] = json!("team/dynamographdeployments?watch=true&x=");
        above["request"]["name"] = json!("..");
        for (body, text) in [
            (other.to_string(), "\"admission.k8s.io/v1beta1 AdmissionReview\" cannot be answered"),
            (empty.to_string(), "request: missing"),
            (query.to_string(), "request.namespace"),
            (above.to_string(), "request.name"),
            (odd.to_string(), "unknown variant `PATCH`"),
            ("{".to_owned(), "not an AdmissionReview"),
            (String::new(), "not an AdmissionReview"),
        ] {
            let error = decode(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn admission_without_a_change_says_no_more_than_that() {
        let answer = encode(&request(), &Answer::admitted());
        assert_eq!(answer["response"], json!({ "uid": "u", "allowed": true }));
    }

    #[test]
    fn a_patch_is_sent_in_base64() {
        let operation: PatchOperation =
            serde_json::from_value(json!({ "op": "add", "path": "/spec/a", "value": 1 })).unwrap();
        let answer = Answer::Allow { patch: vec![operation], warnings: vec!["old".to_owned()] };
        let answer = encode(&request(), &answer);
        let patch: ByteString = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
        let patch: Value = serde_json::from_slice(&patch.0).unwrap();
        assert_eq!(patch, json!([{ "op": "add", "path": "/spec/a", "value": 1 }]));
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        assert_eq!(answer["response"]["warnings"], json!(["old"]));
    }

    #[test]
    fn a_rejection_holds_every_violation() {
        let violations =
            vec![Violation::required("spec.a", "name it", ""), Violation::forbidden("spec.b", "leave it", "")];
        let answer = encode(&request(), &Answer::of(violations, Vec::new()));
        let status = &answer["response"]["status"];
        assert_eq!(
            status["message"],
            "DynamoGraphDeployment.nvidia.com \"chat\" is invalid: \
             [spec.a: Required value: name it, spec.b: Forbidden: leave it]"
        );
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
        assert_eq!(
            status["details"]["causes"][1],
            json!({ "reason": "FieldValueForbidden", "message": "Forbidden: leave it", "field": "spec.b" })
        );
    }
}
