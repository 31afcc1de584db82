//! Golden tests of names that others rely on and that no renaming may change, as files under version control:
//! `xtask/golden`.
//!
//! | file | content |
//! |---|---|
//! | `flags.txt` | flags of the programs, with their environment variables |
//! | `environment.txt` | names in capitals: environment variables, and codes of other APIs |
//! | `metrics.txt` | families of metrics |
//! | `reasons.txt` | types and reasons of conditions, reasons of events, kinds, and other words in CamelCase |
//! | `rights.txt` | rights of each account, as the chart grants them |
//! | `charts.yaml` | objects of the chart, but for roles and bindings |
//!
//! The CRDs are `deploy/crds`, which a test of api-types compares. `UPDATE_EXPECT=1 cargo test --package xtask golden`
//! rewrites the files after a change that is meant.

use std::{collections::BTreeSet, fmt::Write, fs};

use regex::Regex;
use repository::{chart, root};
use serde_json::Value;

use crate::tidy::source::{self, RustFile, TextFile};

/// Files of the product's crates, without their tests.
fn product() -> Vec<TextFile> {
    let files = source::read_all(root()).unwrap();
    let of_product = |file: &TextFile| {
        let mut parts = file.path.split('/');
        parts.next() == Some("crates") && parts.nth(1) == Some("src")
    };
    files.into_iter().filter(of_product).filter(|file| file.rust().is_some_and(|rust| !rust.is_test())).collect()
}

/// Literals of the product that match a pattern.
fn literals(files: &[TextFile], pattern: &str, of: impl Fn(&TextFile) -> bool) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).unwrap();
    let rust = files.iter().filter(|file| of(file)).filter_map(TextFile::rust);
    let texts = rust.flat_map(|RustFile { literals, .. }| literals).map(|literal| literal.text);
    texts.filter(|text| pattern.is_match(text)).collect()
}

/// First groups of all matches of a pattern.
fn found(files: &[TextFile], pattern: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).unwrap();
    let matches = files.iter().flat_map(|file| pattern.captures_iter(&file.text));
    matches.map(|captures| captures[1].to_owned()).collect()
}

/// `--flag VARIABLE` for each argument of a program that has a long name.
fn flags(files: &[TextFile]) -> BTreeSet<String> {
    let argument =
        Regex::new(r#"#\[arg\(((?:"\]|[^\]])*\blong\b(?:"\]|[^\]])*)\)\]\s*(?:pub(?:\([a-z]+\))? )?([a-z_]+):"#)
            .unwrap();
    let (long, variable) = (Regex::new(r#"long = "([^"]+)""#).unwrap(), Regex::new(r#"env = "([^"]+)""#).unwrap());
    let matches = files.iter().flat_map(|file| argument.captures_iter(&file.text));
    let shown = matches.map(|captures| {
        let of = |pattern: &Regex| pattern.captures(&captures[1]).map(|found| found[1].to_owned());
        let flag = of(&long).unwrap_or_else(|| captures[2].replace('_', "-"));
        format!("--{flag} {}", of(&variable).unwrap_or_default()).trim_end().to_owned()
    });
    shown.collect()
}

fn lines(all: &BTreeSet<String>) -> String {
    all.iter().fold(String::new(), |text, line| text + line + "\n")
}

/// Compares a file with its expected content, or rewrites it.
fn compare(name: &str, actual: &str) {
    let path = root().join("xtask/golden").join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let gone = old.iter().filter(|line| !new.contains(line)).fold(String::new(), |text, line| text + "\n- " + line);
    let come = new.iter().filter(|line| !old.contains(line)).fold(String::new(), |text, line| text + "\n+ " + line);
    let remedy = "if this is meant, run: UPDATE_EXPECT=1 cargo test --package xtask golden";
    assert!(expected == actual, "{name} has changed; {remedy}{gone}{come}");
}

#[test]
fn what_others_rely_on_is_unchanged() {
    let files = product();
    assert!(files.len() > 100, "the product has {} files", files.len());
    compare("flags.txt", &lines(&flags(&files)));
    compare("environment.txt", &lines(&literals(&files, "^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$", |_| true)));
    compare("metrics.txt", &lines(&found(&files, r#"(?:\.register|encode_descriptor)\(\s*"([a-z_]+)""#)));
    let mut reasons = literals(&files, "^[A-Z][A-Z]?[a-z0-9]+([A-Z][A-Za-z0-9]*)+$", |_| true);
    reasons.extend(literals(&files, "^[A-Za-z_]+$", |file| file.name() == "conditions.rs"));
    compare("reasons.txt", &lines(&reasons));
}

#[test]
fn what_the_chart_makes_is_unchanged() {
    let (mut rights, mut objects) = (String::new(), String::new());
    for (name, values) in rights::INSTALLS {
        let rendered = chart::render("rel", "dyn", values).unwrap();
        writeln!(rights, "# {name}\n{}", rights::listing(&rendered)).unwrap();
        writeln!(objects, "# {name}").unwrap();
        let others = rendered.iter().filter(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            !kind.ends_with("Role") && !kind.ends_with("RoleBinding")
        });
        for object in others.collect::<Vec<&Value>>() {
            write!(objects, "---\n{}", serde_saphyr::to_string(object).unwrap()).unwrap();
        }
    }
    compare("rights.txt", &rights);
    compare("charts.yaml", &objects);
}
