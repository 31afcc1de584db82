//! Connected peers, and the amounts that each one takes.
//!
//! Any client that reaches the port may open connections and send bodies; the API server must be served all the same.
//! So there is one limit for all, none of the peers gets more than half of what is scarce, and when connections run
//! out, the peer that has most loses the one that has waited longest.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::AbortHandle,
    time::{Instant, sleep_until},
};

/// The longest that TLS and the first request's head may take together.
const FIRST_HEAD: Duration = Duration::from_secs(10);

/// The longest that a request and its answer may take, both on their way included. No API server waits longer.
const EXCHANGE: Duration = Duration::from_secs(30);

/// The longest a connection may be idle between requests. API servers end connections that were idle for 90 s; if we
/// were first, a request could get lost in between.
const IDLE: Duration = Duration::from_secs(150);

/// Something of which there is a limited amount, and of which one peer gets no more than half.
pub(super) struct Limited {
    all: Arc<Semaphore>,
    half: usize,
    /// The halves of peers that hold a part, or wait for one.
    shares: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// A part of it.
pub(super) type PeerPermits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Limited {
    pub(super) fn new(amount: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(amount)), half: amount / 2, shares: Mutex::default() }
    }

    /// Waits for a part, of the peer's share and of the whole.
    pub(super) async fn take(&self, peer: IpAddr, amount: u32) -> Option<PeerPermits> {
        let own = self.share(peer).acquire_many_owned(amount).await.ok()?;
        Some((own, Arc::clone(&self.all).acquire_many_owned(amount).await.ok()?))
    }

    fn share(&self, peer: IpAddr) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.retain(|_, share| share.strong_count() > 0);
        let held = shares.get(&peer).and_then(Weak::upgrade);
        held.unwrap_or_else(|| {
            let share = Arc::new(Semaphore::new(self.half));
            shares.insert(peer, Arc::downgrade(&share));
            share
        })
    }
}

/// The scarce resources.
pub(super) struct PeerLimits {
    /// Bodies that are being received or answered, in KiB.
    pub(super) bodies: Limited,
    /// Admissions that are worked on.
    pub(super) admissions: Limited,
    /// Conversions of many objects that are worked on.
    pub(super) conversions: Limited,
}

/// All connections.
#[derive(Default)]
pub(super) struct ConnectedPeers {
    state: Mutex<PeersState>,
}

#[derive(Default)]
struct PeersState {
    next: u64,
    open: BTreeMap<u64, Open>,
}

struct Open {
    peer: IpAddr,
    /// Since when it waits for its client; none while a request is worked on.
    waits_since: Option<Instant>,
    task: Option<AbortHandle>,
}

/// One connection, until it is dropped.
pub(super) struct PeerConnection {
    peers: Arc<ConnectedPeers>,
    id: u64,
    pub(super) peer: IpAddr,
    deadline: watch::Sender<Instant>,
}

