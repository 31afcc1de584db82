//! What became of several steps, none of which holds up the others.

use std::future::Future;

use futures::{StreamExt, stream};

/// How many requests of one step are under way at a time: how many objects there are is the user's choice.
const AT_ONCE: usize = 8;

/// Runs all of the steps, a few at a time. The results have the order of the steps.
pub async fn bounded<T>(steps: Vec<impl Future<Output = T>>) -> Vec<T> {
    stream::iter(steps).buffered(AT_ONCE).collect().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::graph::apply::tally::{AT_ONCE, bounded};

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
