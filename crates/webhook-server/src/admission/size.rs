//! The size of a spec. Every process keeps the objects of its kinds in memory, and the API server sends whole lists of
//! them to be converted; so the size of one object is limited far below that of etcd.

use std::io;

use api_types::{limits::SPEC_BYTES, violations::Violation};
use serde_json::Value;

use super::field::{FieldPath, Node};

/// The violation of an object whose spec is too large, unless it was no smaller before.
pub(super) fn check(new: &Value, old: Option<&Value>) -> Option<Violation<FieldPath>> {
    let node = Node::root(new).field("spec");
    let bytes = bytes_of(node.value());
    let before = old.map_or(0, |old| bytes_of(Node::root(old).field("spec").value()));
    (bytes > SPEC_BYTES && bytes > before).then(|| {
        let message = format!("is more than {SPEC_BYTES} bytes of JSON");
        let remedy = "move data into ConfigMaps, volumes or images";
        Violation::invalid(node.path().clone(), format!("{bytes} bytes"), message, remedy)
    })
}

/// Bytes of a value as JSON.
fn bytes_of(value: &Value) -> usize {
    let mut count = ByteCount(0);
    // Counting never fails, and JSON values can always be written.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(bytes: usize) -> Value {
        json!({ "spec": { "a": "x".repeat(bytes - r#"{"a":""}"#.len()) } })
    }

    #[test]
    fn a_spec_above_the_limit_is_refused_unless_it_does_not_grow() {
        let refused = |new: usize, old: Option<usize>| check(&of(new), old.map(of).as_ref()).is_some();
        let table = [
            (SPEC_BYTES, None, false),
            (SPEC_BYTES + 1, None, true),
            (SPEC_BYTES + 1, Some(SPEC_BYTES), true),
            (SPEC_BYTES + 9, Some(SPEC_BYTES + 8), true),
            (SPEC_BYTES + 8, Some(SPEC_BYTES + 8), false),
            (SPEC_BYTES + 7, Some(SPEC_BYTES + 8), false),
        ];
        for (new, old, expected) in table {
            assert_eq!(refused(new, old), expected, "{new} {old:?}");
        }
        assert!(check(&json!({}), None).is_none());
        let text = check(&of(300_000), None).unwrap().in_status();
        assert!(text.starts_with("spec: ") && text.len() < 200, "the value is not repeated: {text}");
    }
}
