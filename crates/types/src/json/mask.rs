//! Masking of parts of a value; all other digits stay as written.

use super::{Json, node::Node};

impl Json {
    /// Value with `word` in the place of everything that `paths` lead to. A path is a list of names,
    /// and of positions where there is a list; a path that leads nowhere changes nothing.
    #[must_use]
    pub fn masked(&self, paths: &[&[String]], word: &str) -> Self {
        let text = self.as_str();
        let mut node = self.parsed();
        for path in paths {
            mask(&mut node, path, word);
        }
        let mut out = String::with_capacity(text.len());
        node.write_compact(&mut out);
        Self::checked(out)
    }
}

fn mask(node: &mut Node<'_>, path: &[String], word: &str) {
    let Some((name, rest)) = path.split_first() else {
        *node = Node::String(word.to_owned());
        return;
    };
    match node {
        Node::Object(fields) => {
            if let Some((_, inner)) = fields.iter_mut().find(|(key, _)| key == name) {
                mask(inner, rest, word);
            }
        }
        Node::Array(items) => {
            let place = position(name).and_then(|index| items.get_mut(index));
            if let Some(inner) = place {
                mask(inner, rest, word);
            }
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) => {}
    }
}

/// Position as in RFC 6901: digits without a leading zero.
fn position(name: &str) -> Option<usize> {
    let is_plain = name == "0" || !name.starts_with(['0', '+']);
    name.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &[&str], expected: &str) {
        let json = Json::parse(br#"{"a":[1.10,{"b":123456789012345678901}],"01":true}"#).unwrap();
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(json.masked(&[&path], "X").as_str(), expected, "{path:?}");
    }

    #[test]
    fn what_a_path_leads_to_is_replaced_and_nothing_else() {
        check(&["a", "0"], r#"{"a":["X",{"b":123456789012345678901}],"01":true}"#);
        check(&["a", "1", "b"], r#"{"a":[1.10,{"b":"X"}],"01":true}"#);
        check(&["a"], r#"{"a":"X","01":true}"#);
        check(&["01"], r#"{"a":[1.10,{"b":123456789012345678901}],"01":"X"}"#);
        check(&[], r#""X""#);
    }

    #[test]
    fn a_path_that_leads_nowhere_changes_nothing() {
        let whole = r#"{"a":[1.10,{"b":123456789012345678901}],"01":true}"#;
        for path in
            [&["c"][..], &["a", "2"], &["a", "00"], &["a", "+1"], &["a", "0", "x"], &["a", "-"]]
        {
            check(path, whole);
        }
    }
}
