//! Pods that share GPU memory, and the script that runs its server.

use std::{
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::PathBuf,
    process::{Child, Command},
};

use api_types::v1beta1::EngineMode;
use serde_json::{Value, json};

use super::*;

fn shared(standbys: u32) -> SharedGpus<'static> {
    SharedGpus { mode: EngineMode::InterPod, device_class: "gpu.nvidia.com", count: 4, standbys, clients: &[] }
}

fn engine() -> PodSpec {
    let main = json!({
        "name": "main", "image": "v:1", "command": ["python3"], "livenessProbe": {}, "readinessProbe": {},
        "env": [{"name": "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", "value": "x"}, {"name": "ENGINE_ID", "value": "9"}],
        "resources": {"limits": {"nvidia.com/gpu": "4"}, "requests": {"cpu": "1"}},
    });
    serde_json::from_value(json!({"containers": [main, {"name": "side"}], "restartPolicy": "Always"})).unwrap()
}

fn json_of(pod: &PodSpec) -> Value {
    serde_json::to_value(pod).unwrap()
}

#[test]
fn an_engine_uses_the_memory_of_its_rank() {
    let mut pod = engine();
    use_memory_of_rank(&mut pod, 3, shared(1));
    let once = pod.clone();
    use_memory_of_rank(&mut pod, 3, shared(1));
    assert_eq!(pod, once, "twice is once");
    let pod = json_of(&pod);
    let main = &pod["containers"][0];
    let names: Vec<_> = main["env"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ENGINE_ID", "GMS_SOCKET_DIR", "FAILOVER_LOCK_PATH", "DYN_SYSTEM_STARTING_HEALTH_STATUS"]);
    assert_eq!(main["resources"], json!({"requests": {"cpu": "1"}}));
    let mount = json!({"name": "gms-shared", "mountPath": "/run/gms/shared",
        "subPathExpr": "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)/rank-3"});
    assert_eq!(main["volumeMounts"], json!([mount]));
    assert_eq!(pod["initContainers"][0]["volumeMounts"], json!([mount]));
    assert_eq!(pod["restartPolicy"], "Never", "the other engine has taken over");
    let mut alone = engine();
    use_memory_of_rank(&mut alone, 0, shared(0));
    assert_eq!(alone.restart_policy.as_deref(), Some("Always"));
}

#[test]
fn the_holder_of_the_memory_is_ready_when_all_sockets_are_there() {
    let mut pod = engine();
    hold_memory_of_rank(&mut pod, 0, shared(1));
    let pod = json_of(&pod);
    let main = &pod["containers"][0];
    assert_eq!((&main["livenessProbe"], &main["readinessProbe"]), (&Value::Null, &Value::Null));
    let test = main["startupProbe"]["exec"]["command"][2].as_str().unwrap();
    assert!(test.ends_with(" -ge 8"), "{test}");
    assert_eq!(pod["restartPolicy"], "Always");
    assert_eq!(json!(rank_claim(shared(1)))["spec"]["devices"]["requests"][0]["exactly"]["count"], 4);
}

/// The script in a folder of its own, with this program in place of the server.
fn run(name: &str, server: &str) -> (Child, PathBuf) {
    let folder = std::env::temp_dir().join(format!("gms-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("python3");
    std::fs::write(&program, format!("#!/bin/bash\n{server}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("gms_0.sock"), "").unwrap();
    let script = server_script().replace(FOLDER, folder.to_str().unwrap());
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let child = Command::new("bash").args(["-c", &script]).env("PATH", path).current_dir(&folder).spawn().unwrap();
    (child, folder)
}

#[test]
fn the_script_ends_with_its_servers_exit_code_and_clears_old_sockets() {
    let (mut child, folder) = run("code", "ls gms_*.sock && exit 9; exit 7");
    assert_eq!(child.wait().unwrap().code(), Some(7));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_signal_reaches_the_servers_processes_and_the_script_waits_for_them() {
    let server = "trap 'sleep 0.1; echo > ended; exit 3' TERM\necho > ready\nsleep 60 & wait";
    let (mut child, folder) = run("signal", server);
    while !folder.join("ready").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was ready");
        std::thread::yield_now();
    }
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(3), None));
    assert!(folder.join("ended").exists());
    std::fs::remove_dir_all(folder).unwrap();
}
