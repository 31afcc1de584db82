//! Formats and exit codes.

use std::{fmt::Display, io::Write, process::ExitCode};

use clap::ValueEnum;
use serde::Serialize;

/// Result of a command that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Done, and the object is well.
    Fine,
    /// Rejected, or the object is not well.
    Unwell,
    /// The edit is rejected.
    Refused,
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> Self {
        match outcome {
            CommandOutcome::Fine => Self::SUCCESS,
            CommandOutcome::Unwell => Self::from(1),
            CommandOutcome::Refused => Self::from(3),
        }
    }
}

/// Format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text for people
    #[default]
    Table,
    /// Text with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names, one a line; those of objects as kubectl takes them, such as pod/chat-0
    Name,
}

/// Flag of commands that print data.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct OutputArgs {
    /// Format of the output
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OutputFormat,
}

/// Writes data in a format. `text` is the data for people, in the width of the format.
///
/// # Errors
/// The output cannot be written.
pub fn write_data<N: Display>(
    format: OutputFormat,
    data: &impl Serialize,
    names: impl IntoIterator<Item = N>,
    text: &str,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match format {
        OutputFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(data)?)?,
        OutputFormat::Yaml => write!(out, "{}", serde_saphyr::to_string(data)?)?,
        OutputFormat::Table | OutputFormat::Wide => out.write_all(text.as_bytes())?,
        OutputFormat::Name => {
            for name in names {
                writeln!(out, "{name}")?;
            }
        }
    }
    Ok(())
}

/// An object as kubectl takes it.
pub fn object_name(kind: &str, name: &str) -> String {
    format!("{}/{name}", kind.to_lowercase())
}
