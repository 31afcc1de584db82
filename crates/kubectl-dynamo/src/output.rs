//! Formats and exit codes.

use std::{fmt::Display, io::Write, process::ExitCode};

use clap::ValueEnum;
use serde::Serialize;

/// Result of a command that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, and what was asked about is well.
    Fine,
    /// Refused, or what was asked about is not well.
    Unwell,
    /// An edit that was asked about is refused.
    Refused,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => Self::SUCCESS,
            Outcome::Unwell => Self::from(1),
            Outcome::Refused => Self::from(3),
        }
    }
}

/// Format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
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
    pub output: Format,
}

/// Writes data in a format. `text` is the data for people, in the width that the format asks for.
///
/// # Errors
/// The output cannot be written.
pub fn write_data<N: Display>(
    format: Format,
    data: &impl Serialize,
    names: impl IntoIterator<Item = N>,
    text: &str,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match format {
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(data)?)?,
        Format::Yaml => write!(out, "{}", serde_saphyr::to_string(data)?)?,
        Format::Table | Format::Wide => out.write_all(text.as_bytes())?,
        Format::Name => {
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
