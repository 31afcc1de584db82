//! The repository's own commands: `cargo xtask <command>`.
//!
//! Each command has a module with its arguments (`Args`) and its `run`. To add one: a `mod` line, a variant, an arm.

mod bench;
mod charts;
mod cluster;
mod conformance;
mod crds;
mod docs;
mod e2e;
#[cfg(test)]
mod golden_tests;
mod http;
mod images;
mod operators;
mod rights;
mod test;
mod tidy;
mod tilt;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Commands for working on this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What an operator costs, and how quick it is, for many graphs.
    Bench(bench::Args),
    /// What in deploy/helm is made from the programs, and from the values.
    Charts(charts::Args),
    /// The programs of the local Kubernetes control plane: etcd, kube-apiserver and the others.
    Cluster(cluster::Args),
    /// The files that are made from the API types: deploy/crds, and the schemas of Kubernetes' types.
    Crds(crds::Args),
    /// Compare what our controllers generate with what the reference does, for the inputs of the conformance kit.
    Conformance(conformance::Args),
    /// What the pages say can be done can be done.
    Docs(docs::Args),
    /// End what `up --detach` started.
    Down(up::DownArgs),
    /// The chart and the images on a real node, which needs root.
    E2e(e2e::Args),
    /// An image of each program, without a container engine.
    Images(images::Args),
    /// What the programs may do against what they did, by audit logs.
    Rights(rights::Args),
    /// Everything that must hold before a change is merged.
    Test(test::Args),
    /// The promises of docs/architecture.md that neither compiler nor clippy can hold.
    Tidy(tidy::Args),
    /// The steps that tilt/Tiltfile calls.
    #[command(subcommand, hide = true)]
    Tilt(tilt::Step),
    /// Take away what `tilt-up` applied; definitions and the operator's namespace stay.
    TiltDown(tilt::DownArgs),
    /// The operator in a cluster, rebuilt with each edit, by Tilt.
    #[command(long_about = tilt::LONG_ABOUT)]
    TiltUp(tilt::UpArgs),
    /// A real control plane with fake GPU nodes, our controllers, and a graph on it.
    Up(up::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            // Not by returning it from main, which would add a back trace when the environment asks for those of panics.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Bench(args) => bench::run(&args).await,
        Command::Charts(args) => charts::run(&args).map(done),
        Command::Cluster(args) => cluster::run(&args).map(done),
        Command::Conformance(args) => conformance::run(&args).await,
        Command::Crds(args) => crds::run(&args).map(done),
        Command::Docs(args) => docs::run(&args).map(done),
        Command::Down(args) => up::down(&args).await.map(done),
        Command::E2e(args) => e2e::run(&args).await,
        Command::Images(args) => images::run(&args).map(done),
        Command::Rights(args) => rights::run(&args).map(done),
        Command::Test(args) => Ok(test::run(&args).await),
        Command::Tidy(args) => tidy::run(&args).map(done),
        Command::Tilt(step) => tilt::step(&step).await.map(done),
        Command::TiltDown(args) => tilt::down(&args),
        Command::TiltUp(args) => tilt::up(&args),
        Command::Up(args) => up::run(args).await,
    }
}
