//! `cargo xtask rights`: what the programs may do against what they did.
//!
//! The chart gives each program a ServiceAccount and roles; the API server's audit log has the requests of that
//! account. A right that no request needed, and a refused request that no right would allow, are faults, except where
//! `arguments.rs` has a reason why no log can show the right.

mod arguments;
mod difference;
mod granted;
mod used;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};
use arguments::{ARGUMENTS, Reach};
use difference::Difference;
use granted::{Account, Right};
use repository::chart;
use serde_json::Value;
use used::Use;

/// Programs with a ServiceAccount of their own.
const PROGRAMS: [&str; 6] =
    ["graph-controller", "component-controller", "model-controller", "webhook-server", "lease-scope", "crds"];

/// The installs whose rights are held: for a whole cluster, for one namespace (without webhooks and with them), and
/// both for hostile tenants.
pub const INSTALLS: [(&str, &[&str]); 5] = [
    ("default", &[]),
    ("restricted", &["dynamo-operator.namespaceRestriction.enabled=true"]),
    (
        "restricted with webhooks",
        &["dynamo-operator.namespaceRestriction.enabled=true", "dynamo-operator.webhook-server.enabled=true"],
    ),
    ("hardened", &["dynamo-operator.hardened=true"]),
    (
        "hardened and restricted",
        &["dynamo-operator.namespaceRestriction.enabled=true", "dynamo-operator.hardened=true"],
    ),
];

/// The rights of each account of a rendered chart: one line for each resource, with the verbs.
pub fn listing(objects: &[Value]) -> String {
    let mut text = String::new();
    for ((namespace, account), rights) in granted::read(objects) {
        text += &format!("\n{namespace}/{account}\n");
        let mut verbs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for right in rights {
            let place = Right { verb: String::new(), ..right.clone() };
            verbs.entry(place.to_string()).or_default().push(right.verb);
        }
        text.extend(verbs.iter().map(|(place, verbs)| format!(" {place}: {}\n", verbs.join(", "))));
    }
    text
}

/// Compares what the programs may do with what they did, by audit logs of API servers.
///
/// `DYNAMO_AUDIT_DIR=DIR cargo xtask test` keeps the logs of all control planes of the tests in DIR, and ends with this
/// comparison. Without a log, the rights of each account are printed as the chart grants them.
#[derive(Debug, clap::Parser)]
#[command(name = "cargo xtask rights", bin_name = "cargo xtask rights")]
pub struct Args {
    /// Audit logs
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
}

/// Runs the command: all rights of a program against all that it did, wherever it ran.
pub fn run(args: &Args) -> Result<()> {
    if args.logs.is_empty() {
        for (name, values) in INSTALLS {
            println!("# {name}\n{}", listing(&chart::render("rel", "dyn", values)?));
        }
        return Ok(());
    }
    let mut used = BTreeSet::new();
    for log in &args.logs {
        used.extend(used::read(&fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?));
    }
    let granted = everywhere(granted::read(&shipped()?));
    let mut faults = 0;
    for program in PROGRAMS {
        let rights = granted.get(program).cloned().unwrap_or_default();
        let used = used.iter().filter(|request| is_by(program, request)).cloned().collect();
        faults += show(program, &rights, &difference::of(program, &rights, &used, ARGUMENTS, Reach::Tests));
    }
    ensure!(faults == 0, "{faults} rights have no request and no argument, or requests no right");
    Ok(())
}

/// One install of the end-to-end test: its release, its namespace and its values.
#[derive(Debug, Clone, Copy)]
pub struct Install<'a> {
    /// Name of the release.
    pub release: &'a str,
    /// Namespace of the release.
    pub namespace: &'a str,
    /// Values, each as `key=value`.
    pub values: &'a [&'a str],
}

/// Compares, for each ServiceAccount of the installs, rights with requests, and prints what differs.
///
/// # Errors
/// A right has neither request nor argument, or a request no right.
pub fn check(installs: &[Install<'_>], log: &str) -> Result<()> {
    let mut granted: BTreeMap<Account, BTreeSet<Right>> = BTreeMap::new();
    for install in installs {
        for (account, rights) in granted::read(&chart::render(install.release, install.namespace, install.values)?) {
            granted.entry(account).or_default().extend(rights);
        }
    }
    let used = used::read(log);
    let mut faults = 0;
    for ((namespace, name), rights) in &granted {
        let Some(program) = program_of(name) else { continue };
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let own = used.iter().filter(|request| request.user == user).cloned().collect();
        let mut difference = difference::of(program, rights, &own, ARGUMENTS, Reach::Run);
        let of_program = used.iter().filter(|request| is_by(program, request)).cloned().collect();
        difference.shown_elsewhere(&of_program, "the same program used it in another install of this run");
        faults += show(&user, rights, &difference);
    }
    ensure!(faults == 0, "{faults} rights have no request and no argument, or requests no right");
    Ok(())
}

/// All installs, and one with everything that needs more rights.
fn shipped() -> Result<Vec<Value>> {
    let mut objects = chart::render("cluster", "operator", &["dynamo-operator.imagePullSecretDiscovery.enabled=true"])?;
    for (_, values) in INSTALLS {
        objects.extend(chart::render("own", "team", values)?);
    }
    Ok(objects)
}

/// All rights of a program, in whatever namespace.
fn everywhere(granted: BTreeMap<Account, BTreeSet<Right>>) -> BTreeMap<&'static str, BTreeSet<Right>> {
    let mut programs: BTreeMap<&'static str, BTreeSet<Right>> = BTreeMap::new();
    for ((_, name), rights) in granted {
        let Some(program) = program_of(&name) else { continue };
        let rights = rights.into_iter().map(|right| Right { namespace: None, ..right });
        programs.entry(program).or_default().extend(rights);
    }
    programs
}

