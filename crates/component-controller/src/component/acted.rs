//! What became of a decision: the input of status, events and retries.

use controller_kit::{apply::ObjectId, failure::Class};
use workload::{NotReady, Readiness};

use super::workload::LiveWorkload;

/// What became of a decision.
#[derive(Clone, Debug, Default)]
pub struct Acted {
    /// What was written, in order.
    pub changes: Vec<Change>,
    /// Objects that have to go before we can go on, as sentences.
    pub waiting: Vec<String>,
    /// What cannot be done for now.
    pub refusals: Vec<Refusal>,
    /// The live workload after all this, if it is ours.
    pub workload: Option<LiveWorkload>,
}

impl Acted {
    /// Adds what became of another part of the decision.
    pub fn append(&mut self, part: Self) {
        self.changes.extend(part.changes);
        self.waiting.extend(part.waiting);
        self.refusals.extend(part.refusals);
        self.workload = part.workload.or(self.workload.take());
    }

    /// Whether a workload is there that wants replicas which do not serve.
    pub fn lacks_replicas(&self) -> bool {
        let lacks = |workload: &LiveWorkload| {
            let workload = workload.get();
            workload.desired_replicas() > 0 && !workload.readiness().is_ready()
        };
        self.workload.as_ref().is_some_and(lacks)
    }

    /// The replicas that the workload was told to have, while its own controller has yet to see that.
    pub fn untold(&self) -> Option<i32> {
        let workload = self.workload.as_ref()?.get();
        (workload.readiness() == Readiness::NotReady(NotReady::NotObserved)).then(|| workload.desired_replicas())
    }
}

/// One object that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What was done.
    pub verb: Verb,
    /// With which object.
    pub object: ObjectId,
    /// Generation of the object afterwards, of kinds that have one.
    pub generation: Option<i64>,
}

/// What was done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is new.
    Created,
    /// It was brought back or forward to what is wanted.
    Updated,
    /// It is no longer wanted.
    Deleted,
}

/// A write that the API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub cause: Cause,
    /// With which object.
    pub object: ObjectId,
    /// The object, the reason and the remedy.
    pub message: String,
}

/// Why a write was refused. The order is that of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// An object of that name belongs to somebody else.
    NameTaken,
    /// The API server rejects the content.
    Rejected,
    /// A right or a quota is missing.
    Forbidden,
    /// A webhook that the API server has to call does not answer.
    Webhook,
}

impl Cause {
    /// The cause behind an error, unless the error goes away by itself.
    pub fn of(class: Class) -> Option<Self> {
        match class {
            Class::Foreign => Some(Self::NameTaken),
            Class::Invalid => Some(Self::Rejected),
            Class::Forbidden => Some(Self::Forbidden),
            Class::Webhook => Some(Self::Webhook),
            Class::Transient => None,
        }
    }
}
