//! Reads the manifest in the archive of a DynamoComponent, for graphs whose services do not specify what they run.
//!
//! Tenants choose archives, so a read is limited in bytes, entries, time and number, and reaches no address inside the
//! machine, the link or the control plane unless the API store has it. A few reads run at a time, one for each
//! namespace, and after a failure the next one comes after a pause.
//!
//! The archive is read as a stream, up to the manifest; a blocking thread reads the pieces of the answer. The status
//! keeps the result, so an archive is read once for each generation.

pub mod parse;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, Read},
    sync::Mutex,
    time::{Duration, Instant},
};

use api_types::{
    annotations,
    conditions::image_build as reason,
    labels,
    v1alpha1::{ArchiveManifest, DynamoComponent},
};
use bytes::Bytes;
use controller_kit::{conditions::find, fairness::Backoff, store::Key, sync::locked};
use http::{Request, Uri};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use outbound::{Limits, Outbound, OutboundError};
use tokio::sync::{mpsc, mpsc::Receiver};

use super::model::ImageBuildObstacle;

/// Limits of a read. The parser gives up before, at 64 MiB.
const LIMITS: Limits = Limits { patience: Duration::from_secs(15), longest: 65 << 20 };
/// Pieces of an archive that wait for the parser.
const PIECES: usize = 4;

/// Whether a graph needs the manifest and the status has no final result for the present generation.
pub fn is_due(component: &DynamoComponent) -> bool {
    let is_needed = component.annotations().get(annotations::READ_MANIFEST).is_some_and(|value| value == labels::TRUE);
    let is_final = component.status.as_ref().is_some_and(|status| {
        // A definition of an earlier release drops the manifest.
        let is_final =
            |read: &Condition| (read.status == "True" && status.manifest.is_some()) || read.reason == reason::INVALID;
        let read = find(&status.conditions, reason::MANIFEST_READ);
        read.is_some_and(|read| read.observed_generation == component.metadata.generation && is_final(read))
    });
    is_needed && !is_final
}

/// Checks that the operator can read an address. The pod of a build may read others.
///
/// # Errors
/// It cannot.
pub fn check_scheme(address: &str) -> Result<(), ImageBuildObstacle> {
    if ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme)) {
        return Ok(());
    }
    let text = "the operator reads manifests by http:// and https:// only; set dynamoTag for each service of the graph";
    Err(ImageBuildObstacle::Blocked(text.to_owned()))
}

/// Reads the manifest of the archive at `address`, which is shown as `shown`.
pub async fn read(client: &Outbound, address: &Uri, shown: &str) -> Result<ArchiveManifest, ImageBuildObstacle> {
    let unreachable =
        |why: &dyn std::fmt::Display| ImageBuildObstacle::Unreachable(format!("manifest of the archive: {why}"));
    let request = Request::get(address).body(Bytes::new()).map_err(|error| unreachable(&error))?;
    let (pieces, receiver) = mpsc::channel(PIECES);
    let parsed = tokio::task::spawn_blocking(move || parse::read(Pieces { receiver, rest: Bytes::new() }));
    let answer = client.stream(request, LIMITS, pieces).await;
    let parsed = parsed.await;
    match (answer, parsed) {
        (Ok(status), _) if !status.is_success() => Err(unreachable(&format!("{shown} answered {status}"))),
        (_, Ok(Ok(manifest))) => Ok(manifest),
        (Err(error @ OutboundError::Inside { .. }), _) => {
            Err(ImageBuildObstacle::Blocked(format!("manifest of the archive: {error}")))
        }
        (Err(error), _) => Err(unreachable(&error)),
        (Ok(_), Ok(Err(error))) => Err(ImageBuildObstacle::Invalid(format!("archive {shown}: {error}"))),
        (Ok(_), Err(error)) => Err(unreachable(&error)),
    }
}

/// Reads pieces as they arrive. The end of the sender is the end of the text.
struct Pieces {
    receiver: Receiver<Bytes>,
    rest: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.rest = piece,
                None => return Ok(0),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(buffer.len()));
        buffer[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}

/// Most reads at a time.
const MAX_READS: usize = 4;
/// Pause of a component whose turn has not come.
const NEXT_TURN: Duration = Duration::from_secs(2);

/// Reads in progress, and pauses after failures.
#[derive(Debug, Default)]
pub struct ReadSlots(Mutex<ReadState>);

#[derive(Debug, Default)]
struct ReadState {
    /// Namespaces with a read in progress.
    reading: BTreeSet<String>,
    backoff: Backoff<Key>,
    /// Generation that failed, and the end of the pause.
    pauses: HashMap<Key, (Option<i64>, Instant)>,
}

/// A read in progress.
#[derive(Debug)]
pub struct ReadSlot<'a> {
    slots: &'a ReadSlots,
    namespace: String,
}

impl Drop for ReadSlot<'_> {
    fn drop(&mut self) {
        locked(&self.slots.0).reading.remove(&self.namespace);
    }
}

impl ReadSlots {
    /// A slot for a read of this generation.
    ///
    /// # Errors
    /// The time to wait for one.
    pub fn try_acquire(&self, key: &Key, generation: Option<i64>, now: Instant) -> Result<ReadSlot<'_>, Duration> {
        let mut state = locked(&self.0);
        if let Some((_, end)) = state.pauses.get(key).filter(|(failed, end)| *failed == generation && *end > now) {
            return Err(end.duration_since(now));
        }
        if state.reading.len() >= MAX_READS || !state.reading.insert(key.namespace.clone()) {
            return Err(NEXT_TURN);
        }
        Ok(ReadSlot { slots: self, namespace: key.namespace.clone() })
    }

    /// Records a failure, and returns the pause after it.
    pub fn failed(&self, key: &Key, generation: Option<i64>, now: Instant) -> Duration {
        let mut state = locked(&self.0);
        let pause = state.backoff.next(key);
        state.pauses.insert(key.clone(), (generation, now + pause));
        pause
    }

    /// Forgets the failures of a component that was read, or is gone.
    pub fn clear(&self, key: &Key) {
        let mut state = locked(&self.0);
        state.backoff.clear(key);
        state.pauses.remove(key);
    }
}
