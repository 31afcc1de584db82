//! The rules of comparison, each by the smallest pair of records that shows it.

use serde_json::{Value, json};

use super::compare;

fn deployment(name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {}});
    merge(&mut object, rest);
    object
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn objects(objects: &[Value]) -> Value {
    json!({"applied": [], "objects": objects, "crs": []})
}

fn with_spec(spec: Value) -> Value {
    objects(&[deployment("web", json!({"spec": spec}))])
}

fn with_status(status: Value) -> Value {
    json!({"applied": [], "objects": [], "crs": [
        {"kind": "Graph", "name": "g", "applied": true, "v1beta1": {"status": status}},
    ]})
}

#[test]
fn what_an_implementation_is_free_in_does_not_count() {
    let revision = |hash: &str| {
        let labels = json!({"nvidia.com/dynamo-worker-hash": hash});
        objects(&[deployment(
            &format!("worker-{hash}"),
            json!({"metadata": {"labels": labels}, "spec": {"env": hash}}),
        )])
    };
    let noted = |annotations: Value| objects(&[deployment("web", json!({"metadata": {"annotations": annotations}}))]);
    let owner = |version: &str, uid: &str| {
        let owners = json!([{"apiVersion": version, "kind": "Graph", "name": "g", "uid": uid}]);
        objects(&[deployment("web", json!({"metadata": {"ownerReferences": owners}}))])
    };
    let script = |file: &str, text: &str| {
        objects(&[json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {file: text}})])
    };
    let picker = |annotations: Value| {
        let clique = json!({
            "name": "epp", "labels": {"nvidia.com/dynamo-component-type": "epp"}, "annotations": annotations,
            "spec": {"podSpec": {}},
        });
        let spec = json!({"template": {"cliques": [clique]}});
        objects(&[
            json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "g"}, "spec": spec}),
        ])
    };
    let job = |spec: Value| {
        objects(&[json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})])
    };
    let service = |selector: Value| {
        let spec = json!({"selector": selector});
        objects(&[json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})])
    };
    let disrupted = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "planner-serviceaccount"}});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}});
    let web = deployment("web", json!({}));
    for (expected, got) in [
        (revision("0a1b2c3d"), revision("ffffffff")),
        (noted(json!({"nvidia.com/last-applied-hash": "1"})), noted(json!({"operator.dynamo/x": "y"}))),
        (owner("nvidia.com/v1beta1", "1"), owner("nvidia.com/v1alpha1", "2")),
        (script("wait.py", "a"), script("wait.py", "b")),
        (
            job(json!({"podReplacementPolicy": "TerminatingOrFailed"})),
            job(json!({"podFailurePolicy": disrupted, "podReplacementPolicy": "Failed"})),
        ),
        (service(json!({"a": "b", "nvidia.com/dynamo-component-type": ""})), service(json!({"a": "b"}))),
        (picker(json!({})), picker(json!({"sidecar.istio.io/inject": "false"}))),
        (with_spec(json!({"args": ["ssh -i /ssh-pk/a"]})), with_spec(json!({"args": ["x /ssh-pk/b"]}))),
        (objects(&[web.clone(), account]), objects(std::slice::from_ref(&web))),
        (objects(std::slice::from_ref(&web)), objects(&[web, budget])),
        (
            with_status(json!({"conditions": [{"type": "Ready", "status": "True", "reason": "ok", "message": "a"}]})),
            with_status(json!({"conditions": [
                {"type": "Stalled", "status": "False"},
                {"type": "Ready", "status": "True", "reason": "ok", "message": "b"},
            ]})),
        ),
    ] {
        assert_eq!(compare(&expected, &got), Vec::<String>::new(), "{expected} and {got}");
    }
}

