//! Detects the engine of a worker by its command line.

use api_types::{
    v1beta1::{BackendFramework, DynamoComponentDeployment, MAIN_CONTAINER},
    violations::Violation,
};
use k8s_openapi::api::core::v1::Container;

const ALL: [BackendFramework; 3] = [BackendFramework::Sglang, BackendFramework::Trtllm, BackendFramework::Vllm];

/// The engine of a component: what its command line starts, else what the spec says; `None` for other components.
pub(crate) fn detect(dcd: &DynamoComponentDeployment) -> Result<Option<BackendFramework>, Violation> {
    let spec = &dcd.spec.component;
    if !spec.is_worker() {
        return Ok(None);
    }
    let words = spec.main_container().into_iter().flat_map(|main| main.command.iter().chain(&main.args).flatten());
    let line = words.map(String::as_str).collect::<Vec<_>>().join(" ");
    let explicit = dcd.spec.backend_framework;
    match (started_by(&line).as_slice(), explicit) {
        ([], explicit) => Ok(explicit),
        ([one], None) => Ok(Some(*one)),
        ([one], Some(explicit)) if *one == explicit => Ok(Some(explicit)),
        ([one], Some(explicit)) => Err(Violation::invalid(
            "spec.backendFramework",
            explicit.to_string(),
            format!("contradicts the command line of container {MAIN_CONTAINER}, which starts dynamo.{one}"),
            "make the two agree, or remove spec.backendFramework",
        )),
        (_, Some(explicit)) => Ok(Some(explicit)),
        (several, None) => Err(Violation::invalid(
            format!("spec.podTemplate.spec.containers[{MAIN_CONTAINER}].command"),
            line.as_str(),
            format!(
                "starts several frameworks: {}",
                several.iter().map(|framework| format!("dynamo.{framework}")).collect::<Vec<_>>().join(", ")
            ),
            "set spec.backendFramework to the one that counts, or start only one",
        )),
    }
}

/// The engine that a container starts; `None` if it starts none, or several.
pub fn framework_of(container: &Container) -> Option<BackendFramework> {
    let words = container.command.iter().chain(&container.args).flatten();
    let line = words.map(String::as_str).collect::<Vec<_>>().join(" ");
    match started_by(&line).as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// The engines that a command line starts with `python … -m … dynamo.<engine>` within one simple shell command.
fn started_by(line: &str) -> Vec<BackendFramework> {
    let starts = |framework: &BackendFramework| {
        let module = format!("dynamo.{framework}");
        line.split(['|', '&', ';']).any(|command| runs_module(command, &module))
    };
    ALL.into_iter().filter(starts).collect()
}

pub(super) fn runs_module(command: &str, module: &str) -> bool {
    let after_python = command.match_indices("python").find_map(|(at, word)| {
        let rest = command[at + word.len()..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        rest.starts_with(is_space).then_some(rest)
    });
    let after_flag = after_python.and_then(|rest| {
        let mut flags = rest.match_indices("-m").map(|(at, flag)| &rest[at + flag.len()..]);
        flags.find(|after| after.starts_with(is_space))
    });
    after_flag.is_some_and(|rest| rest.contains(module))
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use BackendFramework::{Sglang, Trtllm, Vllm};

    use super::*;

    #[test]
    fn command_lines_tell_their_engine() {
        let table: [(&str, &[BackendFramework]); 14] = [
            ("python3 -m dynamo.vllm --model m", &[Vllm]),
            ("/bin/sh -c cd x && python3 -m dynamo.sglang --a | tee", &[Sglang]),
            ("python3.12 -u -m dynamo.trtllm", &[Trtllm]),
            ("python -m dynamo.vllm.main", &[Vllm]),
            ("/opt/venv/bin/python -m debugpy --listen 1 -m dynamo.vllm", &[Vllm]),
            ("python3 -m dynamo.mocker", &[]),
            ("python3 -m other; dynamo.vllm", &[]),
            ("python3 x.py | grep -m 1 dynamo.vllm", &[]),
            ("dynamo.vllm", &[]),
            ("python3-dbg -m dynamo.vllm", &[]),
            ("python3 --memory dynamo.vllm", &[]),
            ("exec python3\n -m\tdynamo.sglang", &[Sglang]),
            ("", &[]),
            ("python3 -m dynamo.sglang & python3 -m dynamo.vllm", &[Sglang, Vllm]),
        ];
        for (line, engines) in table {
            assert_eq!(started_by(line), engines, "{line:?}");
        }
    }
}
