//! `cargo xtask bench loop`: from an edit of a controller to its new behaviour, with `cargo xtask up --watch`.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use kube::{
    Client, Config,
    api::{Api, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use repository::root;
use serde_json::Value;
use test_cluster::wait;
use tokio::signal;

use super::{budgets::Budget, figures::Percentiles};

/// Comes before the path of the kubeconfig in the output of `up`.
const KUBECONFIG: &str = "export KUBECONFIG=";
/// From the start of `up` to a graph that is ready, with a build.
const START: Duration = Duration::from_secs(1800);
/// The longest that an edit may take.
const LIMIT: Duration = Duration::from_secs(300);
/// The budget of an edit, in seconds.
const BUDGET: f64 = 10.0;

/// Edit of a text that a controller writes into the status of its objects.
struct Edit {
    controller: &'static str,
    file: &'static str,
    text: &'static str,
}

const EDITS: [Edit; 2] = [
    Edit {
        controller: "graph-controller",
        file: "crates/graph-controller/src/graph/status/draft.rs",
        text: "All resources are ready",
    },
    Edit {
        controller: "component-controller",
        file: "crates/component-controller/src/component/status/mod.rs",
        text: "all desired pods are available",
    },
];

/// Arguments of `cargo xtask bench loop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Edits of each controller
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    edits: u16,
}

/// Measures and prints the figures. Source files are as before in the end.
///
/// # Errors
/// A text is not where it should be, the loop does not start, or an edit has no effect.
pub(super) async fn run(args: &Args) -> Result<ExitCode> {
    let files = EDITS.iter().map(Source::open).collect::<Result<Vec<_>>>()?;
    tokio::select! {
        done = measure(args, &files) => done,
        // Files and processes are put back by what is dropped.
        _ = signal::ctrl_c() => Ok(ExitCode::FAILURE),
    }
}

async fn measure(args: &Args, files: &[Source<'_>]) -> Result<ExitCode> {
    let (up, client) = Up::start().await?;
    for source in files {
        until_in_a_status(&client, source.edit.text, START).await?;
    }
    for source in files {
        let mut took = Vec::new();
        for number in 1..=args.edits {
            let text = format!("{}, edit {number}", source.edit.text);
            let begin = Instant::now();
            source.write(&source.content.replace(source.edit.text, &text))?;
            until_in_a_status(&client, &text, LIMIT).await?;
            took.push(begin.elapsed());
        }
        let Percentiles { p50, p99 } = Percentiles::of(took.into_iter());
        let name = format!("edit of {} → new behaviour, p50", source.edit.controller);
        let budget = Budget { what: name, measured: p50 / 1e3, limit: BUDGET, unit: "s" };
        println!("{}: {budget}; p99 {:.1} s", budget.what, p99 / 1e3);
    }
    drop(up);
    Ok(ExitCode::SUCCESS)
}

/// Waits until the status of a graph or of a component has a text.
async fn until_in_a_status(client: &Client, text: &str, limit: Duration) -> Result<()> {
    let graphs: Api<DynamoGraphDeployment> = Api::all(client.clone());
    let components: Api<DynamoComponentDeployment> = Api::all(client.clone());
    let reported = |status: serde_json::Result<Value>| status.is_ok_and(|status| has(&status, text));
    wait::until(format!("a status with {text:?}"), limit, async || {
        let graphs = graphs.list(&ListParams::default()).await.ok()?;
        let components = components.list(&ListParams::default()).await.ok()?;
        let graphs = graphs.iter().map(|graph| serde_json::to_value(&graph.status));
        let components = components.iter().map(|component| serde_json::to_value(&component.status));
        graphs.chain(components).any(reported).then_some(())
    })
    .await?;
    Ok(())
}

/// Whether a message of a status is a text.
fn has(status: &Value, text: &str) -> bool {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|condition| condition["message"] == text)
}

/// A source file, which gets its content back when this is dropped.
struct Source<'a> {
    edit: &'a Edit,
    path: PathBuf,
    content: String,
}

impl<'a> Source<'a> {
    fn open(edit: &'a Edit) -> Result<Self> {
        let path = root().join(edit.file);
        let content = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(content.matches(edit.text).count() == 1, "{} does not have {:?} once", edit.file, edit.text);
        Ok(Self { edit, path, content })
    }

    fn write(&self, content: &str) -> Result<()> {
        fs::write(&self.path, content).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.write(&self.content) {
            eprintln!("{error:#}; `git checkout {}` puts it back", self.edit.file);
        }
    }
}

/// `cargo xtask up --watch`, which ends when this is dropped.
struct Up(Child);

impl Up {
    /// Starts it and connects to its API server.
    async fn start() -> Result<(Self, Client)> {
        // Beside this program; a cargo in between would keep signals to itself.
        let program = env::current_exe()?.with_file_name("xtask");
        let child = Command::new(&program).args(["up", "--watch"]).current_dir(root()).stdout(Stdio::piped()).spawn();
        let mut up = Self(child.with_context(|| format!("cannot run {}", program.display()))?);
        let output = BufReader::new(up.0.stdout.take().context("no output of up")?);
        let path = tokio::task::spawn_blocking(|| {
            let mut lines = output.lines().map_while(Result::ok);
            let path = lines.find_map(|line| Some(line.split_once(KUBECONFIG)?.1.to_owned()));
            // The pipe has to be read as long as there is output.
            std::thread::spawn(|| lines.for_each(drop));
            path
        });
        let kubeconfig = Kubeconfig::read_from(path.await?.context("up ended")?)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok((up, Client::try_from(config)?))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // With SIGTERM it ends what it has started.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_once_in_its_file() {
        for edit in &EDITS {
            let content = fs::read_to_string(root().join(edit.file)).unwrap();
            assert_eq!(content.matches(edit.text).count(), 1, "{}", edit.file);
        }
    }
}
