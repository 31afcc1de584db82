//! Nothing in the repository depends on the machine it was written on.

use crate::tidy::{source::TextFile, violation::TidyViolation};

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = ["/Users/", "/home/", "/var/tmp/"];
/// Homes of the users in images that pods run.
const IMAGE_HOMES: [&str; 3] = ["/home/dynamo", "/home/nonroot", "/home/user/.local"];
/// Beginnings of the hosts of package registries: where packages come from is a setting of the machine.
const REGISTRIES: [(&str, &str); 5] = [
    ("index", "crates.io"),
    ("static", "crates.io"),
    ("proxy", "golang.org"),
    ("sum", "golang.org"),
    ("registry", "npmjs.org"),
];

/// Finds paths of a machine, `root` (where the repository is checked out) among them, and hosts of registries.
pub fn check(file: &TextFile, root: &str) -> Vec<TidyViolation> {
    // The rule itself has to name them.
    if file.path.starts_with("xtask/src/tidy/") {
        return Vec::new();
    }
    let mut violations = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(path) = machine_path(line, root) {
            let text = format!("`{path}` is a path of one machine; write it relative to the repository");
            violations.push(TidyViolation::new(&file.path, index + 1, text));
        }
        let hosts = REGISTRIES.iter().map(|(name, domain)| format!("{name}.{domain}"));
        if let Some(host) = hosts.into_iter().find(|host| line.contains(host)) {
            let text = format!("`{host}` is a package registry; leave the choice to the user's own configuration");
            violations.push(TidyViolation::new(&file.path, index + 1, text));
        }
    }
    violations
}

fn machine_path<'a>(line: &str, root: &'a str) -> Option<&'a str> {
    let is_start = |at: usize| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}>)".contains(c))
    };
    let in_image = |at: usize| IMAGE_HOMES.iter().any(|home| line[at..].starts_with(home));
    let is_in = |path: &str| line.match_indices(path).any(|(at, _)| is_start(at) && !in_image(at));
    let root = Some(root).filter(|root| root.matches('/').count() > 1);
    MACHINE_PATHS.into_iter().chain(root).find(|path| is_in(path))
}

#[cfg(test)]
mod tests {
    use super::{REGISTRIES, check};
    use crate::tidy::rules::testing::file;

    #[test]
    fn paths_of_a_machine_and_registries_are_found() {
        let (name, domain) = REGISTRIES[2];
        let registry = format!("GOPROXY=https://{name}.{domain}");
        for (line, found) in [
            (registry.as_str(), 1),
            ("see /home/ann/src/x", 1),
            ("path = \"/Users/ann/x\"", 1),
            ("cache: /var/tmp/x", 1),
            ("/srv/checkout/crates", 1),
            ("mountPath: /home/dynamo/.cache", 0),
            ("mountPath: /root/.cache/vllm", 0),
            ("target/home/x", 0),
            ("https://crates.io/crates/kube", 0),
            ("workingDir: /workspace/examples", 0),
        ] {
            assert_eq!(check(&file("docs/x.md", line), "/srv/checkout").len(), found, "{line}");
        }
        assert!(check(&file("docs/x.md", "/src/main.rs"), "/src").is_empty(), "too short to mean anything");
    }
}
