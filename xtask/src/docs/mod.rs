//! `cargo xtask docs`: checks commands, links and values of the chart in the pages.
//!
//! Commands in fenced blocks are read by the programs that they are for: `helm` renders the chart with their values,
//! `kubectl`, `cargo xtask` and `crds` find unknown flags. Links lead to files and headings that exist,
//! and values of the chart that a page names are there, as are the tests that keep defects away.

mod commands;
mod page;
mod regressions;
mod values;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use commands::Checker;
use page::Page;
use regressions::Functions;
use repository::{chart::platform, files, read, root};

/// Checks commands, links, values of the chart and names of tests in the docs.
pub(crate) fn run() -> Result<()> {
    let pages = pages()?;
    let checker = Checker::new()?;
    let functions = Functions::read(root())?;
    let mut faults = Vec::new();
    let mut commands = 0;
    for path in &pages {
        let page = Page::read(&read(path)?);
        let name = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        let mut fault = |line: usize, text: String| faults.push(format!("{name}:{line}: {text}"));
        for (line, target) in &page.links {
            if let Err(error) = follow(path, target) {
                fault(*line, format!("{target}: {error:#}"));
            }
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        for (line, code) in &page.code {
            if let Some(unknown) = checker.values.unknown(&file, code) {
                fault(*line, format!("the chart has no value {unknown}"));
            }
            if functions.lacks(&file, code) {
                fault(*line, format!("there is no test {code}"));
            }
            if let Some(words) = code.strip_prefix("cargo xtask ")
                && let Err(error) = commands::xtask(&words.split_whitespace().collect::<Vec<_>>())
            {
                fault(*line, format!("{code}: {error:#}"));
            }
        }
        for (line, command) in
            page.lines.iter().flat_map(|(line, text)| page::commands(text).into_iter().map(move |c| (line, c)))
        {
            match checker.command(&command) {
                Ok(checked) => commands += usize::from(checked),
                Err(error) => fault(*line, format!("{}: {error:#}", command.join(" "))),
            }
        }
    }
    if !faults.is_empty() {
        bail!("{} faults:\n{}", faults.len(), faults.join("\n"));
    }
    println!("{} pages hold, with {commands} commands", pages.len());
    Ok(())
}

/// All pages of the repository that people read.
fn pages() -> Result<Vec<PathBuf>> {
    let folders = [root().to_owned(), root().join("docs"), platform()];
    let pages = folders.iter().map(|dir| files(dir, &["md"])).collect::<Result<Vec<_>>>()?;
    Ok(pages.concat())
}

/// Follows a link of a page, unless it leads out of the repository.
fn follow(from: &Path, target: &str) -> Result<()> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path = if file.is_empty() { from.to_owned() } else { from.with_file_name(file) };
    if !path.exists() {
        bail!("there is no such file");
    }
    match heading {
        Some(heading) if !Page::read(&read(&path)?).anchors.iter().any(|anchor| anchor == heading) => {
            bail!("there is no such heading")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_holds() {
        run().unwrap();
    }

    /// In the Go operator's chart, they name a program that is no longer installed.
    #[test]
    fn what_helm_says_after_an_install_can_be_done() {
        let notes = platform().join("templates/NOTES.txt");
        let (checker, mut commands) = (Checker::new().unwrap(), 0);
        for line in read(&notes).unwrap().lines().filter(|line| line.starts_with("  kubectl ")) {
            // The text between braces is a name.
            let parts = line.split("{{").map(|part| part.split_once("}}").map_or(part, |(_, rest)| rest));
            for command in page::commands(parts.collect::<Vec<_>>().join("name").trim()) {
                assert!(checker.command(&command).unwrap(), "{line}");
                commands += 1;
            }
        }
        assert!(commands >= 3);
    }

    #[test]
    fn a_link_leads_to_a_file_and_a_heading() {
        let page = root().join("docs/install.md");
        for (target, leads) in [
            ("upgrade.md", true),
            ("upgrade.md#from-the-go-operator", true),
            ("#values", true),
            ("../README.md", true),
            ("https://example.com/x", true),
            ("gone.md", false),
            ("upgrade.md#gone", false),
        ] {
            assert_eq!(follow(&page, target).is_ok(), leads, "{target}");
        }
    }

    #[test]
    fn a_command_that_its_program_lacks_is_a_fault() {
        let checker = Checker::new().unwrap();
        for (line, right) in [
            (
                "helm install dynamo deploy/helm/dynamo-platform --namespace n --set dynamo-operator.upgradeCRD=false",
                true,
            ),
            ("helm install dynamo deploy/helm/dynamo-platform --set dynamo-operator.upgradeCRDs=false", false),
            (
                "helm install dynamo deploy/helm/dynamo-platform --set dynamo-operator.controllerManager.replicas=two",
                false,
            ),
            ("helm install dynamo deploy/helm/dynamo-platform --no-such-flag", false),
            ("helm install dynamo deploy/helm/dynamo-platform --values mine.yaml --wait", true),
            ("helm install dynamo deploy/helm/dynamo-platform --values mine.yaml --no-such-flag", false),
            ("helm uninstall dynamo --namespace n", true),
            ("kubectl get dgd --all-namespaces", true),
            ("kubectl get dgds", false),
            ("kubectl wait --for=condition=Ready dynamomodels/a", true),
            ("kubectl wait --for=condition=Ready dynamothing/a", false),
            ("kubectl get pods --no-such-flag", false),
            ("kubectl delete clusterroles --selector app.kubernetes.io/instance=dynamo,a=b", true),
            ("kubectl delete clusterroles --selector app.kubernetes.io/name=dynamo-operator", false),
            ("cargo xtask up --watch -f a.yaml", true),
            ("cargo xtask up --no-such-flag", false),
            ("cargo xtask no-such-command", false),
            ("cargo test -p graph-controller", true),
            ("cargo test -p no-such-package", false),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(checker.command(&words).is_ok(), right, "{line}");
        }
    }
}
