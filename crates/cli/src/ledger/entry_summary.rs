//! Summary of a ledger entry in a few words.

use serde_json::Value;

/// Summary by kind and predicate of an entry.
pub(super) fn summary(kind: &str, predicate: &Value) -> String {
    let said = &predicate["said"];
    let words = match kind {
        "call" => vec![text(&predicate["state"]), text(&predicate["error"])],
        "decision" => vec![text(&said["verdict"])],
        "approval" if said["event"].is_string() => {
            vec![text(&said["event"]), "by".to_owned(), who(said)]
        }
        "approval" => vec!["given by".to_owned(), voters(said)],
        "resolution" => vec![text(&said["action"]), "by".to_owned(), who(said)],
        "key" => vec![text(&said["event"]), who(said)],
        "erasure" => vec![text(&said["event"]), text(&said["before"]), text(&said["reason"])],
        "secret" => vec![text(&said["event"]), text(&said["name"])],
        "checkpoint-key" => vec![text(&said["public"])],
        _ => vec![text(&said["event"])],
    };
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Person, label of the key, or key id.
fn who(said: &Value) -> String {
    let named = ["person", "label", "by"].into_iter().map(|field| text(&said[field]));
    named.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

fn voters(said: &Value) -> String {
    let votes = said["votes"].as_array().into_iter().flatten();
    votes.map(who).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::summary;

    #[test]
    fn a_person_is_told_by_name_else_by_the_label_else_by_the_key() {
        for (kind, said, expected) in [
            ("resolution", json!({"action": "deny", "by": "1", "label": "boss"}), "deny by boss"),
            ("resolution", json!({"action": "edit", "by": "1"}), "edit by 1"),
            (
                "approval",
                json!({"votes": [{"by": "1", "label": "boss", "person": "ann"}, {"by": "2"}]}),
                "given by ann, 2",
            ),
            ("approval", json!({"event": "revoked", "by": "1"}), "revoked by 1"),
            ("key", json!({"event": "created", "label": "agent"}), "created agent"),
            ("tool", json!({"event": "added"}), "added"),
            ("decision", json!({"verdict": "hold"}), "hold"),
        ] {
            assert_eq!(summary(kind, &json!({"said": said})), expected, "{kind}");
        }
        let receipt = json!({"state": "finished", "error": "timeout"});
        assert_eq!(summary("call", &receipt), "finished timeout");
    }
}
