//! `cargo xtask cluster`: builds the programs of the local control plane ahead of time, and prints where they are.

use anyhow::Result;
use clap::{
    Subcommand,
    builder::{PossibleValue, PossibleValuesParser},
};
use test_cluster::assets::{Assets, ToolSet};

#[derive(clap::Args)]
pub struct ToolsArgs {
    #[command(subcommand)]
    command: ToolsTask,
}

#[derive(Subcommand)]
enum ToolsTask {
    /// Build programs into the cache, unless they are there.
    ///
    /// Everything that needs a control plane does this by itself; here it can be done ahead. The versions are pinned in
    /// xtask/cluster/go.mod, those of the other sets in folders of their own there. It takes about five minutes on two
    /// cores, once, and needs Go and the Go module proxy. The cache is $DYNAMO_CACHE_DIR, else $XDG_CACHE_HOME, else
    /// ~/.cache.
    Build {
        /// Set of programs to build
        #[arg(default_value = ToolSet::Control.name(), value_parser = PossibleValuesParser::new(sets()))]
        set: String,
    },
    /// Print the directory of the cache that holds the programs of the cluster.
    ///
    /// For example, after `cargo xtask cluster build clients`: PATH="$(cargo xtask cluster path):$PATH" kubectl version
    Path,
}

/// Sets of programs, with what is in them.
const SETS: [(ToolSet, &str); 8] = [
    (ToolSet::Control, "etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok"),
    (ToolSet::Clients, "helm and kubectl"),
    (ToolSet::Node, "kubelet and kube-proxy, for a real node"),
    (ToolSet::Nats, "nats-server, for tests"),
    (ToolSet::Registry, "An image registry for tests, and crane, which pushes images"),
    (ToolSet::Kstatus, "kstatus, for tests"),
    (ToolSet::Lws, "The manager of LeaderWorkerSets, for tests"),
    (ToolSet::Promtool, "promtool, for tests"),
];
const ALL: &str = "all";

fn sets() -> impl Iterator<Item = PossibleValue> {
    let each = SETS.into_iter().map(|(set, help)| PossibleValue::new(set.name()).help(help));
    each.chain([PossibleValue::new(ALL).help("All of the above")])
}

/// Runs the command.
pub fn run(args: &ToolsArgs) -> Result<()> {
    let assets = Assets::from_env()?;
    if let ToolsTask::Build { set } = &args.command {
        let mut sets = ToolSet::ALL.into_iter().filter(|each| set == ALL || set == each.name());
        sets.try_for_each(|set| assets.build(set))?;
    }
    println!("{}", assets.bin_dir().display());
    Ok(())
}
