//! I/O out: removes what nobody uses any more from NATS and etcd. It runs beside everything else, and nothing waits for it.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::leftovers::{Leftovers, Place};
use super::observe::{Places, Source};
use super::status::Verdict;

/// How often it is looked which places are in use. Only caches are read.
const PAUSE: Duration = Duration::from_secs(5);

/// Cleans places as they fall out of use. What fell out of use while no operator ran is not seen: there is no memory, and keys with
/// a lease go by themselves.
pub async fn clean(source: Source, places: Places) {
    places.known().await;
    let start = Instant::now();
    let mut leftovers = Leftovers::default();
    loop {
        for place in leftovers.see(places.in_use(), start.elapsed()) {
            match remove(&source, &place).await {
                Ok(()) => leftovers.cleaned(&place),
                Err(error) => {
                    let again = leftovers.failed(&place, start.elapsed());
                    warn!(?place, error, again, "cannot remove what is left in NATS or etcd");
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn remove(source: &Source, place: &Place) -> Result<(), String> {
    let servers = source.servers().await.map_err(|verdict| match verdict {
        Verdict::NotReady { message, .. } => message,
        Verdict::Ready | Verdict::Unknown | Verdict::Unconfigured => String::new(),
    })?;
    let (mut keys, mut streams) = (0, 0);
    match place {
        Place::Namespace(namespace) => {
            if let Some(etcd) = &servers.etcd {
                keys = etcd.remove_namespace(namespace).await.map_err(|error| error.to_string())?;
            }
            if let Some(nats) = &servers.nats {
                streams = nats.remove_namespace(namespace).await.map_err(|error| error.to_string())?;
            }
        }
        Place::Component { namespace, name } => {
            if let Some(etcd) = &servers.etcd {
                keys = etcd.remove_component(namespace, name).await.map_err(|error| error.to_string())?;
            }
        }
    }
    if keys + streams > 0 {
        info!(?place, keys, streams, "removed what was left in NATS and etcd");
    }
    Ok(())
}
