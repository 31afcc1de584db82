//! The chart's README: every value, its default and its meaning.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Chart, Setting};

/// The text around the tables.
const INTRODUCTION: &str = "\
[docs/install.md](../../../docs/install.md) describes how to install the chart, and what the operator needs and does. This page names
every value, its default and its meaning. Each is in the `values.yaml` of its chart, whose comments this page is made from by
`cargo xtask charts generate`. A value that is null is the default, a list or a map that is null is empty, unless its meaning says
what null is.
";

/// The text of a program's page.
const PROGRAM: &str = "\
The chart of one program of the operator. It can be installed alone ([one program
alone](../../../../../../../docs/install.md#one-program-alone)); `dynamo-operator`, the chart around it, installs all
programs together. `cargo xtask charts generate` writes this page from the comments in `values.yaml`.
";

/// The text above the values that a program has in common with others.
const COMMON: &str = "\
In an install of all programs these values belong to the chart `dynamo-operator`, which refuses them here. A value that
is null has its default.
";

/// The head of a table of values.
const HEAD: &str = "| value | default | meaning |\n|---|---|---|\n";

/// The page for the platform's chart, which is the first, and all charts in it.
pub(super) fn of(charts: &[Chart]) -> String {
    let mut page = String::new();
    for (index, chart) in charts.iter().enumerate() {
        // Writing into memory cannot fail.
        let _ = match index {
            0 => writeln!(
                page,
                "# {}\n\n{}.\n\n{INTRODUCTION}\n## Values of the platform\n",
                chart.name, chart.description
            ),
            _ => writeln!(page, "\n## `{}`\n\n{}.\n", chart.prefix.trim_end_matches('.'), chart.description),
        };
        page.push_str(HEAD);
        page.extend(chart.values.iter().map(|value| row(&chart.prefix, value)));
    }
    page
}

/// The page for the chart of a program that can be installed alone.
pub(super) fn of_program(chart: &Chart, common: &[Setting]) -> String {
    let table = |values: &[Setting]| values.iter().map(|value| row("", value)).collect::<String>();
    format!(
        "# {}\n\n{}.\n\n{PROGRAM}\n## Values of the program\n\n{HEAD}{}\n## Values for an install of this chart alone\n\n{COMMON}\n{HEAD}{}",
        chart.name,
        chart.description,
        table(&chart.values),
        table(common)
    )
}

fn row(prefix: &str, value: &Setting) -> String {
    let default = match &value.default {
        Value::Null => String::new(),
        default => format!("`{}`", cell(&default.to_string())),
    };
    // Helm would take a dot in a key for the end of it.
    let path: Vec<String> = value.path.iter().map(|key| key.replace('.', "\\.")).collect();
    format!("| `{prefix}{}` | {default} | {} |\n", cell(&path.join(".")), cell(&value.meaning))
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    #[test]
    fn each_chart_has_a_table_with_the_whole_names() {
        let value = |key: &str, default: Value| Setting {
            path: vec!["a".to_owned(), key.to_owned()],
            meaning: "One | other.".to_owned(),
            types: vec![],
            null_means: false,
            default,
        };
        let chart = |prefix: &str, values| Chart {
            name: "platform".to_owned(),
            description: "Does it".to_owned(),
            prefix: prefix.to_owned(),
            dir: PathBuf::new(),
            values,
        };
        let page =
            of(&[chart("", vec![value("b", json!({"x": "|"}))]), chart("sub.deep.", vec![value("c", Value::Null)])]);
        assert!(page.starts_with("# platform\n\nDoes it.\n"), "{page}");
        assert!(page.contains("\n| `a.b` | `{\"x\":\"\\|\"}` | One \\| other. |\n"), "{page}");
        assert!(page.ends_with("\n## `sub.deep`\n\nDoes it.\n\n| value | default | meaning |\n|---|---|---|\n| `sub.deep.a.c` |  | One \\| other. |\n"), "{page}");
    }
}
