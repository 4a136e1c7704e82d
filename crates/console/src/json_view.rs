//! JSON as people read it: a tree that folds, exact to the digit, with the risky parts marked.

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use ringfence_types::Json;

use crate::{
    html::{Html, push_text, text},
    risk,
};

/// Members of an object or array that are shown unfolded.
const MAX_UNFOLDED: usize = 24;

/// Characters of a text that are shown before it is folded.
const MAX_TEXT: usize = 600;

/// Nodes of one tree; the rest is told as a number.
const MAX_NODES: usize = 2_000;

/// One value. Numbers stay as they were written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// Members in their order.
    Object(Vec<(String, Node)>),
    /// Items in their order.
    Array(Vec<Node>),
    /// A text.
    Text(String),
    /// A number, `true`, `false` or `null`, as written.
    Literal(String),
}

impl Node {
    /// The tree of a value.
    pub(crate) fn of(json: &Json) -> Self {
        json.read().unwrap_or_else(|_| Self::Literal(json.as_str().to_owned()))
    }

    /// The value as text with one member per line.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out
    }

    /// The value in one line, without the quotes of texts.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Literal(text) => text.clone(),
            Self::Array(items) => {
                items.iter().take(MAX_UNFOLDED).map(Self::line).collect::<Vec<_>>().join(", ")
            }
            Self::Object(members) => {
                let part = |(name, value): &(String, Self)| format!("{name}: {}", value.line());
                let parts: Vec<_> = members.iter().take(MAX_UNFOLDED).map(part).collect();
                format!("({})", parts.join(", "))
            }
        }
    }

    fn write(&self, out: &mut String, depth: usize) {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let line = |out: &mut String, depth: usize| {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        };
        match self {
            Self::Object(members) if !members.is_empty() => {
                for (index, (name, value)) in members.iter().enumerate() {
                    out.push_str(if index == 0 { "{" } else { "," });
                    line(out, depth + 1);
                    out.push_str(&quoted(name));
                    out.push_str(": ");
                    value.write(out, depth + 1);
                }
                line(out, depth);
                out.push('}');
            }
            Self::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "[" } else { "," });
                    line(out, depth + 1);
                    item.write(out, depth + 1);
                }
                line(out, depth);
                out.push(']');
            }
            Self::Object(_) => out.push_str("{}"),
            Self::Array(_) => out.push_str("[]"),
            Self::Text(value) => out.push_str(&quoted(value)),
            Self::Literal(value) => out.push_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let read = match raw.as_bytes().first() {
            Some(b'{') => {
                serde_json::from_str::<Members>(raw).map(|members| Self::Object(members.0))
            }
            Some(b'[') => serde_json::from_str(raw).map(Self::Array),
            Some(b'"') => serde_json::from_str(raw).map(Self::Text),
            _ => Ok(Self::Literal(raw.to_owned())),
        };
        read.map_err(de::Error::custom)
    }
}

/// Members of an object in their order.
struct Members(Vec<(String, Node)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A value as a tree.
pub(crate) fn tree(json: &Json) -> Html {
    render(json, false)
}

/// A value as a tree with its risky parts marked.
pub(crate) fn marked_tree(json: &Json) -> Html {
    render(json, true)
}

fn render(json: &Json, is_marked: bool) -> Html {
    let mut writer = Writer { out: String::new(), is_marked, nodes: 0 };
    writer.out.push_str("<div class=\"json\">");
    writer.value(&Node::of(json), 0);
    writer.out.push_str("</div>");
    Html(writer.out)
}

struct Writer {
    out: String,
    is_marked: bool,
    nodes: usize,
}

impl Writer {
    fn value(&mut self, node: &Node, depth: usize) {
        self.nodes += 1;
        match node {
            Node::Object(members) if !members.is_empty() => {
                self.open(members.len(), depth, "{", "}");
                for (name, value) in self.within(members) {
                    self.out.push_str("<div class=\"member\"><span class=\"name\">");
                    push_text(&mut self.out, name);
                    self.out.push_str("</span> ");
                    self.value(value, depth + 1);
                    self.out.push_str("</div>");
                }
                self.close(members.len(), depth);
            }
            Node::Array(items) if !items.is_empty() => {
                self.open(items.len(), depth, "[", "]");
                for item in self.within(items) {
                    self.out.push_str("<div class=\"member\">");
                    self.value(item, depth + 1);
                    self.out.push_str("</div>");
                }
                self.close(items.len(), depth);
            }
            Node::Object(_) => self.out.push_str("<span class=\"literal\">{}</span>"),
            Node::Array(_) => self.out.push_str("<span class=\"literal\">[]</span>"),
            Node::Text(value) => self.text(value),
            Node::Literal(value) => {
                self.out.push_str("<span class=\"literal\">");
                push_text(&mut self.out, value);
                self.out.push_str("</span>");
            }
        }
    }

    /// The part of a list that there is room for.
    fn within<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        &all[..all.len().min(MAX_NODES.saturating_sub(self.nodes))]
    }

    fn open(&mut self, length: usize, depth: usize, open: &str, close: &str) {
        let unfolded = if depth < 4 && length <= MAX_UNFOLDED { " open" } else { "" };
        let what = if open == "{" { "members" } else { "items" };
        if depth == 0 {
            return;
        }
        self.out.push_str(&format!(
            "<details{unfolded}><summary>{open}<span class=\"count\">{length} {what}</span>{close}\
             </summary>"
        ));
    }

    fn close(&mut self, length: usize, depth: usize) {
        let left = length.saturating_sub(MAX_NODES.saturating_sub(self.nodes));
        if left > 0 && self.nodes >= MAX_NODES {
            self.out.push_str("<div class=\"member muted\">… more, not shown here</div>");
        }
        if depth > 0 {
            self.out.push_str("</details>");
        }
    }

    fn text(&mut self, value: &str) {
        let is_long = value.chars().count() > MAX_TEXT || value.lines().count() > 12;
        let block = if value.contains('\n') { " block" } else { "" };
        if is_long {
            let size = value.len();
            self.out.push_str(&format!("<details><summary>text of {size} bytes</summary>"));
        }
        self.out.push_str(&format!("<span class=\"text{block}\">"));
        match self.is_marked {
            true => self.out.push_str(&risk::marked(value).0),
            false => self.out.push_str(&text(value).0),
        }
        self.out.push_str("</span>");
        if is_long {
            self.out.push_str("</details>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_keep_their_digits_and_members_their_order() {
        let value = json(r#"{"z":123456789012345678901234567890,"a":[1.10,true,null],"e":{}}"#);
        let pretty = Node::of(&value).pretty();
        assert_eq!(
            pretty,
            "{\n  \"z\": 123456789012345678901234567890,\n  \"a\": [\n    1.10,\n    true,\n    \
             null\n  ],\n  \"e\": {}\n}"
        );
        assert_eq!(json(&pretty), value);
        assert!(tree(&value).0.contains("123456789012345678901234567890"));
    }

    #[test]
    fn names_and_texts_are_inert() {
        let tree = marked_tree(&json(r#"{"<img src=x>":"<script>alert(1)</script>"}"#)).0;
        assert!(!tree.contains("<img") && !tree.contains("<script"), "{tree}");
        assert!(tree.contains("&lt;script&gt;"), "{tree}");
    }

    #[test]
    fn a_tree_is_bounded() {
        let items = vec!["1"; 100_000].join(",");
        let tree = tree(&json(&format!("[{items}]"))).0;
        assert!(tree.len() < 200_000, "{}", tree.len());
        assert!(tree.contains("more, not shown here"));
    }
}
