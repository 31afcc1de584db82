//! What there is when a watch begins.
//!
//! An API server that streams it holds no list of everything in memory, and neither do we. That of Kubernetes 1.30, 1.31 or 1.33
//! refuses to, unless its feature gate `WatchList` is on, and so does any on which it is off; there, it is listed in pages.

use std::fmt::Debug;

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tracing::debug;

/// How a request to stream it is named to the API server, which names it so when it refuses.
const PARAMETER: &str = "sendInitialEvents";

type Events<O> = BoxStream<'static, Result<Event<O>, watcher::Error>>;

/// The events of a watch that never ends, without pauses after errors. Whether the API server streams what there is at first is
/// asked once for each watch, by asking for it; one that is replaced by an older release may refuse later.
pub(super) fn events<O>(
    api: Api<O>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<O>, watcher::Error>> + Send + 'static
where
    O: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let streamed: Events<O> = watcher(api.clone(), config.clone().streaming_lists()).boxed();
    stream::unfold((streamed, Some((api, config))), async |(mut events, mut listed)| {
        let mut event = events.next().await?;
        if event.as_ref().is_err_and(is_refused)
            && let Some((api, config)) = listed.take()
        {
            debug!(url = api.resource_url(), "the API server does not stream what there is; it is listed");
            events = answered(watcher(api, config).boxed());
            event = events.next().await?;
        }
        Some((event, (events, listed)))
    })
}

/// Lists are announced before the API server is asked. One that does not answer must not look as if it did: pauses would
/// never grow.
fn answered<O: Send + 'static>(events: Events<O>) -> Events<O> {
    let events = stream::unfold((events, None), async |(mut events, mut held)| {
        let event = match held.take() {
            Some(held) => held,
            None => events.next().await?,
        };
        if !matches!(event, Ok(Event::Init)) {
            return Some((event, (events, None)));
        }
        match events.next().await? {
            Err(error) => Some((Err(error), (events, None))),
            next => Some((event, (events, Some(next)))),
        }
    });
    events.boxed()
}

fn is_refused(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.message.contains(PARAMETER))
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt, stream};
    use kube::{
        core::Status,
        runtime::watcher::{self, Event},
    };

    use super::{answered, is_refused};

    #[test]
    fn a_list_that_fails_looks_like_nothing_else() {
        let failed = || Err(watcher::Error::InitialListFailed(kube::Error::TlsRequired));
        let events =
            [Ok(Event::Init), failed(), Ok(Event::Init), Ok(Event::InitApply(1)), Ok(Event::InitDone), failed()];
        let told = answered(stream::iter(events).boxed()).map(|event| match event {
            Ok(Event::Init) => "begin",
            Ok(Event::InitApply(_)) => "object",
            Ok(Event::InitDone) => "end",
            Ok(_) => "change",
            Err(_) => "error",
        });
        let told: Vec<_> = told.collect().now_or_never().unwrap();
        assert_eq!(told, ["error", "begin", "object", "end", "error"]);
    }

    #[test]
    fn a_server_that_does_not_stream_is_told_from_other_refusals() {
        let answer = |code: u16, reason: &str, message: &str| {
            let status = Status::failure(message, reason).with_code(code).boxed();
            watcher::Error::WatchStartFailed(kube::Error::Api(status))
        };
        let refusal = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden \
                       for watch unless the WatchList feature gate is enabled";
        assert!(is_refused(&answer(422, "Invalid", refusal)));
        for other in [
            answer(403, "Forbidden", "configmaps is forbidden: User \"u\" cannot watch resource \"configmaps\""),
            answer(422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: fieldSelector: Invalid value"),
            answer(500, "InternalError", "etcdserver: leader changed"),
            watcher::Error::NoResourceVersion,
        ] {
            assert!(!is_refused(&other), "{other}");
        }
    }
}
