//! Parsed value that keeps the notation of its numbers.

/// Parsed value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    /// Literal, checked against the grammar and finite.
    Number(&'a str),
    String(String),
    Array(Vec<Node<'a>>),
    /// Fields in source order; no key twice.
    Object(Vec<(String, Node<'a>)>),
}

impl Node<'_> {
    /// Writes compact text in source order.
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

/// Writes items between brackets, separated by commas.
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

/// Writes a string with the escapes of RFC 8785.
pub(super) fn write_string(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        // Bytes of longer characters are above all of these.
        if byte < b' ' || byte == b'"' || byte == b'\\' {
            out.push_str(&text[written..at]);
            escape(byte, out);
            written = at + 1;
        }
    }
    out.push_str(&text[written..]);
    out.push('"');
}

fn escape(byte: u8, out: &mut String) {
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        0x8 => out.push_str("\\b"),
        0xc => out.push_str("\\f"),
        other => out.push_str(&format!("\\u{other:04x}")),
    }
}
