//! Reads logs of the pods of a graph.

use futures::{AsyncBufReadExt, Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};

use super::connection::{Connection, LIMIT, words};

/// The log of a container as it is now.
///
/// # Errors
/// It cannot be read; why.
pub async fn log(connection: &Connection, pod: &str, params: &LogParams) -> Result<String, String> {
    let api: Api<Pod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    match tokio::time::timeout(LIMIT, api.logs(pod, params)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(words(&error)),
        Err(_) => Err(format!("the kubelet has not answered within {} s", LIMIT.as_secs())),
    }
}

/// The lines of a container of several pods as they are written, each with its pod; an error is a line, too.
pub async fn follow(
    connection: &Connection,
    pods: &[String],
    params: &LogParams,
) -> impl Stream<Item = (String, Result<String, String>)> + Unpin + use<> {
    let api: Api<Pod> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let mut streams = Vec::new();
    for pod in pods {
        let name = pod.clone();
        let lines = match api.log_stream(pod, params).await {
            Ok(reader) => {
                reader.lines().map(move |line| (name.clone(), line.map_err(|error| error.to_string()))).boxed()
            }
            Err(error) => stream::iter([(name, Err(words(&error)))]).boxed(),
        };
        streams.push(lines);
    }
    stream::select_all(streams)
}
