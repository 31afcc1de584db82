//! `cargo xtask bench chart`: figures of earlier measurements as one picture of bars.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

use super::{floor, growth, shards};

const WIDTH: usize = 760;
/// Left edge of bars; labels end here.
const LEFT: usize = 190;
/// Length of the longest bar of a panel.
const LONGEST: f64 = 470.0;
const ROW: usize = 22;
const BAR: usize = 15;
const TITLE: usize = 34;

/// Arguments of `cargo xtask bench chart`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output of `cargo xtask bench floor --json`
    #[arg(long, value_name = "FILE")]
    floor: Option<PathBuf>,
    /// The same of another operator
    #[arg(long, value_name = "FILE", requires = "floor")]
    other: Option<PathBuf>,
    /// Output of `cargo xtask bench growth --json`
    #[arg(long, value_name = "FILE")]
    growth: Option<PathBuf>,
    /// Output of `cargo xtask bench shards --json`
    #[arg(long, value_name = "FILE")]
    shards: Option<PathBuf>,
    /// The SVG file to write
    #[arg(value_name = "SVG")]
    output: PathBuf,
}

/// Bars of one unit, each with its label.
#[derive(Debug)]
struct Panel {
    title: String,
    unit: &'static str,
    bars: Vec<(String, f64)>,
}

/// Draws the figures.
///
/// # Errors
/// A file cannot be read or written, or has no figures.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let mut panels = Vec::new();
    if let Some(path) = &args.floor {
        let ours = seconds(path)?;
        let mut bars =
            vec![("plain client".to_owned(), ours("floor")?), ("this operator".to_owned(), ours("operator")?)];
        if let Some(path) = &args.other {
            bars.push(("other operator".to_owned(), seconds(path)?("operator")?));
        }
        panels.push(Panel { title: "Many graphs at once, time until nothing moves".to_owned(), unit: "s", bars });
    }
    if let Some(path) = &args.growth {
        let all: Vec<growth::Figures> = read(path)?;
        let title = "Time for each further graph, by graphs in the cluster".to_owned();
        let bars = all.iter().flat_map(|step| {
            let client = step.client.map(|by| (format!("{} graphs, plain client", step.graphs), by.seconds * 1e3));
            [(format!("{} graphs", step.graphs), step.seconds * 1e3)].into_iter().chain(client)
        });
        let bars = bars.collect();
        panels.push(Panel { title, unit: "ms", bars });
    }
    if let Some(path) = &args.shards {
        let all: Vec<shards::Figures> = read(path)?;
        let label = |count: usize| if count == 1 { "1 replica".to_owned() } else { format!("{count} replicas") };
        let bars = |of: fn(&shards::Figures) -> f64| all.iter().map(|each| (label(each.replicas), of(each))).collect();
        let title = "Many graphs at once by replicas, answers of the API server delayed".to_owned();
        panels.push(Panel { title, unit: "s", bars: bars(|each| each.seconds) });
        let title = "Memory of the largest replica of graph-controller".to_owned();
        panels.push(Panel { title, unit: "MiB", bars: bars(shards::Figures::largest_mib) });
    }
    ensure!(!panels.is_empty(), "nothing to draw: name a file with figures");
    fs::write(&args.output, svg(&panels)?).with_context(|| format!("cannot write {}", args.output.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The seconds of a measurement, by name.
fn seconds(path: &Path) -> Result<impl Fn(&str) -> Result<f64>> {
    let all: BTreeMap<String, floor::Figures> = read(path)?;
    Ok(move |name: &str| Ok(all.get(name).with_context(|| format!("no {name} in the figures"))?.seconds))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Panels below each other. Bars of a panel are in proportion to its largest value.
fn svg(panels: &[Panel]) -> Result<String> {
    let height = panels.iter().map(|panel| TITLE + ROW * panel.bars.len()).sum::<usize>() + 10;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let mut y = 0;
    for Panel { title, unit, bars } in panels {
        writeln!(text, "<text x=\"10\" y=\"{}\" font-weight=\"bold\">{title}</text>", y + 22)?;
        y += TITLE;
        let largest = bars.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
        for (label, value) in bars {
            let (width, base) = (value / largest * LONGEST, y + BAR - 3);
            writeln!(text, "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{label}</text>", LEFT - 8)?;
            writeln!(text, "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.0}\" height=\"{BAR}\" fill=\"#3b6ea5\"/>")?;
            writeln!(text, "<text x=\"{:.0}\" y=\"{base}\">{value:.1} {unit}</text>", LEFT as f64 + width + 6.0)?;
            y += ROW;
        }
    }
    Ok(text + "</svg>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_to_the_largest_of_their_panel() {
        let bars = vec![("one".to_owned(), 40.0), ("four".to_owned(), 10.0)];
        let text = svg(&[Panel { title: "Time".to_owned(), unit: "s", bars }]).unwrap();
        let widths: Vec<_> = text.lines().filter_map(|line| line.split_once("width=\"")?.1.split_once('"')).collect();
        let widths: Vec<_> = widths.into_iter().map(|(width, _)| width).collect();
        assert_eq!(widths, ["760", "470", "118"]);
        assert!(text.contains(">40.0 s</text>") && text.contains(">Time</text>"), "{text}");
    }
}
