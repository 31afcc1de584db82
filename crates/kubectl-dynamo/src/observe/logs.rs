//! Reads logs of the pods of a graph.

use futures::{AsyncBufReadExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};

use super::connection::{Connection, LIMIT, words};

/// A container whose log is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
}

/// Part of a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Number of lines from the end; all if unset.
    pub tail: Option<i64>,
    /// Seconds before now; all if unset.
    pub since: Option<i64>,
    /// The run before the last restart.
    pub previous: bool,
}

impl Part {
    fn params(self, container: &str, follow: bool) -> LogParams {
        LogParams {
            container: Some(container.to_owned()),
            follow,
            previous: self.previous,
            tail_lines: self.tail,
            since_seconds: self.since,
            ..LogParams::default()
        }
    }
}

/// The log of a container as it is now.
///
/// # Errors
/// It cannot be read; why.
pub async fn log(connection: &Connection, source: &Source, part: Part) -> Result<String, String> {
    let api: Api<Pod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let params = part.params(&source.container, false);
    match tokio::time::timeout(LIMIT, api.logs(&source.pod, &params)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(words(&error)),
        Err(_) => Err(format!("the kubelet has not answered within {} s", LIMIT.as_secs())),
    }
}

/// The lines of several containers as they are written, each with the index of its source; an error is a line, too.
pub async fn follow(
    connection: &Connection,
    sources: &[Source],
    part: Part,
) -> impl Stream<Item = (usize, Result<String, String>)> + Unpin + use<> {
    let api: Api<Pod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let mut streams = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let lines = match api.log_stream(&source.pod, &part.params(&source.container, true)).await {
            Ok(reader) => reader.lines().map(move |line| (index, line.map_err(|error| error.to_string()))).boxed(),
            Err(error) => stream::iter([(index, Err(words(&error)))]).boxed(),
        };
        streams.push(lines);
    }
    stream::select_all(streams)
}
