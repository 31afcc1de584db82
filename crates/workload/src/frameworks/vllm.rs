//! vLLM.

use crate::{pod::env, validate::CacheMount};
use api_types::env as names;
use k8s_openapi::api::core::v1::Container;

/// Where vLLM keeps compiled kernels unless told otherwise.
pub(super) const CACHE_PATH: &str = "/root/.cache/vllm";

const RAY_PORT: u16 = 6379;
const ELASTIC: &str = "--enable-elastic-ep";
const PARALLEL_BACKEND: [&str; 2] = ["--data-parallel-backend", "-dpb"];
const RAY: &str = "ray";

/// Starts a Ray head for elastic expert parallelism, and points vLLM at the compilation cache.
pub(super) fn adapt_main(main: &mut Container, cache: Option<CacheMount<'_>>) {
    if let Some(launch) = elastic_launch(main) {
        main.command = Some(vec!["/bin/sh".to_owned(), "-c".to_owned()]);
        main.args = Some(vec![launch]);
        // The head registers under this address and the engine looks for it there; both must mean the same interface.
        env::replace(main, env::from_field(names::POD_IP, "status.podIP"));
        env::replace(main, env::from_field(names::VLLM_DP_MASTER_IP, "status.podIP"));
    }
    if let Some(cache) = cache {
        env::replace(main, env::value(names::VLLM_CACHE_ROOT, cache.path));
    }
}

/// The shell line that starts a Ray head, waits for it and becomes the engine.
///
/// `None` if the engine does not scale over Ray, or if the image's own entry point starts it: that one we cannot wrap.
fn elastic_launch(main: &Container) -> Option<String> {
    let command = main.command.as_deref().filter(|command| !command.is_empty())?;
    let line: Vec<&str> = command.iter().chain(main.args.iter().flatten()).map(String::as_str).collect();
    let words: Vec<&str> = line.iter().flat_map(|part| part.split_whitespace()).collect();
    if !(words.contains(&ELASTIC) && PARALLEL_BACKEND.iter().any(|flag| has_value(&words, flag, RAY))) {
        return None;
    }
    let engine = line.iter().map(|token| quoted(token)).collect::<Vec<_>>().join(" ");
    let head = format!("ray start --head --port={RAY_PORT} --node-ip-address=\"${}\" --block", names::POD_IP);
    let probe = format!(
        "python3 -c \"import socket; s=socket.create_connection(('127.0.0.1',{RAY_PORT}),timeout=1); s.close()\""
    );
    let give_up = "[ \"$i\" -ge 150 ] && { echo \"ERROR: Ray head did not start within 300s\" >&2; exit 1; }";
    Some(format!("{head} & i=0; until {probe} 2>/dev/null; do i=$((i+1)); {give_up}; sleep 2; done && exec {engine}"))
}

fn has_value(words: &[&str], flag: &str, value: &str) -> bool {
    words.windows(2).any(|pair| pair == [flag, value])
        || words.iter().any(|word| word.split_once('=') == Some((flag, value)))
}

/// `token` as one word of a POSIX shell.
fn quoted(token: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !token.is_empty() && token.chars().all(plain) {
        return token.to_owned();
    }
    format!("'{}'", token.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(command: &[&str], args: &[&str]) -> Container {
        let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        Container { command: list(command), args: list(args), ..Container::default() }
    }

    #[test]
    fn only_elastic_engines_over_ray_with_a_command_get_a_ray_head() {
        let table: [(&[&str], &[&str], bool); 7] = [
            (&["python3", "-m", "dynamo.vllm"], &["--enable-elastic-ep", "--data-parallel-backend", "ray"], true),
            (&["python3", "-m", "dynamo.vllm"], &["--enable-elastic-ep", "-dpb=ray"], true),
            (&["sh", "-c"], &["python3 -m dynamo.vllm --enable-elastic-ep -dpb ray"], true),
            (&["python3", "-m", "dynamo.vllm"], &["--enable-elastic-ep", "--data-parallel-backend", "mp"], false),
            (&["python3", "-m", "dynamo.vllm"], &["--data-parallel-backend", "ray"], false),
            (&["python3"], &["--enable-elastic-ep", "--data-parallel-backend=rayon"], false),
            (&[], &["--enable-elastic-ep", "-dpb", "ray"], false),
        ];
        for (command, args, wrapped) in table {
            let mut main = container(command, args);
            adapt_main(&mut main, None);
            assert_eq!(main != container(command, args), wrapped, "{command:?} {args:?}");
        }
    }

    #[test]
    fn the_engine_starts_when_the_ray_head_answers() {
        let mut main = container(&["python3", "-m", "dynamo.vllm"], &["--enable-elastic-ep", "-dpb", "ray", "a b"]);
        adapt_main(&mut main, None);
        assert_eq!(main.command.unwrap(), ["/bin/sh", "-c"]);
        let line = main.args.unwrap().remove(0);
        assert!(line.starts_with("ray start --head --port=6379 --node-ip-address=\"$POD_IP\" --block & i=0; until "));
        assert!(line.ends_with(" && exec python3 -m dynamo.vllm --enable-elastic-ep -dpb ray 'a b'"), "{line}");
        let env: Vec<_> = main.env.unwrap().into_iter().map(|variable| variable.name).collect();
        assert_eq!(env, [names::POD_IP, names::VLLM_DP_MASTER_IP]);
    }

    #[test]
    fn tokens_survive_the_shell() {
        for (token, expected) in
            [("a-b=c", "a-b=c"), ("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("$X", "'$X'"), ("é", "'é'")]
        {
            assert_eq!(quoted(token), expected);
        }
    }

    #[test]
    fn the_cache_replaces_an_older_setting() {
        let mut main = container(&["python3"], &[]);
        main.env = Some(vec![env::value(names::VLLM_CACHE_ROOT, "/elsewhere"), env::value("Z", "1")]);
        adapt_main(&mut main, Some(CacheMount { claim: "cache", path: "/cache" }));
        let env: Vec<_> = main.env.unwrap().into_iter().map(|e| (e.name, e.value.unwrap())).collect();
        assert_eq!(env, [("Z".to_owned(), "1".to_owned()), (names::VLLM_CACHE_ROOT.to_owned(), "/cache".to_owned())]);
    }
}
