//! Installs the operator's CustomResourceDefinitions, or prints them for those who install them by other means;
//! converts manifests between versions.

mod apply;
mod cluster;
mod convert;
mod migrate;
mod print;
mod serve;
mod stored;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  could not be done; standard error says what and why
  2  wrong usage";

/// The CustomResourceDefinitions of the Dynamo operator, and their versions.
#[derive(Parser)]
#[command(name = "crds", version, after_help = EXIT_CODES)]
struct CrdsArgs {
    #[command(subcommand)]
    command: CrdsCommand,
}

#[derive(Subcommand)]
enum CrdsCommand {
    /// Write the definitions to standard output or to files; needs no cluster
    #[command(after_help = EXIT_CODES)]
    Print(print::CrdsPrintArgs),
    /// Apply the definitions to a cluster and wait until it serves them
    ///
    /// Server-side apply as field manager `dynamo-crds`; fields that others set before are taken over, and what others
    /// added (a CA bundle, another version) stays. A definition that is up to date is not written. A cluster with
    /// definitions of a newer release, or with objects stored in a newer version, is left as it is: exit code 1.
    /// Several may run at once.
    ///
    /// Then objects that are still stored in an older version are stored anew, so that the older version is no longer
    /// needed. Reading them takes the conversion webhook: until it answers, the program waits.
    #[command(after_help = EXIT_CODES)]
    Apply(apply::CrdsApplyArgs),
    /// Keep the definitions of a cluster as `crds apply` leaves them, until it is stopped
    ///
    /// Beside that, it sets the CA bundle of the conversion webhook, which it takes from a ConfigMap. It watches both,
    /// and sends nothing while neither changes. Definitions of a newer release get the CA bundle only. What fails is
    /// logged and repeated, after a pause that grows from one second to five minutes. Several may run at once.
    #[command(after_help = EXIT_CODES)]
    Serve(serve::CrdsServeArgs),
    /// Convert manifests between v1alpha1 and v1beta1; needs no cluster
    ///
    /// Nothing is lost: what the other version cannot say is kept in annotations, from which it comes back.
    #[command(after_help = EXIT_CODES)]
    Convert(convert::CrdsConvertArgs),
}

fn main() -> ExitCode {
    let done = match CrdsArgs::parse().command {
        CrdsCommand::Print(args) => print::run(&args),
        CrdsCommand::Apply(args) => apply::run(&args),
        CrdsCommand::Serve(args) => serve::run(&args),
        CrdsCommand::Convert(args) => convert::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
