//! Allowed dependencies of the crates, as far as cargo-deny does not check them.

use std::collections::BTreeSet;

use crate::tidy::violation::TidyViolation;

/// Crates that a pure crate must not depend on, however indirectly.
const ASYNC: [&str; 9] =
    ["async-std", "futures", "futures-util", "hyper", "kube-client", "kube-runtime", "smol", "tokio", "tower"];

/// Checks the normal dependencies of a pure crate; `tree` is what `cargo tree --prefix none` prints for it.
pub fn check_pure(crate_name: &str, tree: &str) -> Vec<TidyViolation> {
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let manifest = format!("crates/{crate_name}/Cargo.toml");
    let found = ASYNC.iter().filter(|name| names.contains(*name));
    found
        .map(|name| {
            let text = format!(
                "{crate_name} depends on {name}, but only computes; `cargo tree -p {crate_name} -e normal -i {name}` \
                 shows the way to it"
            );
            TidyViolation::new(&manifest, 1, text)
        })
        .collect()
}

/// Checks that third-party crates have the same features in the commands as in everything, or cargo compiles them, and
/// all that use them, twice; the trees have lines such as `serde_json v1.0.0 [default,std]`.
pub fn check_commands(commands: &str, everything: &str) -> Vec<TidyViolation> {
    let packages = |tree: &str| -> BTreeSet<String> {
        let lines = tree.lines().map(|line| line.trim_end_matches(" (*)"));
        // Of the workspace are those with a path.
        lines.filter(|line| !line.contains("(/")).map(str::to_owned).collect()
    };
    let everything = packages(everything);
    let found = packages(commands).into_iter().filter(|package| !package.is_empty() && !everything.contains(package));
    found
        .map(|package| {
            let text = format!("the commands have {package}, and nothing else has these features; add what is missing");
            TidyViolation::new("xtask/Cargo.toml", 1, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_async_crate_in_a_pure_one_is_found() {
        let tree = "rendering v0.1.0 (/x)\nserde v1.0.0\ntokio v1.50.0 (*)\nfutures-core v0.3.0\n";
        let found = check_pure("rendering", tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].text.starts_with("rendering depends on tokio"), "{}", found[0]);
        assert!(check_pure("rendering", "rendering v0.1.0\nserde v1.0.0\n").is_empty());
    }

    #[test]
    fn a_crate_that_is_compiled_twice_is_found() {
        let everything = "xtask v0.1.0 (/x) []\nsyn v2.0.0 [full,visit]\nbytes v1.0.0 [default,serde]\n";
        let commands = "xtask v0.1.0 (/x) [a]\nsyn v2.0.0 [full,visit] (*)\n\n";
        assert!(check_commands(commands, everything).is_empty());
        let found = check_commands(&commands.replace(",visit", ""), everything);
        assert_eq!(found.len(), 1);
        assert!(found[0].text.starts_with("the commands have syn v2.0.0 [full],"), "{}", found[0]);
    }
}
