//! Commands of the pages: each is one that its program understands.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};
use clap::CommandFactory;
use repository::{chart, files, read_yaml, root, target};
use test_cluster::assets::{Assets, Tool};

use super::values::ChartValues;
use crate::suites::NAMES;

/// The chart, as the pages name it.
const CHART: &str = "deploy/helm/dynamo-platform";
/// Flags of `helm install` and `helm upgrade` that `helm template` does not have.
const NOT_OF_TEMPLATE: [&str; 2] = ["--create-namespace", "--reset-then-reuse-values"];

/// Tools and names for checking commands.
pub(super) struct Checker {
    helm: PathBuf,
    kubectl: PathBuf,
    pub(super) values: ChartValues,
    /// Names of our kinds, as kubectl takes them.
    kinds: Vec<String>,
}

impl Checker {
    pub(super) fn new() -> Result<Self> {
        let assets = Assets::from_env()?;
        let (helm, kubectl) = (assets.find(Tool::Helm)?, assets.find(Tool::Kubectl)?);
        Ok(Self { helm, kubectl, values: ChartValues::read()?, kinds: kinds()? })
    }

    /// Checks a command of a fenced block. False if it is of a program that is none of ours to check.
    pub(super) fn command(&self, words: &[String]) -> Result<bool> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["helm", "install" | "upgrade" | "template", _, CHART, ..] => self.chart(&words)?,
            ["helm", rest @ ..] => explained(&self.helm, rest)?,
            ["kubectl", "dynamo", rest @ ..] => built("kubectl-dynamo", rest)?,
            ["kubectl", rest @ ..] => self.kubectl(rest)?,
            ["cargo", "xtask", suite, rest @ ..] if NAMES.contains(suite) => built(suite, rest)?,
            ["cargo", "xtask", rest @ ..] => xtask(rest)?,
            ["cargo", rest @ ..] => cargo(rest)?,
            ["crds", rest @ ..] => built("crds", rest)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A command that renders the chart: its flags exist, its values exist, and the chart takes them. What a file of
    /// the reader says is not known.
    fn chart(&self, words: &[&str]) -> Result<()> {
        explained(&self.helm, &words[1..])?;
        for value in words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]) {
            let path = value.split_once('=').map_or(value, |(path, _)| path);
            ensure!(self.values.exists(path), "the chart has no value {path}");
        }
        let is_of_file = |index: usize| words[index] == "--values" || words[index - 1] == "--values";
        let flags = (4..words.len()).filter(|index| !is_of_file(*index)).map(|index| words[index]);
        let flags = flags.filter(|word| !NOT_OF_TEMPLATE.contains(word) && *word != "--wait");
        let mut command = Command::new(&self.helm);
        command.args(["template", words[2]]).arg(chart::platform()).args(flags).arg(chart::KUBE_VERSION);
        succeed(command)
    }

    fn kubectl(&self, words: &[&str]) -> Result<()> {
        explained(&self.kubectl, words)?;
        if words[0] == "delete" && words.contains(&"--selector") && !words.contains(&"--namespace") {
            let of_release = words.iter().any(|word| word.contains("app.kubernetes.io/instance="));
            ensure!(
                of_release,
                "it deletes what other releases have in the cluster, too; select by app.kubernetes.io/instance"
            );
        }
        let ours = |kind: &str| kind.starts_with("dynamo") || kind.starts_with("dgd") || kind.starts_with("dcd");
        for word in words.iter().skip(1).filter(|word| !word.starts_with('-')) {
            let kind = word.split(['/', '.']).next().unwrap_or_default();
            let is_object = word.contains('/') || ["get", "describe", "explain", "delete"].contains(&words[0]);
            let own = is_object && words.get(1) == Some(word) || word.contains('/');
            ensure!(!(own && ours(kind)) || self.kinds.iter().any(|known| known == kind), "there is no kind {kind}");
        }
        Ok(())
    }
}

/// Whether `cargo xtask` takes these words. Words in capitals are placeholders.
pub(super) fn xtask(words: &[&str]) -> Result<()> {
    let all = ["cargo xtask"].iter().chain(words);
    match crate::Cli::command().try_get_matches_from(all) {
        Ok(_) => Ok(()),
        Err(error) if error.use_stderr() => bail!("{}", error.to_string().lines().next().unwrap_or_default()),
        // It shows help.
        Err(_) => Ok(()),
    }
}

/// Packages and manifests that a command of cargo names exist. `cargo fuzz` is not installed everywhere.
fn cargo(words: &[&str]) -> Result<()> {
    for pair in words.windows(2) {
        let found = match pair[0] {
            "-p" | "--package" => ["crates", "testing", "."].iter().any(|dir| root().join(dir).join(pair[1]).exists()),
            "--manifest-path" => root().join(pair[1]).exists(),
            _ => true,
        };
        ensure!(found, "there is no {}", pair[1]);
    }
    Ok(())
}

/// A command of a program that the tests have built.
fn built(name: &str, words: &[&str]) -> Result<()> {
    let program = target().join(name);
    if !program.exists() {
        println!("not checked: {name} {}, for {} is not built", words.join(" "), program.display());
        return Ok(());
    }
    explained(&program, words)
}

/// Lets a program read the words and explain itself, instead of doing what they say: it refuses unknown
/// flags.
fn explained(program: &PathBuf, words: &[&str]) -> Result<()> {
    let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let mut command = Command::new(program);
    command.args(&words[..end]).arg("--help");
    succeed(command)
}

fn succeed(mut command: Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", error.lines().next().unwrap_or("it fails and says nothing"));
    Ok(())
}

/// Plural, singular and short names of the kinds that we define.
fn kinds() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for path in files(&root().join("deploy/crds"), &["yaml"])? {
        let definition: serde_json::Value = read_yaml(&path)?;
        let own = &definition["spec"]["names"];
        let short = own["shortNames"].as_array().into_iter().flatten();
        names.extend(
            short.chain([&own["plural"], &own["singular"]]).filter_map(|name| name.as_str()).map(str::to_owned),
        );
    }
    Ok(names)
}
