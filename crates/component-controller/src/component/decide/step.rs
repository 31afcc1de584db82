//! Objects that are not always wanted: a Service, a way in from outside.

use controller_kit::{apply::Desired, read::Interruption, store::controller_owner};
use kube::Resource;
use serde::Serialize;

use super::desired;

/// What becomes of an object that is not always wanted.
#[derive(Debug)]
pub enum Step {
    /// It has to be like this.
    Apply(Box<Desired>),
    /// It is ours and no longer wanted.
    Delete,
    /// None is wanted, and none of ours is there.
    Nothing,
}

impl Step {
    /// What becomes of an object that was rendered, or must not be there.
    pub(super) fn of<K>(rendered: Option<K>, live: Option<&K>, uid: &str) -> Result<Self, Interruption>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        if let Some(rendered) = rendered {
            return Ok(Self::Apply(Box::new(desired(&rendered, uid, true)?)));
        }
        let ours = live.and_then(controller_owner).is_some_and(|owner| owner.uid == uid);
        let going = live.is_some_and(|live| live.meta().deletion_timestamp.is_some());
        Ok(if ours && !going { Self::Delete } else { Self::Nothing })
    }
}
