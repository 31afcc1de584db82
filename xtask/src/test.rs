//! `cargo xtask test`: everything that must hold before a change is merged, cheapest first.
//!
//! All builds use the same features (`--workspace --all-features`), so that dependencies are compiled once for clippy
//! and once for everything that runs.

use std::{
    env,
    io::{BufRead, BufReader},
    iter,
    path::{self, Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use repository::{root, target};
use test_cluster::{AUDIT_DIR_ENV, CONFORMANCE_KIT_ENV, Cluster, KUBECONFIG_ENV, Options, conformance_kit};

use crate::{charts, tidy};

/// Fake nodes of the control plane that tests share.
const NODES: u16 = 2;
/// The cases that must all be equal.
const CASES: &str = "tier1.txt";
/// Arguments that all builds have in common.
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];
/// The tests of the Tiltfile are a workspace of their own.
const TILTFILE: [&str; 4] = ["--manifest-path", "tilt/check/Cargo.toml", "--target-dir", "target/tilt-check"];

#[derive(clap::Args)]
pub struct TestArgs {
    /// Only format, tidy, clippy and unit tests.
    #[arg(long)]
    quick: bool,
    /// Run only the tests whose names contain one of these words, and no other checks.
    filter: Vec<String>,
}

/// Runs the command. Stops at the first step that fails, and names the command that repeats it. The last line is the
/// sum of all test programs, whatever happens.
pub async fn run(args: &TestArgs) -> ExitCode {
    let mut run = TestRun::new();
    let outcome = run.all(args).await;
    if let Err(error) = &outcome {
        println!("\nerror: {error:#}");
    }
    run.summary(outcome.is_ok());
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct TestRun {
    /// Directory that keeps the audit logs of all control planes; `None`: the logs are removed with them.
    audit: Option<PathBuf>,
    started: Instant,
    steps: Vec<(&'static str, Duration)>,
    tally: TestCounts,
}

impl TestRun {
    fn new() -> Self {
        // Tests run in the folders of their packages.
        let audit = env::var_os(AUDIT_DIR_ENV).filter(|dir| !dir.is_empty());
        let audit = audit.and_then(|dir| path::absolute(dir).ok());
        Self { audit, started: Instant::now(), steps: Vec::new(), tally: TestCounts::default() }
    }

    async fn all(&mut self, args: &TestArgs) -> Result<()> {
        if args.filter.is_empty() {
            self.checks()?;
        }
        if args.quick {
            return self.tests("unit tests", &mut tests(&["--lib", "--bins"]), &args.filter);
        }
        self.command("build", cargo("test").args(EVERYTHING).arg("--no-run"))?;
        self.command("build controllers", cargo("build").args(EVERYTHING).arg("--bins"))?;
        if args.filter.is_empty() {
            self.step("chart files", "cargo xtask charts check", charts::check)?;
        }
        let start = announce("control plane");
        let cluster = Cluster::start(Options::with_nodes(NODES)).await.context("the control plane does not start")?;
        self.done("control plane", start);
        let everything = &mut tests(&[]);
        if let Some(dir) = &self.audit {
            everything.env(AUDIT_DIR_ENV, dir);
        }
        let outcome = self.tests("tests", everything.env(KUBECONFIG_ENV, cluster.kubeconfig()), &args.filter);
        cluster.stop().await.context("the control plane does not stop")?;
        outcome?;
        if args.filter.is_empty() {
            self.tests("Tiltfile", cargo("test").args(TILTFILE), &[])?;
            self.conformance()?;
            self.rights()?;
        }
        Ok(())
    }

    /// Runs the checks of the source only.
    fn checks(&mut self) -> Result<()> {
        self.command("format", formatter().args(["--all", "--check"]))?;
        self.step("tidy", "cargo xtask tidy", tidy::run)?;
        let clippy = ["--all-targets", "--", "--deny", "warnings"];
        self.command("clippy", cargo("clippy").args(EVERYTHING).args(clippy))
    }

    /// Runs tests and adds up what they report.
    fn tests(&mut self, name: &'static str, command: &mut Command, filter: &[String]) -> Result<()> {
        command.arg("--").args(filter);
        let (line, tally) = (command_line(command), &mut self.tally);
        let start = announce(name);
        let mut child = command.current_dir(root()).stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
        let stdout = child.stdout.take().context("cargo has no output")?;
        for text in BufReader::new(stdout).lines() {
            let text = text.context("cannot read what cargo prints")?;
            tally.add(&text);
            println!("{text}");
        }
        let status = child.wait().context("cannot wait for cargo")?;
        self.done(name, start);
        if !status.success() {
            bail!("{name} failed; repeat one of them with `cargo xtask test NAME`, or all with `{line}`");
        }
        Ok(())
    }

    /// Compares with the reference, where its outputs are at hand.
    fn conformance(&mut self) -> Result<()> {
        let Some(kit) = conformance_kit() else {
            let named = env::var_os(CONFORMANCE_KIT_ENV).is_some_and(|value| !value.is_empty());
            return if named { bail!("{CONFORMANCE_KIT_ENV} names no kit; correct it or unset it") } else { Ok(()) };
        };
        // As it was built with everything else; cargo would build it once more with the features of its package alone.
        let mut suite = Command::new(target().join("conformance"));
        self.command("conformance", suite.args(["--mode", "base", "--cases"]).arg(kit.join(CASES)))
    }

    /// Compares what the programs may do with what they did, where the audit logs of the tests are kept.
    fn rights(&mut self) -> Result<()> {
        let Some(dir) = &self.audit else { return Ok(()) };
        let logs = repository::files(dir, &["log"])?;
        // As it was built with everything else.
        self.command("rights", Command::new(target().join("rights")).args(logs))
    }

    fn command(&mut self, name: &'static str, command: &mut Command) -> Result<()> {
        command.current_dir(root());
        let repeat = command_line(command);
        self.step(name, &repeat, || succeed(command))
    }

    fn step(&mut self, name: &'static str, repeat: &str, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = announce(name);
        let outcome = act();
        self.done(name, start);
        outcome.with_context(|| format!("{name} failed; repeat it with `{repeat}`"))
    }

    fn done(&mut self, name: &'static str, start: Instant) {
        let took = start.elapsed();
        println!("    {name}: {:.1} s", took.as_secs_f64());
        self.steps.push((name, took));
    }

    /// The last lines: where the time went, and the sum of all test programs in the words of each of them.
    fn summary(&self, passed: bool) {
        let steps: Vec<String> =
            self.steps.iter().map(|(name, took)| format!("{name} {:.0} s", took.as_secs_f64())).collect();
        println!("\nsteps: {}", steps.join(", "));
        println!("{}", self.tally.line(passed, self.started.elapsed()));
    }
}

/// Counts of test programs, in the order of their last lines.
const COUNTS: [&str; 5] = ["passed", "failed", "ignored", "measured", "filtered out"];

/// Sums of the results of test programs, as in [`COUNTS`].
#[derive(Debug, Default, PartialEq, Eq)]
struct TestCounts([u64; COUNTS.len()]);

impl TestCounts {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; …`; every other line counts nothing.
    fn add(&mut self, line: &str) {
        let counts = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "));
        for count in counts.into_iter().flat_map(|(_, counts)| counts.split("; ")) {
            for (sum, what) in self.0.iter_mut().zip(COUNTS) {
                *sum += count.strip_suffix(what).map_or(0, |number| number.trim_end().parse::<u64>().unwrap_or(0));
            }
        }
    }

    fn line(&self, passed: bool, took: Duration) -> String {
        let counts = self.0.iter().zip(COUNTS).map(|(sum, what)| format!("{sum} {what}; ")).collect::<String>();
        let result = if passed { "ok" } else { "FAILED" };
        format!("test result: {result}. {counts}finished in {:.2}s", took.as_secs_f64())
    }
}

fn announce(name: &str) -> Instant {
    println!("==> {name}");
    Instant::now()
}

fn cargo(subcommand: &str) -> Command {
    let mut command = repository::cargo(subcommand);
    command.stdin(Stdio::null());
    command
}

/// rustfmt. Only that of a nightly toolchain supports the order of imports that `rustfmt.toml` fixes; a machine without
/// one checks the rest.
fn formatter() -> Command {
    // A toolchain is chosen by the `cargo` of rustup, not by that of the toolchain that runs this.
    let nightly = || {
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fmt"]).stdin(Stdio::null());
        command
    };
    let mut version = nightly();
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    if version.status().is_ok_and(|status| status.success()) { nightly() } else { cargo("fmt") }
}

/// The tests of some targets of the workspace.
fn tests(targets: &[&str]) -> Command {
    let mut command = cargo("test");
    command.args(EVERYTHING).args(targets).arg("--no-fail-fast");
    command
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", command_line(command)))?;
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(())
}

/// The command as one would type it.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let words = iter::once(program.file_name().unwrap_or(program.as_os_str())).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_programs_are_added_up() {
        let mut tally = TestCounts::default();
        for line in [
            "running 3 tests",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s",
            "test a::b ... FAILED",
            "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.50s",
        ] {
            tally.add(line);
        }
        assert_eq!(tally, TestCounts([6, 1, 1, 0, 7]));
        assert_eq!(
            tally.line(false, Duration::from_millis(1500)),
            "test result: FAILED. 6 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.50s"
        );
    }

    #[test]
    fn a_step_that_fails_names_the_command_that_repeats_it() {
        let mut run = TestRun::new();
        let error = run.command("format", cargo("fmt").arg("--no-such-flag").stderr(Stdio::null())).unwrap_err();
        assert_eq!(error.to_string(), "format failed; repeat it with `cargo fmt --no-such-flag`");
        assert_eq!(run.steps.len(), 1);
    }
}
