//! The session in `docs/kubectl-dynamo.md` is what a shell prints. `UPDATE_EXPECT=1` writes it anew.

use std::{collections::BTreeMap, env, fs, path::Path};

use regex::{Captures, Regex};

use super::shell::Shell;

/// The manifest that the session begins with.
const OLD: &str = "\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata:
  name: chat
spec:
  services:
    Frontend:
      componentType: frontend
      replicas: 1
      extraPodSpec:
        mainContainer:
          image: registry.example.com/engine:1
    decode:
      componentType: worker
      replicas: 2
      scalingAdapter:
        enabled: true
      resources:
        limits:
          gpu: \"1\"
      extraPodSpec:
        mainContainer:
          image: registry.example.com/engine:1
";

/// Lines that are typed, in parts with a sentence before each. A line is repeated until its output has the texts beside
/// it, and none of those that begin with `!`.
type Part = (&'static str, &'static [(&'static str, &'static [&'static str])]);

const READY: &str = "team-a/chat ready: ";

/// Both revisions before the one that serves.
const REPLACED: [&str; 2] =
    [" -       -            registry.example.com/engine:1", " -       -            registry.example.com/engine:2"];

const PARTS: [Part; 6] = [
    (
        "The install, and a manifest of `v1alpha1`. Pods of this cluster run nothing, so the program `crds` has not connected the\n\
         definitions to the webhook server: `doctor` finds that. `plan` shows what the manifest makes.",
        &[
            ("kubectl dynamo doctor", &[]),
            ("cat old.yaml", &[]),
            ("kubectl dynamo convert -f old.yaml --to v1beta1 | tee chat.yaml", &[]),
            ("kubectl dynamo plan -f chat.yaml", &[]),
            ("kubectl apply -f chat.yaml", &[]),
        ],
    ),
    (
        "The graph, ready. The nodes of this cluster have no kubelet that `logs` could read from.",
        &[
            ("kubectl dynamo rollout status chat --timeout 0", &[READY]),
            ("kubectl dynamo status", &[]),
            ("kubectl dynamo status chat -o wide", &[]),
            ("kubectl dynamo tree chat", &[]),
            ("kubectl dynamo history chat", &[]),
            ("kubectl dynamo top chat", &[]),
            ("kubectl dynamo why chat", &[]),
            ("kubectl dynamo logs chat decode --tail 1", &[]),
        ],
    ),
    (
        "A new image, and a request for 16 GPUs: no node has so many. `why` names the cause. The manifest is mended, its plan\n\
         shown, and applied.",
        &[
            ("sed -i -e 's/engine:1/engine:2/' -e 's/gpu: \"1\"/gpu: \"16\"/' chat.yaml", &[]),
            ("kubectl apply -f chat.yaml", &[]),
            (
                "kubectl dynamo why chat",
                &["NoGpu", "1 have the latest template; pod chat-decode-", "1 of 3 pods", "!chat-frontend"],
            ),
            ("kubectl dynamo status chat", &[]),
            ("kubectl dynamo history chat", &["engine:1", "engine:2"]),
            ("sed -i 's/gpu: \"16\"/gpu: \"1\"/' chat.yaml", &[]),
            ("kubectl dynamo plan -f chat.yaml", &[]),
            ("kubectl apply -f chat.yaml", &[]),
            ("kubectl dynamo rollout status chat --timeout 0", &[READY]),
            ("kubectl dynamo history chat", &REPLACED),
        ],
    ),
    (
        "The next image, on half of the workers first, and back again.",
        &[
            ("kubectl dynamo rollout step chat 50%", &[]),
            ("sed -i 's/engine:2/engine:3/' chat.yaml", &[]),
            ("kubectl apply -f chat.yaml", &[]),
            (
                "kubectl dynamo status chat",
                &[
                    "1 new and 1 old",
                    ": 1 workers of the old",
                    "1/2 workers",
                    "2/2     1         2",
                    "!chat-frontend",
                    "!desired pods",
                ],
            ),
            ("kubectl dynamo rollout pause chat", &[]),
            ("kubectl dynamo rollout resume chat", &[]),
            ("kubectl dynamo rollout undo chat", &[]),
            ("kubectl dynamo status chat", &["is undone", "!Waiting for", "!rollout [", "2/2     2         2"]),
            ("kubectl dynamo rollout resume chat", &[]),
            ("kubectl dynamo rollout step chat none", &[]),
            ("kubectl dynamo rollout status chat --timeout 0", &[READY]),
        ],
    ),
    (
        "More workers, a restart, and a support archive.",
        &[
            ("kubectl dynamo scale chat decode=3 Frontend=2", &[]),
            ("kubectl dynamo scale chat decode=3", &[]),
            ("kubectl dynamo rollout status chat --timeout 0", &["ready: Frontend 1/1, decode 3/3"]),
            ("kubectl dynamo rollout restart chat --id first", &[]),
            ("kubectl dynamo rollout status chat --timeout 0", &[READY]),
            ("kubectl dynamo top chat", &["Frontend    1 ", "decode      3 "]),
            ("kubectl dynamo bundle chat", &[]),
            ("tar --list --file chat-bundle.tar.gz", &[]),
        ],
    ),
    (
        "[Completion](#completion): what kubectl offers to the shell after `kubectl dynamo rollout re` and after `kubectl dynamo\n\
         logs chat`, and how it is turned on.",
        &[
            ("kubectl __complete dynamo rollout re 2>/dev/null", &[]),
            ("kubectl __complete dynamo logs chat '' 2>/dev/null", &[]),
            ("kubectl dynamo completion --help", &[]),
        ],
    ),
];

const BEGIN: &str = "<!-- session -->\n";
const END: &str = "<!-- end of the session -->";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_of_the_docs_is_what_a_shell_prints() {
    let shell = Box::pin(Shell::start()).await;
    shell.write("old.yaml", OLD);
    let mut session = String::new();
    for (text, lines) in PARTS {
        session.push_str(&format!("{text}\n\n```console\n"));
        for (line, texts) in lines {
            let output = Box::pin(shell.run_until(line, texts)).await;
            println!("$ {line}\n{output}");
            session.push_str(&format!("$ {line}\n{}", steady(&output)));
        }
        session.push_str("```\n\n");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubectl-dynamo.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{session}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, session, "run this test with UPDATE_EXPECT=1");
}

/// Output with names of pods and ages that are the same in every run.
fn steady(output: &str) -> String {
    let mut names = BTreeMap::new();
    let pod =
        Regex::new(r"\b(chat-[a-z0-9-]+-[bcdf0-9ghjklmnpqrstvwxz]{8,10})-([bcdf2-9ghjklmnpqrstvwxz]{5})\b").unwrap();
    let known = ["x2k4p", "h7d9q", "m5t8w", "b6r4z", "v9c2n", "k8s5f", "q4j7x", "w6g2d"];
    let output = pod.replace_all(output, |found: &Captures<'_>| {
        let next = known[names.len() % known.len()];
        format!("{}-{}", &found[1], names.entry(found[2].to_owned()).or_insert(next))
    });
    let ago = Regex::new(r"\b\d+[smh] ago\b").unwrap();
    let output = ago.replace_all(&output, "30s ago");
    // The heading AGE and an age are as wide as each other then.
    let age = Regex::new(r"( )(AGE|\d+[smh])( +|$)").unwrap();
    let mut in_table = false;
    let lines = output.lines().map(|line| {
        in_table = line.contains(" AGE") || in_table && !line.is_empty();
        if !in_table {
            return format!("{line}\n");
        }
        let line = age.replace(line, |found: &Captures<'_>| {
            let word = if &found[2] == "AGE" { "AGE" } else { "30s" };
            format!(" {word}{}", if found[3].is_empty() { "" } else { "   " })
        });
        format!("{line}\n")
    });
    lines.collect()
}
