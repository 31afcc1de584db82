//! Follows graphs and controllers: shows them as they change, and restarts controllers that were edited.

use std::{
    io::{Stdout, stdout},
    time::Duration,
};

use anyhow::Result;
use kube::Client;
use local_operator::{OperatorArgs, Sources};
use status_view::{Style, Terminal, screen};
use tokio::time::{Instant, sleep};

use super::{Stack, manifests::Target, observe::observe};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

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

    /// Whether everything becomes Ready within `timeout`; else what it waits for is on standard error.
    ///
    /// # Errors
    /// A controller has ended.
    pub(super) async fn until_ready(&mut self, timeout: Duration) -> Result<bool> {
        let end = Instant::now() + timeout;
        loop {
            self.stack.operators.iter().try_for_each(|operator| operator.check(&self.stack.cluster))?;
            let (lines, ready) = self.look().await;
            self.terminal.show(lines.clone())?;
            if ready {
                return Ok(true);
            }
            if Instant::now() >= end {
                eprintln!("not Ready after {} s:\n{}", timeout.as_secs(), lines.join("\n"));
                return Ok(false);
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
        let mut sources = watch.map(|args| (args, Sources::of_crates()));
        let hint = format!("export KUBECONFIG={}", self.stack.cluster.kubeconfig().display());
        self.terminal.say(&format!("{hint}\nkubectl get dgd,dcd,deployments,pods -A\nCtrl-C ends everything"))?;
        loop {
            let (mut lines, _) = self.look().await;
            let dead = self.stack.operators.iter().filter_map(|operator| operator.check(&self.stack.cluster).err());
            for error in dead {
                lines.extend(error.to_string().lines().map(str::to_owned));
            }
            self.terminal.show(lines)?;
            if let Some((args, sources)) = &mut sources
                && sources.have_changed()
            {
                self.terminal.say("building")?;
                let Stack { cluster, operators, binaries } = &mut self.stack;
                let done = args.renew(cluster, operators, binaries).await?;
                self.terminal.say(&done)?;
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

    /// Returns the lines to show, and whether all targets are Ready.
    async fn look(&self) -> (Vec<String>, bool) {
        let (mut lines, mut ready) = (Vec::new(), true);
        for target in &self.targets {
            let state = observe(&self.client, target).await;
            ready &= matches!(&state, Ok(Some(state)) if state.ready);
            lines.extend(match state {
                Ok(Some(state)) => screen(&state, true, self.style).lines().map(str::to_owned).collect(),
                Ok(None) => vec![format!("{target}: deleted")],
                Err(error) => vec![format!("{target}: {error:#}")],
            });
        }
        (lines, ready)
    }
}
