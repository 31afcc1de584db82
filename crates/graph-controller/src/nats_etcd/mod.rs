//! Health of NATS and etcd, and cleanup of what deleted graphs left in them.
//!
//! Nothing runs without an address in the configuration, and nothing blocks the deletion of an object. The condition of
//! NATS and etcd in the status of graphs is set in this file, without I/O.
//!
//! | file | |
//! |---|---|
//! | `observe.rs` | reads the Secret, connects to the servers, and reads which Dynamo namespaces are in use |
//! | `leftovers.rs` | plans what to remove; pure |
//! | `run.rs` | removes it, and repeats all of this until the process stops |

pub mod leftovers;
pub mod observe;
pub mod run;

use api_types::{conditions, conditions::infrastructure as reason, v1beta1::DynamoGraphDeploymentStatus};
use controller_kit::conditions::{Status, set_condition};
use k8s_openapi::jiff::Timestamp;

pub use self::{
    observe::PlaceCaches,
    run::{HealthReceiver, start},
};

/// Health of NATS and etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// None is configured.
    Unconfigured,
    /// Not checked yet.
    Unknown,
    /// All that are configured can be used.
    Ready,
    /// At least one cannot be used.
    NotReady {
        /// Reason of the condition.
        reason: &'static str,
        /// Server, cause and remedy.
        message: String,
    },
}

/// Sets the condition. An unknown health keeps the previous condition.
pub fn set_health(status: &mut DynamoGraphDeploymentStatus, health: &Health, generation: Option<i64>, now: Timestamp) {
    let (holds, reason, message) = match health {
        Health::Unconfigured => {
            status.conditions.retain(|condition| condition.type_ != conditions::INFRASTRUCTURE_READY);
            return;
        }
        Health::Unknown => return,
        Health::Ready => (true, reason::CONNECTED, "NATS and etcd can be used, as far as they are configured"),
        Health::NotReady { reason, message } => (false, *reason, message.as_str()),
    };
    let type_ = conditions::INFRASTRUCTURE_READY;
    set_condition(&mut status.conditions, type_, Status::from(holds), reason, message, generation, now);
}

#[cfg(test)]
mod tests {
    use controller_kit::conditions::find;

    use super::*;

    #[test]
    fn the_condition_follows_the_health() {
        let mut status = DynamoGraphDeploymentStatus::default();
        let now = Timestamp::UNIX_EPOCH;
        set_health(&mut status, &Health::Unknown, Some(1), now);
        assert!(status.conditions.is_empty());
        let down = Health::NotReady { reason: reason::UNREACHABLE, message: "etcd is down".to_owned() };
        set_health(&mut status, &down, Some(1), now);
        // A controller that starts removes nothing before its first check has ended.
        set_health(&mut status, &Health::Unknown, Some(1), now);
        let reported = find(&status.conditions, conditions::INFRASTRUCTURE_READY).unwrap();
        assert_eq!((reported.status.as_str(), reported.message.as_str()), ("False", "etcd is down"));
        set_health(&mut status, &Health::Ready, Some(1), now);
        assert_eq!(find(&status.conditions, conditions::INFRASTRUCTURE_READY).unwrap().status, "True");
        set_health(&mut status, &Health::Unconfigured, Some(1), now);
        assert!(status.conditions.is_empty());
    }
}
