//! One step against the API server: its time, its failures, and the object that it is about.

mod error;
mod object_id;

use std::{future::Future, time::Duration};

pub(crate) use self::error::{CORRECTIONS_WINDOW, MAX_CORRECTIONS};
pub use self::{error::Error, object_id::ObjectId};

/// No step against the API server may take longer, the client's own retries included. The API server waits 10 s for a
/// webhook unless its configuration sets another time; its answer, which names the webhook, has to arrive before we
/// give up.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs one step against the API server, for [`STEP_TIMEOUT`] at most. `action` and `object` name it in the error.
///
/// # Errors
/// What the API server answered, or that it did not.
pub async fn timed<T>(
    action: &'static str,
    object: &ObjectId,
    step: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(STEP_TIMEOUT, step).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if is_successor(&error) => Err(Error::Changed { object: object.clone() }),
        Ok(Err(error)) => Err(Error::api(action, object, error)),
        Err(_) => Err(Error::Timeout { action, object: object.clone() }),
    }
}

/// The API server's answer to an apply whose uid is not that of the object of this name: to it, an attempt to change an
/// immutable field. Without any object of this name it says "conflict".
fn is_successor(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid() && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}
