//! `kubectl dynamo completion`: a script that completes the words of `kubectl-dynamo` in a shell.
//!
//! Under its other name, `kubectl_complete-dynamo`, the program prints candidates for kubectl's own completion.

use std::{io::Write, sync::mpsc, thread, time::Duration};

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::KubectlDynamoArgs;
use crate::{
    completion::{answer, complete as candidates},
    observe::{ConnectionArgs, Names, names},
    output::CommandOutcome,
};

/// The program, as a shell sees it.
const PROGRAM: &str = "kubectl-dynamo";

const HINT: &str = "\
The script is for the words of kubectl-dynamo. For those of kubectl dynamo, with names of
graphs and components, give the program a second name beside the first one:
  ln -s kubectl-dynamo \"$(dirname \"$(command -v kubectl-dynamo)\")/kubectl_complete-dynamo\"
kubectl's own completion (kubectl completion --help) then uses it.";

/// Flags of `completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = HINT)]
pub struct CompletionArgs {
    /// Shell that reads the script
    #[arg(value_enum, value_name = "SHELL")]
    shell: CompletionShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompletionShell {
    /// source <(kubectl-dynamo completion bash)
    Bash,
    /// source <(kubectl-dynamo completion zsh)
    Zsh,
    /// kubectl-dynamo completion fish | source
    Fish,
}

/// Prints the script.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &CompletionArgs, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let shell = match args.shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut KubectlDynamoArgs::command(), PROGRAM, &mut script);
    out.write_all(&script)?;
    Ok(CommandOutcome::Fine)
}

/// The name by which kubectl runs the program to complete its words.
pub const COMPLETER: &str = "kubectl_complete-dynamo";
/// Longest time for names from the cluster; without them there are still commands and flags.
const LIMIT: Duration = Duration::from_secs(2);

/// Candidates for the last of the words that follow `kubectl dynamo`, as kubectl reads them.
pub fn complete(words: &[String]) -> String {
    let mut command = KubectlDynamoArgs::command();
    command.build();
    let completion = candidates(&command, words);
    let found = completion.names.clone().map(|names| read(completion.connection.clone(), names));
    answer(&completion, &found.unwrap_or_default())
}

/// Names from the cluster; none after an error or the time limit. A thread, because a program that gets a token for the
/// kubeconfig blocks.
fn read(connection: ConnectionArgs, of: Names) -> Vec<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let found = runtime.map(|runtime| runtime.block_on(names(&connection, &of)));
        // Fails after the time limit.
        let _ = sender.send(found.unwrap_or_default());
    });
    receiver.recv_timeout(LIMIT).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_has_the_commands() {
        for (shell, start) in [
            (CompletionShell::Bash, "_kubectl__dynamo()"),
            (CompletionShell::Zsh, "#compdef kubectl-dynamo"),
            (CompletionShell::Fish, "# "),
        ] {
            let mut out = Vec::new();
            run(&CompletionArgs { shell }, &mut out).unwrap();
            let script = String::from_utf8(out).unwrap();
            assert!(script.starts_with(start), "{shell:?}: {}", script.lines().next().unwrap());
            for word in ["rollout", "bundle", "kubeconfig", "completion"] {
                assert!(script.contains(word), "{shell:?} has no {word}");
            }
        }
    }
}
