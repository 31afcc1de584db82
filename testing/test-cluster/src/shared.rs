//! One control plane for all tests of a run.

use std::{env, path::PathBuf};

use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{access::Access, cluster::Cluster, error::Error, options::Options};

/// The environment variable with the kubeconfig of the cluster that tests use. Without it, each test process
/// starts one.
pub const KUBECONFIG_ENV: &str = "DYNAMO_TEST_KUBECONFIG";

const NODES: u16 = 2;

enum Shared {
    Given(Access),
    Own(Cluster),
}

/// The cluster of this test run: that of [`KUBECONFIG_ENV`] if it is set, else one with scheduler and fake nodes, which
/// is started at the first call and ends with the process. `crds` are installed at the first call; all callers of a
/// process pass the same ones.
///
/// # Errors
/// The cluster cannot be reached or started. The next call tries again.
pub async fn shared(crds: &[Value]) -> Result<&'static Access, Error> {
    static SHARED: OnceCell<Shared> = OnceCell::const_new();
    let shared = SHARED.get_or_try_init(|| async {
        if let Some(path) = env::var_os(KUBECONFIG_ENV).filter(|path| !path.is_empty()) {
            let access = Access::from_kubeconfig(PathBuf::from(path)).await?;
            access.install_crds(crds).await?;
            return Ok::<_, Error>(Shared::Given(access));
        }
        let options = Options { crds: crds.to_vec(), ..Options::with_nodes(NODES) };
        Ok(Shared::Own(Cluster::start(options).await?))
    });
    match shared.await? {
        Shared::Given(access) => Ok(access),
        Shared::Own(cluster) => Ok(cluster),
    }
}
