//! Follows graphs and controllers: shows them as they change, and restarts controllers that were edited.

use std::{
    io::{Stdout, stdout},
    time::Duration,
};

use anyhow::{Context, Result};
use kube::Client;
use local_operator::OperatorArgs;
use repository::root;
use status_view::{Style, Terminal, screen};
use tokio::time::{Instant, sleep};

use super::{Stack, apply::Target, observe::observe, watch::Sources};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// How following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Ready,
    TimedOut,
}

/// One look at everything.
struct Look {
    lines: Vec<String>,
    ready: bool,
}

pub(super) struct Follow {
    stack: Stack,
    targets: Vec<Target>,
    client: Client,
    style: Style,
    terminal: Terminal<Stdout>,
}

impl Follow {
    pub(super) fn new(stack: Stack, targets: Vec<Target>, terminal: bool) -> Result<Self> {
        let client = stack.cluster.client()?;
        let style = Style::new(terminal, std::env::var_os("NO_COLOR").is_some());
        Ok(Self { stack, targets, client, style, terminal: Terminal::new(stdout(), terminal) })
    }

    /// Returns when everything is Ready, or after `timeout` with what it waits for on standard error.
    ///
    /// # Errors
    /// A controller has ended.
    pub(super) async fn until_ready(&mut self, timeout: Duration) -> Result<Outcome> {
        let end = Instant::now() + timeout;
        loop {
            self.stack.operators.iter().try_for_each(|operator| operator.check(&self.stack.cluster))?;
            let look = self.look().await;
            self.terminal.show(look.lines.clone())?;
            if look.ready {
                return Ok(Outcome::Ready);
            }
            if Instant::now() >= end {
                eprintln!("not Ready after {} s:\n{}", timeout.as_secs(), look.lines.join("\n"));
                return Ok(Outcome::TimedOut);
            }
            sleep(PAUSE).await;
        }
    }

    /// Shows what happens until the process gets a signal to end. With `watch`, controllers are built and started anew
    /// after edits.
    ///
    /// # Errors
    /// The output is gone.
    pub(super) async fn for_ever<T>(mut self, watch: Option<&OperatorArgs>) -> Result<T> {
        let mut sources = watch.map(|args| (args, Sources::new(root().join("crates"))));
        let hint = format!("export KUBECONFIG={}", self.stack.cluster.kubeconfig().display());
        self.terminal.say(&format!("{hint}\nkubectl get dgd,dcd,deployments,pods -A\nCtrl-C ends everything"))?;
        loop {
            let mut look = self.look().await;
            let dead = self.stack.operators.iter().filter_map(|operator| operator.check(&self.stack.cluster).err());
            look.lines.extend(
                dead.map(|error| error.to_string())
                    .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()),
            );
            self.terminal.show(look.lines)?;
            if let Some((args, sources)) = &mut sources
                && sources.have_changed()
            {
                self.renew(args).await?;
            }
            sleep(PAUSE).await;
        }
    }

    /// Ends everything.
    ///
    /// # Errors
    /// It does not end.
    pub(super) async fn end(self) -> Result<()> {
        Ok(self.stack.cluster.stop().await?)
    }

    async fn look(&self) -> Look {
        let mut look = Look { lines: Vec::new(), ready: true };
        for target in &self.targets {
            let state = observe(&self.client, target).await;
            look.ready &= matches!(&state, Ok(Some(state)) if state.ready);
            look.lines.extend(match state {
                Ok(Some(state)) => screen(&state, true, self.style).lines().map(str::to_owned).collect(),
                Ok(None) => vec![format!("{target}: deleted")],
                Err(error) => vec![format!("{target}: {error:#}")],
            });
        }
        look
    }

    /// Builds, and restarts what has become another program. Errors of the compiler are shown and change nothing.
    async fn renew(&mut self, args: &OperatorArgs) -> Result<()> {
        self.terminal.say("building")?;
        let begin = Instant::now();
        let (own, before) = (args.clone(), self.stack.binaries.clone());
        let built =
            tokio::task::spawn_blocking(move || own.build_again(&before)).await.context("the build was cancelled")?;
        let binaries = match built {
            Ok(binaries) => binaries,
            Err(error) => return Ok(self.terminal.say(&error.to_string())?),
        };
        let before = std::mem::replace(&mut self.stack.binaries, binaries);
        let (stack, mut said) = (&mut self.stack, Vec::new());
        if stack.binaries.crds_differ(&before) {
            stack.cluster.install_crds(&stack.binaries.crds()?).await?;
            said.push("the CRDs were applied".to_owned());
        }
        for operator in &mut stack.operators {
            if stack.binaries.differs(&before, operator.name()) {
                said.push(match operator.restart(&stack.cluster).await {
                    Ok(()) => format!("{} was restarted", operator.name()),
                    Err(error) => format!("{error:#}"),
                });
            }
        }
        if said.is_empty() {
            said.push("no program has changed".to_owned());
        }
        Ok(self.terminal.say(&format!("{} after {:.1} s", said.join(", "), begin.elapsed().as_secs_f64()))?)
    }
}