#[test]
fn differences_are_reported_with_their_path() {
    let script = |text: &str| {
        objects(&[json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a.sh": text}})])
    };
    let ready =
        |reason: &str| with_status(json!({"conditions": [{"type": "Ready", "status": "True", "reason": reason}]}));
    let web = || deployment("web", json!({}));
    let named =
        |names: &[&str]| with_spec(json!({"env": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}));
    let selecting = |type_: &str| {
        let spec = json!({"selector": {"nvidia.com/dynamo-component-type": type_}});
        objects(&[json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec})])
    };
    let planner = deployment("p", json!({"spec": {"serviceAccountName": "planner-serviceaccount"}}));
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "planner-serviceaccount"}});
    for (expected, got, line) in [
        (with_spec(json!({"a": 1})), with_spec(json!({})), "apps/Deployment/web.spec.a: missing (expected 1)"),
        (
            with_spec(json!({})),
            with_spec(json!({"a": {"b": [1]}})),
            r#"apps/Deployment/web.spec.a: unexpected {"b": [1]}"#,
        ),
        (with_spec(json!({"a": 1})), with_spec(json!({"a": 1.0})), "apps/Deployment/web.spec.a: expected 1, got 1.0"),
        (
            with_spec(json!({"a": [1]})),
            with_spec(json!({"a": [1, 2]})),
            "apps/Deployment/web.spec.a: expected [1], got [1, 2]",
        ),
        (
            named(&["a", "b"]),
            named(&["b", "a"]),
            r#"apps/Deployment/web.spec.env: order/names expected ["a", "b"], got ["b", "a"]"#,
        ),
        (
            selecting("worker"),
            selecting(""),
            r#"v1/Service/s.spec.selector.nvidia.com/dynamo-component-type: missing (expected "worker")"#,
        ),
        (objects(&[web()]), objects(&[]), "apps/Deployment/web: not generated"),
        (objects(&[web()]), objects(&[web(), deployment("x", json!({}))]), "apps/Deployment/x: unexpected object"),
        (
            objects(&[planner.clone(), account]),
            objects(&[planner]),
            "v1/ServiceAccount/planner-serviceaccount: not generated",
        ),
        (script("a"), script("b"), r#"v1/ConfigMap/c.data.a.sh: expected "a", got "b""#),
        (ready("a"), ready("b"), "status Graph/g.conditions[Ready]: expected True/a, got True/b"),
        (ready("a"), with_status(json!({})), "status Graph/g.conditions[Ready]: expected True/a, got None"),
        (
            with_status(json!({"state": "ok"})),
            with_status(Value::Null),
            r#"status Graph/g.state: expected "ok", got null"#,
        ),
        (with_status(json!({})), objects(&[]), "status Graph/g: missing"),
    ] {
        assert_eq!(compare(&expected, &got), [line]);
    }
}

#[test]
fn answers_of_admission_count_and_so_do_the_fields_a_rejection_names() {
    let outcome = |ok: bool, fields: Value, message: &str| {
        let applied = json!([{"kind": "Graph", "name": "g", "ok": ok, "fields": fields, "message": message}]);
        json!({"applied": applied, "objects": [], "crs": []})
    };
    let accepted = outcome(true, json!([]), "");
    let rejected = outcome(false, json!(["spec.a"]), "");
    let mut broken = outcome(false, json!(["spec.x.Decoder.a"]), "");
    broken["applied"][0]["code"] = json!(500);
    for (expected, got, lines) in [
        (&broken, &outcome(false, json!([]), "spec.x.a: wrong type"), vec![]),
        (
            &broken,
            &outcome(false, json!([]), "spec.x: no"),
            vec![r#"applied Graph/g: rejection does not name ["spec.x.Decoder.a"]"#],
        ),
        (&accepted, &accepted, vec![]),
        (&rejected, &outcome(false, json!([]), "spec.a: must be set"), vec![]),
        (&rejected, &outcome(false, json!([]), "no"), vec![r#"applied Graph/g: rejection does not name ["spec.a"]"#]),
        (&rejected, &accepted, vec![r#"applied Graph/g: expected rejected at ["spec.a"], got accepted"#]),
        (&accepted, &outcome(false, json!([]), "no"), vec!["applied Graph/g: expected accepted, got rejected: no"]),
        (&accepted, &objects(&[]), vec!["applied Graph/g: missing"]),
    ] {
        assert_eq!(compare(expected, got), lines);
    }
}

#[test]
fn long_values_are_cut() {
    let lines = compare(&with_spec(json!({"a": "x".repeat(500)})), &with_spec(json!({})));
    assert!(lines[0].ends_with("xxx...)"), "{lines:?}");
    assert!(lines[0].len() < 220, "{lines:?}");
}

#[test]
fn graphs_may_share_a_role_and_each_is_bound() {
    let object = |kind: &str, name: &str, rest: Value| {
        let mut object =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
        merge(&mut object, rest);
        object
    };
    let binding = |role: &str| {
        object("RoleBinding", "g-k8s-service-discovery-binding", json!({"roleRef": {"name": role}, "subjects": []}))
    };
    let own = object("Role", "g-k8s-service-discovery-role", json!({"rules": []}));
    let expected = objects(&[own.clone(), binding("g-k8s-service-discovery-role")]);
    assert_eq!(compare(&expected, &objects(&[binding("shared")])), [""; 0]);
    let unbound = compare(&expected, &objects(&[own]));
    assert_eq!(unbound, ["rbac.authorization.k8s.io/RoleBinding/g-k8s-service-discovery-binding: not generated"]);
}
