//! The watches of an operator, held again by a client.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use futures::{
    AsyncBufReadExt, TryStreamExt,
    future::try_join_all,
    io::{AsyncBufRead, copy_buf, sink},
};
use http::{Request, header::ACCEPT};
use kube::Client;
use tokio::task::JoinSet;

use super::audit::Event;

/// Parameters that distinguish watches. The others are about how one was begun.
const KEPT: [&str; 3] = ["watch=", "labelSelector=", "fieldSelector="];

/// Parameters of a watch that brings all objects first, and their end.
const INITIAL: &str = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// Annotation of the bookmark after them.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// Resources of which controllers watch the metadata only. That is not in the audit log; where one of several watches
/// brings whole objects, the client is sent less than the operator.
const METADATA_ONLY: [&str; 5] =
    ["pods", "serviceaccounts", "secrets", "persistentvolumeclaims", "customresourcedefinitions"];
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Addresses of the watches that the users hold. One that was begun again counts once.
pub(super) fn watches(events: &[Event], users: &[&str]) -> Vec<String> {
    let begun = events.iter().filter_map(|event| event.watched(users));
    let held: BTreeSet<_> = begun.map(|(user, address)| (user, distinctive(address))).collect();
    held.into_iter().map(|(_, address)| address).collect()
}

/// Begins the watches, and reads them until the tasks are dropped. What they bring is not looked at.
pub(super) async fn hold(client: &Client, addresses: &[String]) -> Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    for address in addresses {
        let brought = begin(client, address, address).await?;
        tasks.spawn(async move {
            // It ends with the API server.
            let _ = copy_buf(Box::pin(brought), &mut sink()).await;
        });
    }
    Ok(tasks)
}

/// Reads the initial state of the watches, of all at once, and looks at nothing in it but its end.
pub(super) async fn read_initial(client: &Client, addresses: &[String]) -> Result<()> {
    let reads = addresses.iter().map(async |address| -> Result<()> {
        let mut lines = Box::pin(begin(client, address, &format!("{address}{INITIAL}")).await?).lines();
        while let Some(line) = lines.try_next().await? {
            if line.contains(INITIAL_END) {
                return Ok(());
            }
        }
        bail!("{address} ended before it had brought all")
    });
    try_join_all(reads).await.map(drop)
}

async fn begin(client: &Client, address: &str, uri: &str) -> Result<impl AsyncBufRead + use<>> {
    let request = Request::get(uri).header(ACCEPT, accepted(address)).body(Vec::new())?;
    client.request_stream(request).await.with_context(|| format!("cannot watch {address}"))
}

fn accepted(address: &str) -> &'static str {
    let path = address.split('?').next().unwrap_or_default();
    let resource = path.rsplit('/').next().unwrap_or_default();
    if METADATA_ONLY.contains(&resource) { METADATA } else { "application/json" }
}

fn distinctive(address: &str) -> String {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let kept = query.split('&').filter(|parameter| KEPT.iter().any(|kept| parameter.starts_with(kept)));
    format!("{path}?{}", kept.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_is_resumed_is_the_same() {
        let begun = "/api/v1/pods?watch=true&timeoutSeconds=290&labelSelector=a&sendInitialEvents=true";
        let resumed = "/api/v1/pods?watch=true&resourceVersion=17&labelSelector=a&allowWatchBookmarks=true";
        assert_eq!(distinctive(begun), "/api/v1/pods?watch=true&labelSelector=a");
        assert_eq!(distinctive(resumed), distinctive(begun));
    }

    #[test]
    fn metadata_is_asked_for_by_resource() {
        assert_eq!(accepted("/api/v1/pods?watch=true"), METADATA);
        assert_eq!(accepted("/apis/apps/v1/deployments?watch=true"), "application/json");
    }
}
