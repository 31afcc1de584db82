//! When an object is reconciled again.

use std::time::Duration;

/// When an object is reconciled again after a success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Wait for a change of the object or of its children.
    AwaitChange,
    /// Reconcile again after this time, even if nothing changes.
    Requeue(Duration),
}

impl Action {
    /// [`Action::AwaitChange`].
    #[must_use]
    pub fn await_change() -> Self {
        Self::AwaitChange
    }

    /// [`Action::Requeue`].
    #[must_use]
    pub fn requeue(after: Duration) -> Self {
        Self::Requeue(after)
    }

    /// The same, but at the latest after this time.
    #[must_use]
    pub fn no_later_than(self, after: Duration) -> Self {
        match self {
            Self::Requeue(sooner) if sooner < after => self,
            Self::Requeue(_) | Self::AwaitChange => Self::Requeue(after),
        }
    }
}
