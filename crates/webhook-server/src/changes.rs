//! Watches of which it matters that something has changed, and not what.

use std::{future::pending, time::Duration};

use futures::{
    Stream, StreamExt,
    stream::{BoxStream, select_all},
};
use tokio::time::timeout;

/// Several changes at once are one: objects change in groups.
const GATHER: Duration = Duration::from_millis(50);

/// Signals that something has changed. Stores see nothing unless it is polled.
pub(crate) struct Changes(BoxStream<'static, ()>);

impl Changes {
    /// Of watches, each as [`ticks`].
    pub(crate) fn of(watches: impl IntoIterator<Item = BoxStream<'static, ()>>) -> Self {
        Self(select_all(watches).boxed())
    }

    /// Reads changes until `known`, which waits for something to be seen, has ended.
    pub(crate) async fn read_until(&mut self, known: impl Future<Output = ()>) {
        tokio::select! {
            () = known => {}
            () = self.drain() => {}
        }
    }

    /// Waits for the next change and takes along those that come with it; not longer than `other` takes.
    pub(crate) async fn next_or(&mut self, other: impl Future<Output = ()>) {
        tokio::select! {
            _ = self.0.next() => {}
            () = other => {}
        }
        // Ends by running out of time.
        let _ = timeout(GATHER, self.drain()).await;
    }

    async fn drain(&mut self) {
        while self.0.next().await.is_some() {}
        pending().await
    }
}

/// The changes that a watch reports, without their contents.
pub(crate) fn ticks(watch: impl Stream + Send + 'static) -> BoxStream<'static, ()> {
    watch.map(|_| ()).boxed()
}