impl ConnectedPeers {
    fn with<T>(&self, change: impl FnOnce(&mut PeersState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new connection.
    pub(super) fn connected(self: &Arc<Self>, peer: IpAddr) -> Arc<PeerConnection> {
        let now = Instant::now();
        let id = self.with(|state| {
            state.next += 1;
            state.open.insert(state.next, Open { peer, waits_since: Some(now), task: None });
            state.next
        });
        Arc::new(PeerConnection { peers: Arc::clone(self), id, peer, deadline: watch::Sender::new(now + FIRST_HEAD) })
    }

    /// Ends the connection that has waited longest for its client, of the peer with most of those that wait. Returns
    /// whether there was one.
    pub(super) fn end_one(&self) -> bool {
        let task = self.with(|state| {
            let mut count: HashMap<IpAddr, usize> = HashMap::new();
            for open in state.open.values() {
                *count.entry(open.peer).or_default() += 1;
            }
            let waits = state.open.iter().filter_map(|(id, open)| Some((*id, open, open.waits_since?)));
            let ended = waits.filter(|(_, open, _)| open.task.is_some());
            let ended = ended.max_by_key(|(_, open, since)| (count[&open.peer], std::cmp::Reverse(*since)));
            let id = ended.map(|(id, ..)| id)?;
            state.open.get_mut(&id)?.task.take()
        });
        task.inspect(AbortHandle::abort).is_some()
    }
}

impl PeerConnection {
    /// Its task, which may be ended from now on.
    pub(super) fn is_served_by(&self, task: AbortHandle) {
        self.change(|open| open.task = Some(task));
    }

    /// The head of a request has come.
    pub(super) fn begins(&self) {
        self.deadline.send_replace(Instant::now() + EXCHANGE);
    }

    /// A whole request is worked on: the connection stays until that is done.
    pub(super) fn works(&self) {
        self.change(|open| open.waits_since = None);
    }

    /// The client is to take its answer.
    pub(super) fn answers(&self) {
        self.change(|open| open.waits_since = Some(Instant::now()));
    }

    /// The client has its answer.
    pub(super) fn idles(&self) {
        self.deadline.send_replace(Instant::now() + IDLE);
    }

    /// Returns when the client has taken too long.
    pub(super) async fn overdue(&self) {
        let mut deadline = self.deadline.subscribe();
        loop {
            let at = *deadline.borrow_and_update();
            tokio::select! {
                () = sleep_until(at) => return,
                // Fails only when the sender is gone, and `self` holds it.
                _ = deadline.changed() => {}
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Open)) {
        self.peers.with(|state| state.open.get_mut(&self.id).map(change));
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        self.peers.with(|state| state.open.remove(&self.id));
    }
}

#[cfg(test)]
mod tests {
    use tokio::{task::JoinHandle, time::advance};

    use super::*;

    async fn connect(peers: &Arc<ConnectedPeers>, peer: u8) -> (Arc<PeerConnection>, JoinHandle<()>) {
        let connection = peers.connected([10, 0, 0, peer].into());
        let task = tokio::spawn(std::future::pending());
        connection.is_served_by(task.abort_handle());
        advance(Duration::from_secs(1)).await;
        (connection, task)
    }

    async fn ended(task: JoinHandle<()>) -> bool {
        tokio::task::yield_now().await;
        task.is_finished()
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_with_most_loses_the_one_that_waits_longest() {
        let peers = Arc::<ConnectedPeers>::default();
        let one = connect(&peers, 1).await;
        let (first, second, third) = (connect(&peers, 2).await, connect(&peers, 2).await, connect(&peers, 2).await);
        first.0.works();
        assert!(peers.end_one());
        assert!(ended(second.1).await && !ended(one.1).await && !ended(first.1).await && !ended(third.1).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_request_is_worked_on_stays_and_may_go_afterwards() {
        let peers = Arc::<ConnectedPeers>::default();
        let (connection, task) = connect(&peers, 1).await;
        connection.begins();
        connection.works();
        assert!(!peers.end_one());
        connection.answers();
        assert!(peers.end_one());
        assert!(ended(task).await);
    }

    #[tokio::test(start_paused = true)]
    async fn time_limits_follow_what_the_client_is_to_do() {
        let peers = Arc::<ConnectedPeers>::default();
        let (connection, _task) = connect(&peers, 1).await;
        let begin = Instant::now();
        connection.overdue().await;
        assert!(begin.elapsed() <= FIRST_HEAD);
        for (step, limit) in [(PeerConnection::begins as fn(&PeerConnection), EXCHANGE), (PeerConnection::idles, IDLE)]
        {
            let begin = Instant::now();
            step(&connection);
            connection.overdue().await;
            assert_eq!(begin.elapsed().as_secs(), limit.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_forgotten_when_it_is_dropped() {
        let peers = Arc::<ConnectedPeers>::default();
        let (one, other) = (connect(&peers, 1).await, connect(&peers, 2).await);
        drop(one);
        assert_eq!(peers.with(|state| state.open.len()), 1);
        drop(other);
        assert_eq!(peers.with(|state| state.open.len()), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_gets_half_and_is_forgotten_when_it_holds_nothing() {
        let limited = Limited::new(4);
        let [one, other] = [1_u8, 2].map(|peer| IpAddr::from([10, 0, 0, peer]));
        let limits = &limited;
        let may_take =
            |peer| async move { tokio::time::timeout(Duration::from_secs(1), limits.take(peer, 1)).await.is_ok() };
        let held = limited.take(one, 2).await;
        assert!(!may_take(one).await && may_take(other).await);
        drop(held);
        assert!(may_take(one).await);
        let _share = limited.share(other);
        assert_eq!(limited.shares.lock().unwrap().len(), 1);
    }
}
