//! The kubectl plugin `kubectl dynamo`.

use std::{
    env,
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
};

use clap::Parser;
use kubectl_dynamo::{COMPLETER, KubectlDynamoArgs, Style, complete, run};

fn main() -> ExitCode {
    let mut words = env::args_os();
    if words.next().is_some_and(|program| Path::new(&program).file_stem().is_some_and(|stem| stem == COMPLETER)) {
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let written = io::stdout().write_all(complete(&words).as_bytes());
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let cli = KubectlDynamoArgs::parse();
    let stdout = io::stdout();
    let style = Style::new(stdout.is_terminal(), std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(run(&cli, style, &mut stdout.lock())) {
        Ok(outcome) => outcome.into(),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether the reader of the output has ended, as in `kubectl dynamo logs chat | head`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
