//! Waiting for conditions, never for time.

use std::{fmt::Display, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};

/// The first pause between two probes; it doubles up to [`LAST_PAUSE`], so that quick things are seen quickly and slow
/// ones cost little.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// A condition did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("waited {limit:?} for {what}; last seen: {seen}")]
pub struct Timeout {
    /// The awaited condition.
    pub what: String,
    /// Time limit.
    pub limit: Duration,
    /// The last thing that was observed instead.
    pub seen: String,
}

/// One observation of a condition: the awaited value, or the value observed instead.
pub trait Probed {
    /// The awaited value.
    type Value;
    /// The value, or a description of what is there in its place.
    ///
    /// # Errors
    /// The condition does not hold yet.
    fn observe(self) -> Result<Self::Value, String>;
}

impl<T> Probed for Option<T> {
    type Value = T;
    fn observe(self) -> Result<T, String> {
        self.ok_or_else(|| "not there yet".to_owned())
    }
}

impl<T, E: Display> Probed for Result<T, E> {
    type Value = T;
    fn observe(self) -> Result<T, String> {
        self.map_err(|seen| seen.to_string())
    }
}

/// Calls `probe` again and again until it gives a value, and returns it. `what` completes the sentence "waited for …".
/// A probe answers with an `Option`, or better with a `Result` whose error says what it saw, because the last such
/// answer is part of the error.
///
/// # Errors
/// [`Timeout`] when `limit` has passed; a probe that hangs is given up too.
pub async fn until<P: Probed>(
    what: impl Into<String>,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> P,
) -> Result<P::Value, Timeout> {
    let end = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    let mut seen = "nothing, the first probe has not ended".to_owned();
    loop {
        match timeout_at(end, probe()).await.map(Probed::observe) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(observation)) => seen = observation,
            Err(_) => return Err(Timeout { what: what.into(), limit, seen }),
        }
        if Instant::now() + pause >= end {
            return Err(Timeout { what: what.into(), limit, seen });
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn gives_the_value_as_soon_as_it_is_there() {
        let mut probes = 0;
        let value = until("three probes", Duration::from_secs(5), || {
            probes += 1;
            std::future::ready((probes == 3).then_some(probes))
        });
        assert_eq!(value.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn says_what_was_missing() {
        let error = until("two pods", Duration::from_millis(30), || async { Err::<(), _>("1 pod") }).await.unwrap_err();
        assert_eq!(error.to_string(), "waited 30ms for two pods; last seen: 1 pod");
    }

    #[tokio::test]
    async fn gives_up_on_a_probe_that_hangs() {
        let error =
            until("an answer", Duration::from_millis(20), std::future::pending::<Option<()>>).await.unwrap_err();
        assert!(error.seen.contains("first probe"), "{error}");
    }
}
