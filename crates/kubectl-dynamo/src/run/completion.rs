//! `kubectl dynamo completion`: a script that completes the words of `kubectl-dynamo` in a shell.

use std::io::Write;

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::Cli;
use crate::output::Outcome;

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
pub struct Args {
    /// Shell that reads the script
    #[arg(value_enum, value_name = "SHELL")]
    shell: Target,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
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
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let shell = match args.shell {
        Target::Bash => Shell::Bash,
        Target::Zsh => Shell::Zsh,
        Target::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_has_the_commands() {
        for (shell, start) in
            [(Target::Bash, "_kubectl__dynamo()"), (Target::Zsh, "#compdef kubectl-dynamo"), (Target::Fish, "# ")]
        {
            let mut out = Vec::new();
            run(&Args { shell }, &mut out).unwrap();
            let script = String::from_utf8(out).unwrap();
            assert!(script.starts_with(start), "{shell:?}: {}", script.lines().next().unwrap());
            for word in ["rollout", "bundle", "kubeconfig", "completion"] {
                assert!(script.contains(word), "{shell:?} has no {word}");
            }
        }
    }
}
