//! Tests of what the legacy API adds to a component.

use api_types::{v1alpha1::DynamoComponent, violations::Violation};
use serde_json::{Value, json};

use super::*;

fn component(value: Value) -> ComponentSpec {
    serde_json::from_value(value).unwrap()
}

fn tagged(tag: &str) -> PreservedService {
    PreservedService { tag: Some(tag.to_owned()), ..PreservedService::default() }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

#[test]
fn a_tag_says_what_is_served() {
    let mut entry = component(json!({ "name": "Frontend" }));
    use_image(&mut entry, &tagged("graphs.agg:Frontend"), "r/i:1", &[]);
    let main = entry.main_container().unwrap();
    assert_eq!((main.image.as_deref(), entry.type_.unwrap().as_str()), (Some("r/i:1"), "frontend"));
    assert_eq!(main.command.as_deref().unwrap(), ["sh", "-c"]);
    assert_eq!(
        main.args.as_deref().unwrap(),
        ["cd src && uv run dynamo serve --system-app-port 5000 --enable-system-app --use-default-health-checks \
          --service-name Frontend graphs.agg:Frontend --Frontend.ServiceArgs.dynamo.namespace=\"$DYN_NAMESPACE\""]
    );
    let ports: Vec<_> = main.ports.iter().flatten().map(|port| port.container_port).collect();
    assert_eq!(ports, [8000, 5000]);
    let readiness = main.readiness_probe.as_ref().and_then(|probe| probe.http_get.as_ref()).unwrap();
    assert_eq!(readiness.path.as_deref(), Some("/readyz"));

    let mut behind = component(json!({ "name": "Worker" }));
    use_image(&mut behind, &tagged("graphs.agg:Frontend"), "r/i:1", &[variable("DYNAMO_CONFIG_PATH", "/config")]);
    let main = behind.main_container().unwrap();
    assert_eq!((behind.type_, main.ports.as_ref().unwrap().len()), (None, 1));
    assert!(main.args.as_ref().unwrap()[0].ends_with(" -f \"$DYNAMO_CONFIG_PATH\""));
}

#[test]
fn what_the_author_says_stays() {
    let own = json!({ "name": "main", "command": ["run"], "livenessProbe": { "exec": { "command": ["ok"] } },
        "env": [{ "name": "DYNAMO_PORT", "value": "1" }], "ports": [{ "containerPort": 1 }] });
    let template = json!({ "spec": { "containers": [{ "name": "side", "image": "s" }, own] } });
    let mut converted = component(json!({ "name": "A", "type": "worker", "podTemplate": template }));
    use_image(&mut converted, &tagged("m:A"), "r/i:1", &[]);
    let main = serde_json::to_value(converted.main_container().unwrap()).unwrap();
    assert_eq!(main["livenessProbe"], json!({ "exec": { "command": ["ok"] } }));
    assert_eq!(main["ports"], json!([{ "containerPort": 1 }]));
    assert_eq!((&main["args"], &main["command"], &main["image"]), (&Value::Null, &json!(["run"]), &json!("r/i:1")));
    assert_eq!(main["env"], json!([{ "name": "DYNAMO_PORT", "value": "1" }]));
    assert_eq!(main["startupProbe"]["httpGet"]["port"], "health");
}

#[test]
fn privileges_are_given_unless_the_author_says_otherwise() {
    use api_types::conversion::preserved::legacy::Privilege::{
        HostIpc, HostNetwork, HostPid, Privileged, Ptrace, Root,
    };
    let all = PreservedService {
        privileges: [HostIpc, HostNetwork, HostPid, Privileged, Ptrace, Root].into(),
        ..PreservedService::default()
    };
    let mut plain = component(json!({ "name": "A" }));
    use_image(&mut plain, &all, "r/i:1", &[]);
    let pod = serde_json::to_value(plain.pod_template.unwrap().spec.unwrap()).unwrap();
    let expected = json!({ "privileged": true, "runAsUser": 0, "capabilities": { "add": ["SYS_PTRACE"] } });
    assert_eq!(pod["containers"][0]["securityContext"], expected);
    assert_eq!([&pod["hostIPC"], &pod["hostNetwork"], &pod["hostPID"]], [true, true, true]);

    let own =
        json!({ "name": "main", "securityContext": { "runAsUser": 5, "capabilities": { "add": ["SYS_PTRACE"] } } });
    let template = json!({ "spec": { "hostNetwork": false, "containers": [own] } });
    let mut converted = component(json!({ "name": "A", "podTemplate": template }));
    use_image(
        &mut converted,
        &PreservedService { privileges: [HostNetwork, Ptrace, Root].into(), ..all },
        "r/i:1",
        &[],
    );
    let pod = serde_json::to_value(converted.pod_template.unwrap().spec.unwrap()).unwrap();
    assert_eq!(pod["containers"][0]["securityContext"], own["securityContext"]);
    assert_eq!((&pod["hostNetwork"], &pod["hostIPC"]), (&json!(false), &Value::Null));
}

#[test]
fn a_service_without_a_program_is_a_violation() {
    let main = |fields: Value| {
        let mut container = json!({ "name": "main", "image": "i" });
        container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        component(json!({ "name": "A", "podTemplate": { "spec": { "containers": [container] } } }))
    };
    assert_eq!(
        check_program(&main(json!({})), "service").unwrap_err().to_string(),
        "dynamoTag: is missing, and nothing else determines what the service runs; \
         set dynamoTag, componentType, or command or args in extraPodSpec.mainContainer"
    );
    assert_eq!(check_program(&main(json!({ "args": ["run"] })), ""), Ok(()));
    assert_eq!(check_program(&main(json!({ "command": ["run"] })), ""), Ok(()));
    assert_eq!(check_program(&component(json!({ "name": "A", "type": "frontend" })), ""), Ok(()));
}

#[test]
fn a_configuration_says_how_many_and_how_large() {
    let args =
        json!({ "workers": 3, "resources": { "cpu": "10", "memory": "20Gi", "gpu": 2, "custom": { "x/y": "1" } } });
    let config = json!({ "Worker": { "ServiceArgs": args }, "Frontend": { "port": 9999, "a": 1 } }).to_string();
    let inherited = [variable("DYN_DEPLOYMENT_CONFIG", &config)];
    let mut worker = component(json!({ "name": "Worker" }));
    configure(&mut worker, &inherited).unwrap();
    assert_eq!(worker.replicas, Some(3));
    let resources = serde_json::to_value(&worker.main_container().unwrap().resources).unwrap();
    assert_eq!(resources["limits"], json!({ "cpu": "10", "memory": "20Gi", "nvidia.com/gpu": "2", "x/y": "1" }));
    assert_eq!(resources["requests"], resources["limits"]);
    let mut fixed = component(json!({ "name": "Worker", "replicas": 1 }));
    configure(&mut fixed, &inherited).unwrap();
    assert_eq!(fixed.replicas, Some(1), "the user's number takes precedence");
    let workers_of = |name: &str, own: &[EnvVar]| workers(name, false, own, &inherited);
    assert_eq!(
        (workers_of("Worker", &[]), workers_of("Frontend", &[]), workers_of("Other", &[])),
        (Some(3), None, None)
    );
    let own = [variable("DYN_DEPLOYMENT_CONFIG", r#"{ "Worker": { "ServiceArgs": { "workers": 0 } } }"#)];
    assert_eq!(workers_of("Worker", &own), Some(0));
    assert_eq!(workers_of("Worker", &[variable("DYN_DEPLOYMENT_CONFIG", "")]), None, "its own says nothing");

    let mut frontend = component(json!({ "name": "Frontend", "type": "frontend" }));
    configure(&mut frontend, &inherited).unwrap();
    let env = frontend.main_container().unwrap().env.as_ref().unwrap();
    let config: Value = serde_json::from_str(env[0].value.as_deref().unwrap()).unwrap();
    assert_eq!(config["Frontend"], json!({ "port": 8000, "a": 1 }), "the port of its Service");
    let renamed = json!({ "name": "main", "env": [
        { "name": "DYN_DEPLOYMENT_CONFIG", "value": r#"{ "frontend": { "b": "<&>", "a": 1 } }"# }, { "name": "Z" }] });
    let mut renamed: ComponentSpec = component(json!({ "name": "Entry", "type": "frontend",
        "podTemplate": { "spec": { "containers": [renamed] } } }));
    configure(&mut renamed, &inherited).unwrap();
    let env = renamed.main_container().unwrap().env.as_ref().unwrap();
    let expected = r#"{"frontend":{"a":1,"b":"\u003c\u0026\u003e","port":8000}}"#;
    assert_eq!((env[0].value.as_deref(), env.len()), (Some(expected), 2), "as the Go operator writes it");
    let mut other = component(json!({ "name": "Other" }));
    configure(&mut other, &inherited).unwrap();
    assert_eq!(other, component(json!({ "name": "Other" })));
    let wrong = configure(&mut other, &[variable("DYN_DEPLOYMENT_CONFIG", "{")]).unwrap_err();
    assert_eq!(wrong.path, "envs[DYN_DEPLOYMENT_CONFIG]");
}

/// Defect of the operator of the legacy API: a volume without a place crashed it.
#[test]
fn a_volume_needs_a_place() {
    let mut any = component(json!({ "name": "A" }));
    let nowhere = mount(&mut any, &PreservedVolume::default(), "g-a").unwrap_err();
    assert_eq!(nowhere.path, "mountPoint");
    let volume = PreservedVolume { mount_point: "/data".to_owned(), ..PreservedVolume::default() };
    for _ in 0..2 {
        assert_eq!(mount(&mut any, &volume, "g-a").unwrap().name, "g-a");
    }
    let mounts = any.main_container().unwrap().volume_mounts.as_ref().unwrap();
    assert_eq!(mounts.len(), 1);
    assert_eq!((mounts[0].name.as_str(), mounts[0].mount_path.as_str()), ("g-a", "/data"));
}

/// Defect: `mountPath`, by which the document of the legacy API names it, was no place.
#[test]
fn the_place_of_a_volume_has_two_names() {
    let volume = |mount_point: &str, mount_path: &str| {
        let mut any = component(json!({ "name": "A" }));
        let (mount_point, mount_path) = (mount_point.to_owned(), mount_path.to_owned());
        mount(&mut any, &PreservedVolume { mount_point, mount_path, ..PreservedVolume::default() }, "g-a")?;
        let mounts = any.main_container().unwrap().volume_mounts.clone().unwrap();
        Ok::<_, Violation>(mounts[0].mount_path.clone())
    };
    for (point, path) in [("", "/data"), ("/data", ""), ("/data", "/data")] {
        assert_eq!(volume(point, path).as_deref(), Ok("/data"), "{point:?} {path:?}");
    }
    assert_eq!(volume("/data", "/other").unwrap_err().path, "mountPath");
}

#[test]
fn pull_secrets_are_joined() {
    let secret = |name: &str| LocalObjectReference { name: name.to_owned() };
    let mut any = component(
        json!({ "name": "A", "podTemplate": { "spec": { "containers": [], "imagePullSecrets": [{ "name": "a" }] } } }),
    );
    pull_with(&mut any, &[secret("a"), secret("b")]);
    let template = any.pod_template.unwrap().spec.unwrap();
    assert_eq!(template.image_pull_secrets.unwrap(), [secret("a"), secret("b")]);
}

fn built(status: Value) -> DynamoComponent {
    serde_json::from_value(json!({
        "metadata": { "name": "chat--v1", "generation": 2 }, "status": status,
        "spec": { "dynamoComponent": "chat:v1", "imagePullSecrets": [{ "name": "pull" }] },
    }))
    .unwrap()
}

fn said(generation: i64, available: (&str, &str, &str), exists: (&str, &str)) -> DynamoComponent {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| json!({ "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2025-07-01T00:00:00Z" });
    built(json!({ "observedGeneration": generation, "conditions": [
        condition("DynamoComponentAvailable", available.0, available.1, available.2),
        condition("ImageExists", exists.0, "Reconciling", exists.1) ] }))
}

#[test]
fn the_message_is_the_image_once_it_is_there() {
    let available = ("True", "Reconciling", "");
    let ready = Running {
        image: "r/i:1".to_owned(),
        pull_secrets: vec![LocalObjectReference { name: "pull".to_owned() }],
        awaited: None,
    };
    assert_eq!(image("chat--v1", "chat:v1", Some(&said(2, available, ("True", "r/i:1")))), ready);
    let waits = |live: Option<&DynamoComponent>, why: &str| {
        let Running { image, pull_secrets, awaited } = image("chat--v1", "chat:v1", live);
        assert_eq!((image.as_str(), pull_secrets), ("chat:v1", Vec::new()), "its source replaces it");
        let Awaited { stuck, message } = awaited.unwrap();
        assert!(stuck.is_none() && message.contains("chat--v1") && message.contains(why), "{message}");
    };
    waits(None, "does not exist");
    waits(Some(&built(Value::Null)), "latest spec");
    waits(Some(&said(1, available, ("True", "r/i:1"))), "latest spec");
    waits(Some(&built(json!({ "observedGeneration": 2 }))), "nothing is known");
    waits(Some(&said(2, ("Unknown", "Reconciling", "building r/i:1"), ("False", "r/i:1"))), "building r/i:1");
    waits(Some(&said(2, ("Unknown", "Queued", "4 builds run"), ("False", "r/i:1"))), "4 builds run");
    let mut going = said(2, available, ("True", "r/i:1"));
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2025-07-01T00:00:00Z")).unwrap());
    waits(Some(&going), "does not exist");
}

#[test]
fn a_failed_build_is_reported_with_its_log() {
    for reason in ["BuildFailed", "Timeout", "InvalidSpec", "Blocked"] {
        let failed = said(2, ("False", reason, "Job j: the end of the log: E404"), ("False", "r/i:1"));
        let Awaited { stuck, message } = image("chat--v1", "chat:v1", Some(&failed)).awaited.unwrap();
        assert!(stuck == Some(reason) && message.ends_with("E404"), "{message}");
    }
}

#[test]
fn a_source_has_a_name_and_a_version() {
    assert_eq!(check_source("chat:v1"), Ok(()));
    for wrong in ["", "chat", "chat:", ":v1"] {
        let violation = check_source(wrong).unwrap_err();
        assert_eq!((violation.path.as_str(), violation.value.as_str()), ("spec.dynamoComponent", Some(wrong)));
    }
}
