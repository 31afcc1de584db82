//! What became of several steps, none of which holds up the others.

use std::future::Future;

use controller_kit::apply::Error;
use futures::{StreamExt, stream};

/// How many requests of one step are under way at a time: how many objects there are is the author's choice.
const AT_ONCE: usize = 8;

/// What several steps wait for, and those that failed.
#[derive(Debug, Default)]
pub struct Tally {
    /// Objects that could not be written because they have to go first, and why, one line each.
    pub waiting: Vec<String>,
    /// Failures, in the order of the steps.
    pub failed: Vec<Error>,
}

impl Tally {
    /// Takes in a step. Returns its result if it succeeded.
    pub(super) fn take<T>(&mut self, step: Result<T, Error>) -> Option<T> {
        step.map_err(|error| self.failed.push(error)).ok()
    }

    /// Takes in a step that may wait for an object.
    pub(super) fn take_waiting(&mut self, step: Result<Option<String>, Error>) {
        let waits = self.take(step).flatten();
        self.waiting.extend(waits);
    }

    /// Adds other steps.
    pub(super) fn add(&mut self, other: Self) {
        self.waiting.extend(other.waiting);
        self.failed.extend(other.failed);
    }
}

impl FromIterator<Result<Option<String>, Error>> for Tally {
    fn from_iter<I: IntoIterator<Item = Result<Option<String>, Error>>>(steps: I) -> Self {
        let mut tally = Self::default();
        steps.into_iter().for_each(|step| tally.take_waiting(step));
        tally
    }
}

/// Runs all of the steps, a few at a time. The results have the order of the steps.
pub(super) async fn bounded<T>(steps: Vec<impl Future<Output = T>>) -> Vec<T> {
    stream::iter(steps).buffered(AT_ONCE).collect().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{AT_ONCE, bounded};

    /// Found defect: a request for each of thousands of claims was sent at once.
    #[tokio::test]
    async fn a_few_requests_are_under_way_at_a_time_and_answers_keep_their_order() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let step = async |index: usize| {
            running.set(running.get() + 1);
            most.set(running.get().max(most.get()));
            for _ in 0..=(index % 3) {
                tokio::task::yield_now().await;
            }
            running.set(running.get() - 1);
            index
        };
        assert_eq!(bounded((0..100).map(step).collect()).await, (0..100).collect::<Vec<_>>());
        assert_eq!(most.get(), AT_ONCE);
    }
}
