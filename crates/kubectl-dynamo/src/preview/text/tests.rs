//! Tests of `text`.

use serde_json::json;

use super::*;
use crate::preview::{pods::PodStep, prediction::Moment};

#[test]
fn kept_new_and_removed_revisions_are_listed_apart() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    for (before, after, text) in [
        (&["a"][..], &["a"][..], "a stays"),
        (&["a", "b"], &["a", "b"], "a, b stay"),
        (&[], &["a"], "a is the first"),
        (&["a"], &[], "a is deleted"),
        (&["a"], &["b"], "a is replaced by b, a new one"),
        (&["a", "b"], &["c"], "a, b are replaced by c, a new one"),
        (&["a"], &["b", "c"], "a is replaced by b, c, new ones"),
        (&["a", "b"], &["a"], "a stays; b is deleted"),
        (&["a"], &["a", "b"], "a stays; b is new"),
        (&["a", "b", "c"], &["a", "d"], "a stays; d is new; b, c are deleted"),
    ] {
        assert_eq!(RevisionNames { before: set(before), after: set(after) }.text(), text);
    }
}

#[test]
fn what_happens_is_shown_in_order() {
    let moment = |share, gpus| Moment { share, gpus, ..Moment::default() };
    let pod = |verb, name: &str| PodStep { step: 1, verb, name: name.to_owned(), component: "Decode".to_owned() };
    let field = FieldChange { path: "spec.x".to_owned(), before: Some(json!(1)), after: None };
    let change =
        |verb, fields| ObjectChange { verb, kind: "Service".to_owned(), name: "s".to_owned(), fields, after: None };
    let prediction = Prediction {
        graph: "chat".to_owned(),
        namespace: "team".to_owned(),
        operator_version: "1".to_owned(),
        edit: vec![field.clone()],
        changes: vec![change("create", vec![]), change("change", vec![field])],
        revision: RevisionNames { before: ["a".to_owned()].into(), after: ["b".to_owned()].into() },
        pods: vec![pod("create", "d-new-1"), pod("delete", "d-1")],
        steps: vec![moment(100, 4), moment(50, 6), moment(100, 4)],
        ..Prediction::default()
    };
    let expected = "\
Graph team/chat, by the operator's version 1
Edit
      spec.x: 1 -> none
Objects
  create Service s
  change Service s
      spec.x: 1 -> none
Worker revision: a is replaced by b, a new one
Pods: Decode +1 -1
  step 1: create d-new-1
  step 1: delete d-1
Capacity: below today's in 1 of 3 steps, 50 % at least
  0: 100 %, 4 GPUs, \n  1: 50 %, 6 GPUs, \n  2: 100 %, 4 GPUs, \nGPUs: 4 today, 6 at the peak, 4 after
";
    assert_eq!(prediction.text(Style::default()), expected);
    let sum = overview(&[prediction, Prediction::default()], Style::default());
    assert!(sum.contains("team        chat    2         1              1"), "{sum}");
    assert!(sum.ends_with("1 of 2 graphs replace pods; 1 pods are deleted.\n"), "{sum}");
    let refused = Prediction { refused: Some("no".to_owned()), ..Prediction::default() };
    assert!(refused.text(Style::default()).ends_with("Refused: no\n"));
    assert!(Prediction::default().text(Style::default()).ends_with("No change.\n"));
}
