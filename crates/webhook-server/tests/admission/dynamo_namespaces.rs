//! Graphs of different namespaces with one Dynamo namespace.

use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Facts, Lookup, lookups};

use crate::support::*;

/// Graph `a-b` of namespace `team`; graph `b` of `team-a` has the same Dynamo namespace.
fn a_b() -> Value {
    edited(&graph(), |graph| graph["metadata"]["name"] = json!("a-b"))
}

fn shared() -> Facts {
    Facts { shared_servers: true, ..facts() }
}

fn with_graph(namespace: &str, name: &str) -> Facts {
    let mut facts = shared();
    facts.found.insert(Lookup::Graph { namespace: namespace.to_owned(), name: name.to_owned() }, Ok(Some(graph())));
    facts
}

fn with_global_graph(namespace: &str, name: &str) -> Facts {
    let mut facts = with_graph(namespace, name);
    facts.found.values_mut().for_each(|found| *found = Ok(Some(in_global(&graph()))));
    facts
}

fn in_global(object: &Value) -> Value {
    edited(object, |graph| {
        for component in graph["spec"]["components"].as_array_mut().unwrap() {
            component["globalDynamoNamespace"] = json!(true);
        }
    })
}

#[test]
fn a_graph_does_not_come_into_the_dynamo_namespace_of_another() {
    let name = vec!["Invalid metadata.name".to_owned()];
    for (what, object, facts, expected) in [
        ("split elsewhere", a_b(), with_graph("team-a", "b"), name.clone()),
        ("itself", a_b(), with_graph("team", "a-b"), vec![]),
        ("another name", a_b(), with_graph("team-a", "c"), vec![]),
        ("another namespace", a_b(), with_graph("team", "b"), vec![]),
        ("the global one", in_global(&a_b()), with_graph("team-a", "b"), vec![]),
        ("the other is in the global one", a_b(), with_global_graph("team-a", "b"), vec![]),
        ("no servers", a_b(), Facts { shared_servers: false, ..with_graph("team-a", "b") }, vec![]),
    ] {
        assert_eq!(violations(&create(&object, &facts)), expected, "{what}");
    }
    let text = words(&create(&a_b(), &with_graph("team-a", "b")));
    assert!(text.contains(r#""team-a-b""#) && text.contains("choose another name"), "{text}");
}

#[test]
fn a_new_graph_waits_for_an_answer_on_the_others_and_one_that_exists_does_not() {
    let mut unreadable = shared();
    let other = Lookup::Graph { namespace: "team-a".to_owned(), name: "b".to_owned() };
    unreadable.found.insert(other, Err("no answer within 2 s".to_owned()));
    let refused = create(&a_b(), &unreadable);
    assert_eq!(violations(&refused), ["Invalid metadata.name"]);
    assert!(words(&refused).contains("could not be read: no answer within 2 s; try again"), "{}", words(&refused));
    assert_eq!(violations(&update(&in_global(&a_b()), &a_b(), &unreadable)), Vec::<String>::new());
}

#[test]
fn graphs_that_share_a_dynamo_namespace_go_on_with_a_warning() {
    let facts = with_graph("team-a", "b");
    let scaled = edited(&a_b(), |graph| graph["spec"]["components"][0]["replicas"] = json!(2));
    let answer = update(&a_b(), &scaled, &facts);
    assert_eq!(violations(&answer), Vec::<String>::new());
    assert!(warnings(&answer).iter().any(|warning| warning.contains(r#""team-a-b""#)), "{}", words(&answer));
    let answer = update(&in_global(&a_b()), &a_b(), &facts);
    assert_eq!(violations(&answer), ["Invalid metadata.name"], "it leaves the global one");
}

#[test]
fn only_graphs_that_would_have_the_same_dynamo_namespace_are_read() {
    let looked_up = |request, facts: &Facts| lookups(AdmissionPath::ValidateGraph, &request, facts);
    let other = Lookup::Graph { namespace: "team-a".to_owned(), name: "b".to_owned() };
    assert_eq!(looked_up(creation(a_b()), &shared()), [other]);
    assert_eq!(looked_up(creation(a_b()), &facts()), []);
    assert_eq!(looked_up(creation(in_global(&a_b())), &shared()), []);
    let labelled = edited(&a_b(), |graph| graph["metadata"]["labels"] = json!({ "a": "b" }));
    assert_eq!(looked_up(change(a_b(), labelled), &shared()), [], "nothing that concerns it has changed");
    let long = edited(&a_b(), |graph| graph["metadata"]["name"] = json!("a-".repeat(60) + "b"));
    assert_eq!(looked_up(creation(long), &shared()), [], "it is refused");
}
