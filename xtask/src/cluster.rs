//! `cargo xtask cluster`: builds the programs of the local control plane ahead of time, and prints where they are.

use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use test_cluster::assets::{Assets, ToolSet};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build programs into the cache, unless they are there.
    ///
    /// Everything that needs a control plane does this by itself; here it can be done ahead. The versions are pinned in
    /// xtask/cluster/go.mod, those of the other sets in folders of their own there. It takes about five minutes on two
    /// cores, once, and needs Go and the Go module proxy. The cache is $DYNAMO_CACHE_DIR, else $XDG_CACHE_HOME, else
    /// ~/.cache.
    Build {
        /// What to build.
        #[arg(value_enum, default_value_t = Set::Control)]
        set: Set,
    },
    /// Print the directory of the cache that holds the programs of the cluster.
    ///
    /// For example, after `cargo xtask cluster build clients`: PATH="$(cargo xtask cluster path):$PATH" kubectl version
    Path,
}

#[derive(Clone, Copy, ValueEnum)]
enum Set {
    /// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok.
    Control,
    /// helm and kubectl.
    Clients,
    /// kubelet and kube-proxy, for a real node.
    Node,
    /// nats-server, for tests.
    Nats,
    /// An image registry for tests, and crane, which pushes images.
    Registry,
    /// kstatus, for tests.
    Kstatus,
    /// The manager of LeaderWorkerSets, for tests.
    Lws,
    /// promtool, for tests.
    Promtool,
    /// All of the above.
    All,
}

impl Set {
    fn sets(self) -> &'static [ToolSet] {
        match self {
            Self::Control => &[ToolSet::Control],
            Self::Clients => &[ToolSet::Clients],
            Self::Node => &[ToolSet::Node],
            Self::Nats => &[ToolSet::Nats],
            Self::Registry => &[ToolSet::Registry],
            Self::Kstatus => &[ToolSet::Kstatus],
            Self::Lws => &[ToolSet::Lws],
            Self::Promtool => &[ToolSet::Promtool],
            Self::All => &ToolSet::ALL,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let assets = Assets::from_env()?;
    match args.command {
        Command::Build { set } => {
            for set in set.sets() {
                assets.build(*set)?;
            }
            println!("{}", assets.bin_dir().display());
        }
        Command::Path => println!("{}", assets.bin_dir().display()),
    }
    Ok(())
}
