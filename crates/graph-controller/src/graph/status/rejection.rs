//! Turns rejections by the API server into an obstacle of the graph. Pure.

use api_types::conditions::graph as reason;
use controller_kit::{apply::Error, failure::Class};

use crate::graph::model::{Obstacle, Progress};

/// One obstacle for all rejections of a reconcile, with the most urgent reason. `None` if all failures are transient:
/// those change no status.
pub fn rejection<'a>(failed: impl IntoIterator<Item = &'a Error>) -> Option<Obstacle> {
    let mut refused: Vec<_> = failed.into_iter().filter_map(|error| Some((urgency(error.class())?, error))).collect();
    refused.sort_by_key(|(urgency, _)| *urgency);
    let (_, first) = refused.first()?;
    let (ready_reason, progress) = match first.class() {
        Class::Foreign => (reason::FAILED, Progress::Stalled(reason::NAME_TAKEN)),
        Class::Invalid => (reason::FAILED, Progress::Stalled(reason::INVALID_SPEC)),
        // Both end without a change of the spec, and the rest continues.
        Class::Forbidden => (reason::SOME_NOT_READY, Progress::Reconciling(reason::FORBIDDEN)),
        Class::Webhook => (reason::SOME_NOT_READY, Progress::Reconciling(reason::WEBHOOK_UNAVAILABLE)),
        Class::Transient => return None,
    };
    let messages: Vec<_> = refused.iter().map(|(_, error)| error.to_string()).collect();
    Some(Obstacle { ready_reason, progress, message: messages.join("; ") })
}

/// The lower, the more urgent. `None` for what changes no status.
fn urgency(class: Class) -> Option<u8> {
    match class {
        Class::Foreign => Some(0),
        Class::Invalid => Some(1),
        Class::Forbidden => Some(2),
        Class::Webhook => Some(3),
        Class::Transient => None,
    }
}

#[cfg(test)]
mod tests {
    use controller_kit::apply::ObjectId;
    use kube::core::Status;

    use super::*;

    fn object(kind: &str) -> ObjectId {
        ObjectId { group: String::new(), kind: kind.into(), namespace: "team-a".into(), name: "chat".into() }
    }

    fn answer(kind: &str, code: u16, message: &str) -> Error {
        let source = Box::new(kube::Error::Api(Status::failure(message, "").with_code(code).boxed()));
        Error::Api { action: "apply", object: object(kind), source }
    }

    const UNREACHABLE: &str =
        "Internal error occurred: failed calling webhook \"v.example.com\": no endpoints available";

    /// Reference: another client writes at the same time, and the graph is `failed`.
    #[test]
    fn transient_failures_are_no_obstacle() {
        for (code, message) in [(409, ""), (429, ""), (500, "etcdserver: leader changed"), (503, ""), (504, "")] {
            assert_eq!(rejection(&[answer("Role", code, message)]), None, "{code} {message}");
        }
        assert_eq!(rejection(&[Error::Changed { object: object("Role") }]), None);
        assert_eq!(rejection(&[Error::Timeout { action: "create", object: object("Role") }]), None);
        assert_eq!(rejection(&[]), None);
    }

    #[test]
    fn answers_about_one_object_name_it_under_a_reason() {
        let foreign = Error::Foreign { object: object("Role"), reason: "it has no owner".to_owned() };
        for (error, ready, progress) in [
            (foreign, reason::FAILED, Progress::Stalled(reason::NAME_TAKEN)),
            (answer("Role", 422, "x"), reason::FAILED, Progress::Stalled(reason::INVALID_SPEC)),
            (answer("Role", 413, "x"), reason::FAILED, Progress::Stalled(reason::INVALID_SPEC)),
            (answer("Role", 403, "x"), reason::SOME_NOT_READY, Progress::Reconciling(reason::FORBIDDEN)),
            (
                answer("Role", 500, UNREACHABLE),
                reason::SOME_NOT_READY,
                Progress::Reconciling(reason::WEBHOOK_UNAVAILABLE),
            ),
        ] {
            let found = rejection([&error]).unwrap();
            assert_eq!((found.ready_reason, found.progress), (ready, progress), "{error}");
            assert!(found.message.contains("Role team-a/chat"), "{}", found.message);
        }
    }

    #[test]
    fn all_refusals_are_in_the_message_and_the_most_urgent_gives_the_reason() {
        let failed = [
            answer("Ingress", 500, UNREACHABLE),
            answer("Role", 503, "the server is away"),
            answer("ServiceAccount", 422, "a bad name"),
        ];
        let found = rejection(&failed).unwrap();
        assert_eq!(found.progress, Progress::Stalled(reason::INVALID_SPEC));
        let expected = format!(
            "cannot apply ServiceAccount team-a/chat: a bad name; cannot apply Ingress team-a/chat: {UNREACHABLE}"
        );
        assert_eq!(found.message, expected);
    }
}