/// The program that a ServiceAccount is for.
fn program_of(account: &str) -> Option<&'static str> {
    let of = |program: &&str| account == *program || account.ends_with(&format!("-{program}"));
    PROGRAMS.into_iter().find(of)
}

/// Whether a program made a request under a ServiceAccount: one of its name, or of whatever name where its user agent
/// names it. What it does as an administrator needs no right and shows none.
fn is_by(program: &str, request: &Use) -> bool {
    let agent = request.agent.split('/').next().unwrap_or_default();
    let account = request.user.strip_prefix("system:serviceaccount:").and_then(|user| user.split_once(':'));
    account.is_some_and(|(_, name)| {
        program_of(name) == Some(program) || agent.strip_prefix("dynamo-").unwrap_or(agent) == program
    })
}

/// Prints what differs, and gives the number of faults.
fn show(who: &str, rights: &BTreeSet<Right>, difference: &Difference) -> usize {
    let Difference { unused, argued, refused } = difference;
    println!(
        "{who}: {} rights, {} used, {} argued",
        rights.len(),
        rights.len() - unused.len() - argued.len(),
        argued.len()
    );
    for (right, why) in argued {
        println!("  argued   {right}: {why}");
    }
    for right in unused {
        println!("  UNUSED   {right}");
    }
    for request in refused {
        let name = request.name.as_deref().unwrap_or_default();
        println!("  REFUSED  {} {}/{} {name}", request.verb, request.group, request.resource);
    }
    unused.len() + refused.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(user: &str, agent: &str) -> Use {
        let text = str::to_owned;
        let (group, resource, verb) = (text(""), text("pods"), text("get"));
        Use { user: text(user), agent: text(agent), group, resource, verb, name: None, namespace: None, allowed: true }
    }

    #[test]
    fn a_program_is_known_by_its_account_and_never_as_an_administrator() {
        for (user, agent, expected) in [
            ("system:serviceaccount:n:rel-dynamo-operator-graph-controller", "", Some("graph-controller")),
            ("system:serviceaccount:n:dynamo-graph-controller", "", Some("graph-controller")),
            ("system:serviceaccount:n:wide", "dynamo-graph-controller/0.1.0", Some("graph-controller")),
            ("system:serviceaccount:n:marker", "lease-scope/0.1.0", Some("lease-scope")),
            ("admin", "dynamo-graph-controller/0.1.0", None),
            ("admin", "kubectl/1", None),
            ("system:serviceaccount:kube-system:deployment-controller", "kube-controller-manager/1", None),
        ] {
            let found = PROGRAMS.into_iter().find(|program| is_by(program, &request(user, agent)));
            assert_eq!(found, expected, "{user} {agent}");
        }
    }

    #[test]
    fn every_argument_is_about_a_right_of_the_chart() {
        let granted = everywhere(granted::read(&shipped().unwrap()));
        assert_eq!(granted.len(), PROGRAMS.len(), "{:?}", granted.keys());
        for argument in ARGUMENTS {
            for program in argument.programs {
                let rights = &granted[program];
                for text in argument.rights {
                    let known = rights.iter().any(|right| arguments::is_about(text, right));
                    assert!(known, "{program} has no right to {text}");
                }
            }
        }
    }

    /// Were all arguments accepted, and all requests made that a graph needs, nothing would be left.
    #[test]
    fn what_no_log_shows_is_argued_for_by_name() {
        let granted = everywhere(granted::read(&shipped().unwrap()));
        let graphs = &granted["graph-controller"];
        let found = difference::of("graph-controller", graphs, &BTreeSet::new(), ARGUMENTS, Reach::Tests);
        let argued: BTreeSet<&str> = found.argued.iter().map(|(right, _)| right.resource.as_str()).collect();
        assert!(argued.contains("clusterroles") && argued.contains("dynamographdeployments/finalizers"), "{argued:?}");
        assert!(
            found.unused.iter().any(|right| right.resource == "dynamographdeployments/status"),
            "it is used or it goes"
        );
    }
}
