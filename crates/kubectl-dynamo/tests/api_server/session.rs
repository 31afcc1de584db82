//! The session in `docs/kubectl-dynamo.md` is what the commands print. `UPDATE_EXPECT=1` writes it anew.

use std::{env, fs, path::Path};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};
use serde_json::json;
use test_cluster::wait;

use crate::harness::{LIMIT, Team};

const COMMANDS: [&str; 12] = [
    "status",
    "status chat -o wide",
    "why chat",
    "tree chat",
    "history chat",
    "top chat",
    "scale chat decode=2",
    "rollout step chat 25%",
    "rollout pause chat",
    "rollout resume chat",
    "rollout restart chat --id first",
    "rollout status chat --timeout 0",
];

const BEGIN: &str = "<!-- session -->\n";
const END: &str = "<!-- end of the session -->";

#[tokio::test]
async fn the_session_of_the_docs_is_what_the_commands_print() {
    let team = Team::new("plugin-session").await;
    team.graph(true, json!({ "limits": { "nvidia.com/gpu": "1", "cpu": "2", "memory": "4Gi" } })).await;
    let pods: Api<Pod> = Api::namespaced(team.client.clone(), &team.namespace);
    let pod = wait::until("a pod that is ready", LIMIT, async || {
        let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_ready = |pod: &Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
        };
        let ready = all.into_iter().find(is_ready).and_then(|pod| pod.metadata.name);
        ready.ok_or_else(|| "none is ready".to_owned())
    });
    let pod = pod.await.unwrap();
    let mut session = "```console\n".to_owned();
    for command in COMMANDS {
        let (_, text) = team.run(&command.split(' ').collect::<Vec<_>>()).await;
        session.push_str(&format!("$ kubectl dynamo {command}\n{}", steady(&text, &team.namespace, &pod)));
    }
    session.push_str("```\n");
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

/// Output with names and ages that are the same in every run.
fn steady(text: &str, namespace: &str, pod: &str) -> String {
    let text =
        text.replace("kwok-1", "kwok-0").replace(namespace, "team-a").replace(pod, "chat-decode-7c9d8f6b5-x2k4p");
    let lines = text.lines().map(|line| {
        let words = line.split(' ').map(|word| if is_age(word) { "30s" } else { word }).collect::<Vec<_>>().join(" ");
        // An age of two characters is padded by a space more.
        if line.split(' ').any(|word| is_age(word) && word.len() == 2) {
            words.replacen("30s ", "30s", 1)
        } else {
            words
        }
    });
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

fn is_age(word: &str) -> bool {
    let digits = word.strip_suffix('s').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
