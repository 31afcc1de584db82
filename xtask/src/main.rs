//! The repository's own commands: `cargo xtask <command>`.
//!
//! Each command has a module with its arguments (`…Args`) and its `run`. To add one: a `mod` line, a variant, an arm.

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
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Measures time and resources of operators for many graphs.
    #[command(disable_help_flag = true)]
    Bench(suites::SuiteArgs),
    /// Generates or checks the files in deploy/helm that follow from the programs and the values.
    Charts(charts::ChartsArgs),
    /// Builds the programs of the local Kubernetes control plane: etcd, kube-apiserver and the others.
    Cluster(cluster::ToolsArgs),
    /// Generates or checks the files that follow from the API types: deploy/crds, and the schemas of Kubernetes' types.
    Crds(crds::DefinitionsArgs),
    /// Compares the objects of our controllers with those of the upstream operator, for inputs of the conformance kit.
    #[command(disable_help_flag = true)]
    Conformance(suites::SuiteArgs),
    /// Checks commands, links and values in the docs.
    Docs,
    /// Ends what `up --detach` started.
    Down(up::DownArgs),
    /// Tests the chart and the images on a real node. Needs root.
    #[command(disable_help_flag = true)]
    E2e(suites::SuiteArgs),
    /// Builds an image of each program, without a container engine.
    Images(images::ImagesArgs),
    /// Compares the rights of the programs with their requests in audit logs.
    #[command(disable_help_flag = true)]
    Rights(suites::SuiteArgs),
    /// Runs all checks and tests that a change must pass before it is merged.
    Test(test::TestArgs),
    /// Checks the invariants of docs/architecture.md that neither compiler nor clippy checks.
    Tidy,
    /// Runs a step of tilt/Tiltfile.
    #[command(subcommand, hide = true)]
    Tilt(tilt::TiltStep),
    /// Removes what `tilt-up` applied; definitions and the operator's namespace stay.
    TiltDown(tilt::TiltfileArgs),
    /// Runs the operator in a cluster by Tilt, and rebuilds it with each edit.
    #[command(long_about = tilt::LONG_ABOUT)]
    TiltUp(tilt::TiltUpArgs),
    /// Runs a real control plane with fake GPU nodes, our controllers, and a graph.
    Up(up::UpArgs),
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

async fn run(command: XtaskCommand) -> anyhow::Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        XtaskCommand::Bench(args) => suites::run("bench", &args),
        XtaskCommand::Charts(args) => charts::run(&args).map(done),
        XtaskCommand::Cluster(args) => cluster::run(&args).map(done),
        XtaskCommand::Conformance(args) => suites::run("conformance", &args),
        XtaskCommand::Crds(args) => crds::run(&args).map(done),
        XtaskCommand::Docs => docs::run().map(done),
        XtaskCommand::Down(args) => up::down(&args).await.map(done),
        XtaskCommand::E2e(args) => suites::run("e2e", &args),
        XtaskCommand::Images(args) => images::run(&args).map(done),
        XtaskCommand::Rights(args) => suites::run("rights", &args),
        XtaskCommand::Test(args) => Ok(test::run(&args).await),
        XtaskCommand::Tidy => tidy::run().map(done),
        XtaskCommand::Tilt(step) => tilt::step(&step).await.map(done),
        XtaskCommand::TiltDown(args) => tilt::down(&args),
        XtaskCommand::TiltUp(args) => tilt::up(&args),
        XtaskCommand::Up(args) => up::run(args).await,
    }
}
