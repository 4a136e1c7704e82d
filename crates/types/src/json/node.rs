//! A parsed value that remembers how its numbers were written.

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    /// The literal, checked against the grammar and finite.
    Number(&'a str),
    String(String),
    Array(Vec<Node<'a>>),
    /// In the order written; no key twice.
    Object(Vec<(String, Node<'a>)>),
}

impl Node<'_> {
    /// As short as it goes, in the order written.
    pub(super) fn write_compact(&self, out: &mut String) {
        match self {
            Node::Null => out.push_str("null"),
            Node::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Node::Number(literal) => out.push_str(literal),
            Node::String(text) => write_string(text, out),
            Node::Array(items) => {
                separated(out, ('[', ']'), items, |item, out| item.write_compact(out));
            }
            Node::Object(fields) => separated(out, ('{', '}'), fields, |(key, value), out| {
                write_string(key, out);
                out.push(':');
                value.write_compact(out);
            }),
        }
    }
}

/// Writes items between brackets with commas and nothing else.
pub(super) fn separated<T>(
    out: &mut String,
    (open, close): (char, char),
    items: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut String),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(close);
}

/// Escapes what must be escaped, as RFC 8785 asks.
pub(super) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
