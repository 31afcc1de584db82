//! A control plane with the real manager of LeaderWorkerSets.

use test_cluster::{
    Cluster, Options, Place,
    assets::{Assets, Tool},
    lws, wait,
};

use super::{NODES, harness::LIMIT};
use crate::definitions::own;

/// `None` where the manager cannot be had, which is printed.
pub async fn cluster() -> Option<Cluster> {
    let manager = match Assets::from_env().unwrap().find(Tool::LwsManager) {
        Ok(path) => path,
        Err(error) => {
            eprintln!("skipped: the manager of LeaderWorkerSets: {error}");
            return None;
        }
    };
    let mut crds = own();
    crds.extend(lws::definitions().unwrap());
    let cluster = Cluster::start(Options { crds, ..Options::with_nodes(NODES) }).await.unwrap();
    let place = Place::new(&cluster, lws::NAME).unwrap();
    let mut webhooks = lws::webhooks().unwrap();
    webhooks.iter_mut().for_each(|configuration| place.redirect(configuration));
    cluster.run(&lws::program(manager, &place).unwrap()).await.unwrap();
    let ready = wait::until("the webhooks of LeaderWorkerSets", LIMIT, async || {
        tokio::net::TcpStream::connect(("127.0.0.1", place.webhook)).await.map(drop).map_err(|error| error.to_string())
    });
    ready.await.unwrap();
    cluster.apply(&webhooks).await.unwrap();
    Some(cluster)
}
