//! A diagnosis as text.

use status_view::{Style, one_line};

use crate::diagnosis::{Cause, Diagnosis, Weight};

/// The diagnosis for people to read.
pub fn explain(diagnosis: &Diagnosis, style: Style) -> String {
    let object = format!("{} {}/{}", diagnosis.object.kind, diagnosis.namespace, diagnosis.object.name);
    let mut text = match diagnosis.ready {
        true => format!("{object} is {}.\n", style.good("ready")),
        false => format!("{object} is {}: {}\n", style.bad("not ready"), one_line(&diagnosis.summary)),
    };
    for cause in &diagnosis.causes {
        text.push('\n');
        text.push_str(&of_cause(cause, style));
    }
    if !diagnosis.not_read.is_empty() {
        text.push_str("\nNot read:\n");
        for line in &diagnosis.not_read {
            text.push_str(&format!("  {}\n", one_line(line)));
        }
    }
    text
}

fn of_cause(cause: &Cause, style: Style) -> String {
    let heading = match cause.weight {
        Weight::Blocks => style.bad(&cause.code),
        Weight::Waits => style.pending(&format!("{} (on its way)", cause.code)),
        Weight::Notice => format!("{} (notice)", cause.code),
    };
    let mut text = format!("{heading}\n");
    let chain: Vec<String> = cause.chain.iter().map(|object| one_line(&object.to_string())).collect();
    let others = match cause.others {
        0 => String::new(),
        1 => " (and another pod)".to_owned(),
        more => format!(" (and {more} other pods)"),
    };
    text.push_str(&format!("  {}{others}\n", chain.join(" -> ")));
    let mut line = |name: &str, content: &str| text.push_str(&format!("  {name:<9} {}\n", one_line(content)));
    line("cause:", &cause.cause);
    for evidence in &cause.evidence {
        line("evidence:", evidence);
    }
    line("remedy:", &cause.remedy);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::ObjectName;

    fn diagnosis(ready: bool, causes: Vec<Cause>) -> Diagnosis {
        Diagnosis {
            object: ObjectName::new("DynamoGraphDeployment", "chat"),
            namespace: "team".to_owned(),
            ready,
            summary: "some_resources_are_not_ready: Resources not ready: chat-decode".to_owned(),
            causes,
            not_read: Vec::new(),
        }
    }

    #[test]
    fn a_cause_is_shown_with_its_chain_evidence_and_remedy() {
        let cause = Cause {
            code: "ImageNotFound".to_owned(),
            weight: Weight::Blocks,
            chain: vec![ObjectName::new("DynamoGraphDeployment", "chat"), ObjectName::new("Pod", "chat-decode-0")],
            others: 2,
            cause: "image r/engine:9 cannot be pulled:\nnot found".to_owned(),
            evidence: vec!["event Failed".to_owned()],
            remedy: "correct name and tag".to_owned(),
        };
        let expected = "\
DynamoGraphDeployment team/chat is not ready: some_resources_are_not_ready: Resources not ready: chat-decode

ImageNotFound
  DynamoGraphDeployment/chat -> Pod/chat-decode-0 (and 2 other pods)
  cause:    image r/engine:9 cannot be pulled: not found
  evidence: event Failed
  remedy:   correct name and tag
";
        assert_eq!(explain(&diagnosis(false, vec![cause]), Style::default()), expected);
    }

    #[test]
    fn a_ready_graph_is_one_line() {
        let text = explain(&diagnosis(true, Vec::new()), Style::default());
        assert_eq!(text, "DynamoGraphDeployment team/chat is ready.\n");
    }
}
