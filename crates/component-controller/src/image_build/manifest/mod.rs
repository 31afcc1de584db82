//! Reads the manifest in the archive of a DynamoComponent, for graphs whose services do not say what they run.
//!
//! Tenants choose archives, so a read is limited in bytes, entries, time and number, and reaches no address inside the
//! machine, the link or the control plane unless the API store has it. The archive is read as a stream, up to the
//! manifest. The status keeps the result, so an archive is read once for each generation.

pub mod parse;
mod slots;
mod stream;

use std::time::Duration;

use api_types::{
    annotations,
    conditions::image_build as reason,
    labels,
    v1alpha1::{ArchiveManifest, DynamoComponent},
};
use bytes::Bytes;
use controller_kit::conditions::find;
use http::{Request, Uri};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use outbound::{Error, Limits, Outbound};
pub use slots::ReadSlots;
use tokio::sync::mpsc;

use self::stream::Pieces;
use super::model::Obstacle;

/// Limits of a read. The parser gives up before, at 64 MiB.
const LIMITS: Limits = Limits { patience: Duration::from_secs(15), longest: 65 << 20 };
/// Pieces of an archive that wait for the parser.
const PIECES: usize = 4;

/// Whether a graph asks for the manifest and the status has no final result for the present generation.
pub fn is_due(component: &DynamoComponent) -> bool {
    let annotations = component.metadata.annotations.as_ref();
    let asks =
        annotations.and_then(|all| all.get(annotations::READ_MANIFEST)).is_some_and(|value| value == labels::TRUE);
    let is_final = component.status.as_ref().is_some_and(|status| {
        // A definition of an earlier release drops the manifest.
        let is_final =
            |read: &Condition| (read.status == "True" && status.manifest.is_some()) || read.reason == reason::INVALID;
        let read = find(&status.conditions, reason::MANIFEST_READ);
        read.is_some_and(|read| read.observed_generation == component.metadata.generation && is_final(read))
    });
    asks && !is_final
}

/// Checks that the operator can read an address. The pod of a build may read others.
///
/// # Errors
/// It cannot.
pub fn check_scheme(address: &str) -> Result<(), Obstacle> {
    if ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme)) {
        return Ok(());
    }
    let text = "the operator reads manifests by http:// and https:// only; set dynamoTag for each service of the graph";
    Err(Obstacle::Blocked(text.to_owned()))
}

/// Reads the manifest of the archive at `address`, which is shown as `shown`.
pub async fn read(client: &Outbound, address: &Uri, shown: &str) -> Result<ArchiveManifest, Obstacle> {
    let unreachable = |why: &dyn std::fmt::Display| Obstacle::Unreachable(format!("manifest of the archive: {why}"));
    let request = Request::get(address).body(Bytes::new()).map_err(|error| unreachable(&error))?;
    let (pieces, receiver) = mpsc::channel(PIECES);
    let parsed = tokio::task::spawn_blocking(move || parse::read(Pieces::new(receiver)));
    let answer = client.stream(request, LIMITS, pieces).await;
    let parsed = parsed.await;
    match (answer, parsed) {
        (Ok(status), _) if !status.is_success() => Err(unreachable(&format!("{shown} answered {status}"))),
        (_, Ok(Ok(manifest))) => Ok(manifest),
        (Err(error @ Error::Inside { .. }), _) => Err(Obstacle::Blocked(format!("manifest of the archive: {error}"))),
        (Err(error), _) => Err(unreachable(&error)),
        (Ok(_), Ok(Err(error))) => Err(Obstacle::Invalid(format!("archive {shown}: {error}"))),
        (Ok(_), Err(error)) => Err(unreachable(&error)),
    }
}

#[cfg(test)]
mod tests;
