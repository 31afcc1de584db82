//! Clusters that outlive the command that started them.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};
use repository::root;
use test_cluster::Cluster;

/// Arguments of `cargo xtask down`.
#[derive(Debug, clap::Args)]
pub(crate) struct DownArgs {
    /// Directory of the cluster, the one with its kubeconfig [default: what `up --detach` started last]
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
}

/// Ends what `cargo xtask up --detach` started.
///
/// # Errors
/// It does not end.
pub(crate) async fn down(args: &DownArgs) -> Result<()> {
    let recorded = recorded()?;
    let Some(dir) = args.dir.as_ref().or(recorded.as_ref()) else {
        eprintln!("nothing runs");
        return Ok(());
    };
    Cluster::down(dir).await?;
    if recorded.as_ref() == Some(dir) {
        forget()?;
    }
    Ok(())
}

/// Fails if there is a detached cluster already: a second one would make the first one hard to find.
///
/// # Errors
/// There is one.
pub(super) async fn refuse_second() -> Result<()> {
    let Some(dir) = recorded()? else { return Ok(()) };
    if let Ok(cluster) = Cluster::attach(&dir).await {
        bail!(
            "one runs already; use it, or end it with `cargo xtask down`:\nexport KUBECONFIG={}",
            cluster.kubeconfig().display()
        );
    }
    // Its supervisor is gone, for example after a restart of the machine; what it left behind goes too.
    Cluster::down(&dir).await?;
    forget()
}

/// Detaches the cluster and prints how it is reached.
///
/// # Errors
/// It cannot be found again later, or not be detached; then it ends.
pub(super) async fn leave(cluster: Cluster) -> Result<ExitCode> {
    let record = record();
    let folder = record.parent().unwrap_or(&record);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let dir = cluster.dir().to_string_lossy().into_owned();
    fs::write(&record, dir).with_context(|| format!("cannot write {}", record.display()))?;
    let kubeconfig = cluster.kubeconfig().to_owned();
    cluster.detach().await?;
    println!("export KUBECONFIG={}", kubeconfig.display());
    eprintln!("`cargo xtask down` ends it");
    Ok(ExitCode::SUCCESS)
}

/// The file that holds the directory of the detached cluster.
fn record() -> PathBuf {
    root().join("target/xtask/up")
}

fn recorded() -> Result<Option<PathBuf>> {
    let record = record();
    match fs::read_to_string(&record) {
        Ok(dir) => Ok(Some(dir.trim().into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", record.display())),
    }
}

fn forget() -> Result<()> {
    fs::remove_file(record()).with_context(|| format!("cannot remove {}", record().display()))
}
