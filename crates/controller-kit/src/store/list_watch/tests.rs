//! Tests of pauses, of the history of versions, and of servers that do not stream the initial state.

use std::future;

use tokio::time::Instant;

use super::*;

#[test]
fn a_server_that_does_not_stream_differs_from_other_rejections() {
    let answer = |code: u16, reason: &str, message: &str| {
        let status = Status::failure(message, reason).with_code(code).boxed();
        WatchError::Start(Box::new(kube::Error::Api(status)))
    };
    let rejection = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is \
                     forbidden for watch unless the WatchList feature gate is enabled";
    assert!(answer(422, "Invalid", rejection).is_streaming_refused());
    for other in [
        answer(403, "Forbidden", "configmaps is forbidden: User \"u\" cannot watch resource \"configmaps\""),
        answer(422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: fieldSelector: Invalid value"),
        answer(500, "InternalError", "etcdserver: leader changed"),
        WatchError::NoVersion,
    ] {
        assert!(!other.is_streaming_refused(), "{other}");
    }
}

#[test]
fn the_api_servers_answer_chooses_the_pause() {
    let answer = |code: u16, seconds: u32| {
        let details = serde_json::from_value(serde_json::json!({ "retryAfterSeconds": seconds })).unwrap();
        let status = Status::failure("x", "x").with_code(code).with_details(details);
        WatchError::Ended(status.boxed())
    };
    let first = Pauses::default().next_pause();
    let seconds = Duration::from_secs;
    for (error, expected) in [
        (None, first),
        (Some(answer(GONE, 0)), first),
        (Some(answer(TOO_MANY_REQUESTS, 1)), seconds(1)),
        (Some(answer(TOO_MANY_REQUESTS, 8)), seconds(8)),
        (Some(answer(TOO_MANY_REQUESTS, 0)), first * 4),
        (Some(answer(500, 1)), first * 4),
    ] {
        let mut pauses = Pauses::default();
        for _ in 0..2 {
            pauses.next_pause();
        }
        choose_pause(&mut pauses, error.as_ref());
        assert_eq!(pauses.next_pause(), expected, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_requested_reading_ends_the_pause_of_a_broken_watch() {
    let (mut pauses, start) = (Pauses::default(), Instant::now());
    let first = Pauses::default().next_pause();
    pause(&mut pauses, future::pending()).await;
    assert_eq!(start.elapsed(), first);
    pause(&mut pauses, future::ready(())).await;
    assert_eq!(start.elapsed(), first);
    pause(&mut pauses, future::pending()).await;
    assert_eq!(start.elapsed(), first * 5, "the pause that was ended counts");
}

#[test]
fn a_list_older_than_what_was_seen_is_rejected() {
    let mut history = History::default();
    history.accept("10").unwrap();
    history.accept("10").unwrap();
    history.saw("12");
    assert!(matches!(history.accept("11"), Err(WatchError::Behind { listed: 11, seen: 12 })));
    history.accept("12").unwrap();
    history.saw("11");
    assert!(history.accept("11").is_err(), "an old event makes the history no younger");
    history.accept("13").unwrap();
    history.accept("not-a-number").unwrap();
    assert!(history.accept("12").is_err());
}

#[test]
fn an_api_server_that_insists_on_a_past_was_restored() {
    let mut history = History::default();
    history.accept("100").unwrap();
    for _ in 1..PROOFS {
        assert!(history.accept("50").is_err());
    }
    history.accept("50").unwrap();
    history.accept("51").unwrap();
    assert!(history.accept("50").is_err(), "time goes on from there");
}
