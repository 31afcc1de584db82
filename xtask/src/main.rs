//! The repository's own commands: `cargo xtask <command>`.
//!
//! Each command has a module with its arguments (`Args`) and its `run`. To add one: a `mod` line, a variant, an arm.

mod charts;
mod cluster;
mod crds;
mod docs;
#[cfg(test)]
mod golden_tests;
mod images;
mod suites;
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
    #[command(disable_help_flag = true)]
    Bench(suites::Args),
    /// What in deploy/helm is made from the programs, and from the values.
    Charts(charts::Args),
    /// The programs of the local Kubernetes control plane: etcd, kube-apiserver and the others.
    Cluster(cluster::Args),
    /// The files that are made from the API types: deploy/crds, and the schemas of Kubernetes' types.
    Crds(crds::Args),
    /// Compare what our controllers generate with what the reference does, for the inputs of the conformance kit.
    #[command(disable_help_flag = true)]
    Conformance(suites::Args),
    /// What the pages say can be done can be done.
    Docs(docs::Args),
    /// End what `up --detach` started.
    Down(up::DownArgs),
    /// The chart and the images on a real node, which needs root.
    #[command(disable_help_flag = true)]
    E2e(suites::Args),
    /// An image of each program, without a container engine.
    Images(images::Args),
    /// What the programs may do against what they did, by audit logs.
    #[command(disable_help_flag = true)]
    Rights(suites::Args),
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
            // Not by returning it from main, which would add a back trace when the environment asks for those of
            // panics.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Bench(args) => suites::run("bench", &args),
        Command::Charts(args) => charts::run(&args).map(done),
        Command::Cluster(args) => cluster::run(&args).map(done),
        Command::Conformance(args) => suites::run("conformance", &args),
        Command::Crds(args) => crds::run(&args).map(done),
        Command::Docs(args) => docs::run(&args).map(done),
        Command::Down(args) => up::down(&args).await.map(done),
        Command::E2e(args) => suites::run("e2e", &args),
        Command::Images(args) => images::run(&args).map(done),
        Command::Rights(args) => suites::run("rights", &args),
        Command::Test(args) => Ok(test::run(&args).await),
        Command::Tidy(args) => tidy::run(&args).map(done),
        Command::Tilt(step) => tilt::step(&step).await.map(done),
        Command::TiltDown(args) => tilt::down(&args),
        Command::TiltUp(args) => tilt::up(&args),
        Command::Up(args) => up::run(args).await,
    }
}
