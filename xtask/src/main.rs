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
    /// Measures time and resources of operators for many graphs.
    #[command(disable_help_flag = true)]
    Bench(suites::Args),
    /// Generates or checks the files in deploy/helm that follow from the programs and the values.
    Charts(charts::Args),
    /// Builds the programs of the local Kubernetes control plane: etcd, kube-apiserver and the others.
    Cluster(cluster::Args),
    /// Generates or checks the files that follow from the API types: deploy/crds, and the schemas of Kubernetes' types.
    Crds(crds::Args),
    /// Compares the objects of our controllers with those of the upstream operator, for inputs of the conformance kit.
    #[command(disable_help_flag = true)]
    Conformance(suites::Args),
    /// Checks commands, links and values in the docs.
    Docs,
    /// Ends what `up --detach` started.
    Down(up::DownArgs),
    /// Tests the chart and the images on a real node. Needs root.
    #[command(disable_help_flag = true)]
    E2e(suites::Args),
    /// Builds an image of each program, without a container engine.
    Images(images::Args),
    /// Compares the rights of the programs with their requests in audit logs.
    #[command(disable_help_flag = true)]
    Rights(suites::Args),
    /// Runs all checks and tests that a change must pass before it is merged.
    Test(test::Args),
    /// Checks the invariants of docs/architecture.md that neither compiler nor clippy checks.
    Tidy,
    /// Runs a step of tilt/Tiltfile.
    #[command(subcommand, hide = true)]
    Tilt(tilt::Step),
    /// Removes what `tilt-up` applied; definitions and the operator's namespace stay.
    TiltDown(tilt::TiltfileArgs),
    /// Runs the operator in a cluster by Tilt, and rebuilds it with each edit.
    #[command(long_about = tilt::LONG_ABOUT)]
    TiltUp(tilt::UpArgs),
    /// Runs a real control plane with fake GPU nodes, our controllers, and a graph.
    Up(up::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            // Not by returning it from main, which would add a back trace when the environment enables those of
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
        Command::Docs => docs::run().map(done),
        Command::Down(args) => up::down(&args).await.map(done),
        Command::E2e(args) => suites::run("e2e", &args),
        Command::Images(args) => images::run(&args).map(done),
        Command::Rights(args) => suites::run("rights", &args),
        Command::Test(args) => Ok(test::run(&args).await),
        Command::Tidy => tidy::run().map(done),
        Command::Tilt(step) => tilt::step(&step).await.map(done),
        Command::TiltDown(args) => tilt::down(&args),
        Command::TiltUp(args) => tilt::up(&args),
        Command::Up(args) => up::run(args).await,
    }
}
