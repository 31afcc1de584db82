//! What is told of NATS and etcd in a graph's status.

use api_types::{
    conditions::{self, infrastructure as reason},
    v1beta1::DynamoGraphDeploymentStatus,
};
use controller_kit::conditions::{Status, set_condition};
use k8s_openapi::jiff::Timestamp;

/// Whether NATS and etcd can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None is configured.
    Unconfigured,
    /// They have not been asked yet.
    Unknown,
    /// Every one that is configured.
    Ready,
    /// At least one cannot be.
    NotReady {
        /// Reason of the condition.
        reason: &'static str,
        /// Which, why, and what helps.
        message: String,
    },
}

/// Writes the verdict into a status. As long as nothing is known, what was told before stays.
pub fn tell(status: &mut DynamoGraphDeploymentStatus, verdict: &Verdict, generation: Option<i64>, now: Timestamp) {
    let (holds, reason, message) = match verdict {
        Verdict::Unconfigured => {
            status.conditions.retain(|condition| condition.type_ != conditions::INFRASTRUCTURE_READY);
            return;
        }
        Verdict::Unknown => return,
        Verdict::Ready => (true, reason::CONNECTED, "NATS and etcd can be used, as far as they are configured"),
        Verdict::NotReady { reason, message } => (false, *reason, message.as_str()),
    };
    let type_ = conditions::INFRASTRUCTURE_READY;
    set_condition(&mut status.conditions, type_, Status::from(holds), reason, message, generation, now);
}

#[cfg(test)]
mod tests {
    use controller_kit::conditions::find;

    use super::*;

    #[test]
    fn the_condition_follows_the_verdict() {
        let mut status = DynamoGraphDeploymentStatus::default();
        let now = Timestamp::UNIX_EPOCH;
        tell(&mut status, &Verdict::Unknown, Some(1), now);
        assert!(status.conditions.is_empty());
        let down = Verdict::NotReady { reason: reason::UNREACHABLE, message: "etcd is down".to_owned() };
        tell(&mut status, &down, Some(1), now);
        // A controller that starts takes nothing back before it knows better.
        tell(&mut status, &Verdict::Unknown, Some(1), now);
        let told = find(&status.conditions, conditions::INFRASTRUCTURE_READY).unwrap();
        assert_eq!((told.status.as_str(), told.message.as_str()), ("False", "etcd is down"));
        tell(&mut status, &Verdict::Ready, Some(1), now);
        assert_eq!(find(&status.conditions, conditions::INFRASTRUCTURE_READY).unwrap().status, "True");
        tell(&mut status, &Verdict::Unconfigured, Some(1), now);
        assert!(status.conditions.is_empty());
    }
}
