//! Strict parser. Recursion is bounded by [`DEPTH`], so hostile nesting cannot exhaust the stack.

use std::{cell::Cell, collections::HashSet};

use super::{DEPTH, node::Node};

/// Malformed JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at byte {at}")]
pub struct Malformed {
    /// Offset in bytes.
    pub at: usize,
    /// Problem at the offset.
    pub problem: Problem,
}

/// Kind of problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text ends too early.
    #[error("the text ends too early")]
    End,
    /// Something else was expected.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Invalid UTF-8.
    #[error("bytes that are not UTF-8")]
    Utf8,
    /// Deeper than [`DEPTH`].
    #[error("nesting deeper than {DEPTH}")]
    Deep,
    /// Repeated key of an object; its beginning.
    #[error("the key `{0}` appears twice")]
    Repeated(String),
    /// Half of a surrogate pair.
    #[error("half of a surrogate pair")]
    Surrogate,
    /// Number too large for any tool to read.
    #[error("a number out of range")]
    Range,
    /// Text after the value.
    #[error("something follows the value")]
    Trailing,
}

/// Length limit of a number; Python refuses integers of more than 4300 digits.
const MAX_NUMBER_CHARS: usize = 4_300;

thread_local! {
    static PARSES: Cell<u64> = const { Cell::new(0) };
}

/// Values that were read on this thread so far: tests show with it how often the same value is.
pub fn parses() -> u64 {
    PARSES.get()
}

pub(super) fn count() {
    PARSES.set(PARSES.get() + 1);
}

pub(super) fn parse(text: &[u8]) -> Result<Node<'_>, Malformed> {
    count();
    let text = std::str::from_utf8(text)
        .map_err(|error| Malformed { at: error.valid_up_to(), problem: Problem::Utf8 })?;
    let mut parser = Parser { text, at: 0 };
    parser.space();
    let node = parser.value(0)?;
    parser.space();
    if parser.at < text.len() { Err(parser.refuse(Problem::Trailing)) } else { Ok(node) }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn refuse(&self, problem: Problem) -> Malformed {
        Malformed { at: self.at, problem }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Malformed> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(self.refuse(Problem::Expected(what))),
            None => Err(self.refuse(Problem::End)),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, Malformed> {
        if depth >= DEPTH {
            return Err(self.refuse(Problem::Deep));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Node::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Node::Bool(true)),
            Some(b'f') => self.word("false", Node::Bool(false)),
            Some(b'n') => self.word("null", Node::Null),
            Some(_) => Err(self.refuse(Problem::Expected("a value"))),
            None => Err(self.refuse(Problem::End)),
        }
    }

    fn word(&mut self, word: &'static str, node: Node<'a>) -> Result<Node<'a>, Malformed> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(node)
        } else {
            Err(self.refuse(Problem::Expected("a value")))
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node<'a>, Malformed> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.eat(b']') {
            return Ok(Node::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            if !self.eat(b',') {
                self.expect(b']', "`,` or `]`")?;
                return Ok(Node::Array(items));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node<'a>, Malformed> {
        let mut fields = Vec::new();
        self.at += 1;
        self.space();
        if self.eat(b'}') {
            return Ok(Node::Object(fields));
        }
        loop {
            fields.push(self.field(depth)?);
            if !self.eat(b',') {
                self.expect(b'}', "`,` or `}`")?;
                self.no_key_twice(&fields)?;
                return Ok(Node::Object(fields));
            }
        }
    }

    fn field(&mut self, depth: usize) -> Result<(String, Node<'a>), Malformed> {
        self.space();
        if self.peek() != Some(b'"') {
            let problem =
                if self.peek().is_none() { Problem::End } else { Problem::Expected("a key") };
            return Err(self.refuse(problem));
        }
        let key = self.string()?;
        self.space();
        self.expect(b':', "`:`")?;
        self.space();
        let value = self.value(depth + 1)?;
        self.space();
        Ok((key, value))
    }

    fn no_key_twice(&self, fields: &[(String, Node<'a>)]) -> Result<(), Malformed> {
        match repeated(fields) {
            Some(key) => Err(self.refuse(Problem::Repeated(key.chars().take(40).collect()))),
            None => Ok(()),
        }
    }

    fn number(&mut self) -> Result<Node<'a>, Malformed> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        let literal = &self.text[start..self.at];
        let finite = literal.parse::<f64>().is_ok_and(f64::is_finite);
        if finite && literal.len() <= MAX_NUMBER_CHARS {
            Ok(Node::Number(literal))
        } else {
            Err(Malformed { at: start, problem: Problem::Range })
        }
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.refuse(Problem::Expected("a digit"))) }
    }

    fn string(&mut self) -> Result<String, Malformed> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while matches!(self.peek(), Some(byte) if byte >= b' ' && byte != b'"' && byte != b'\\')
            {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(self.refuse(Problem::Expected("an escaped character"))),
                None => return Err(self.refuse(Problem::End)),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Malformed> {
        self.at += 1;
        let escaped = self.peek().ok_or_else(|| self.refuse(Problem::End))?;
        self.at += 1;
        Ok(match escaped {
            b'"' | b'\\' | b'/' => char::from(escaped),
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => return self.code_point(),
            _ => return Err(self.refuse(Problem::Expected("an escape"))),
        })
    }

    fn code_point(&mut self) -> Result<char, Malformed> {
        let first = self.unit()?;
        let code = match first {
            0xd800..=0xdbff => {
                if !(self.eat(b'\\') && self.eat(b'u')) {
                    return Err(self.refuse(Problem::Surrogate));
                }
                let second = self.unit()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(self.refuse(Problem::Surrogate));
                }
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            other => other,
        };
        char::from_u32(code).ok_or_else(|| self.refuse(Problem::Surrogate))
    }

    fn unit(&mut self) -> Result<u32, Malformed> {
        let digits = self.text.get(self.at..self.at + 4);
        let digits = digits.ok_or_else(|| self.refuse(Problem::Expected("four digits")))?;
        let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let unit = u32::from_str_radix(digits, 16).ok().filter(|_| hex);
        let unit = unit.ok_or_else(|| self.refuse(Problem::Expected("four digits")))?;
        self.at += 4;
        Ok(unit)
    }
}

/// First repeated key. A few keys are compared faster than hashed.
fn repeated<'f>(fields: &'f [(String, Node<'_>)]) -> Option<&'f str> {
    const FEW: usize = 8;
    let keys = || fields.iter().map(|(key, _)| key.as_str());
    if fields.len() <= FEW {
        return keys().enumerate().find(|(n, key)| keys().take(*n).any(|k| k == *key)).map(|f| f.1);
    }
    let mut seen = HashSet::with_capacity(fields.len());
    keys().find(|key| !seen.insert(*key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_refusal_says_what_and_where() {
        let deep = "[".repeat(65) + &"]".repeat(65);
        let long = "9".repeat(4301);
        let cases: &[(&[u8], &str)] = &[
            (b"", "the text ends too early at byte 0"),
            (b"{", "the text ends too early at byte 1"),
            (b"{\"a\":1,}", "expected a key at byte 7"),
            (b"[1 2]", "expected `,` or `]` at byte 3"),
            (b"01", "something follows the value at byte 1"),
            (b"-", "expected a digit at byte 1"),
            (b"1.", "expected a digit at byte 2"),
            (b"NaN", "expected a value at byte 0"),
            (b"1e999", "a number out of range at byte 0"),
            (long.as_bytes(), "a number out of range at byte 0"),
            (b"\"\\ud800\"", "half of a surrogate pair at byte 7"),
            (b"\"\\udc00\"", "half of a surrogate pair at byte 7"),
            (b"\"\\u+123\"", "expected four digits at byte 3"),
            (b"\"\x01\"", "expected an escaped character at byte 1"),
            (b"\"\xff\"", "bytes that are not UTF-8 at byte 1"),
            (b"{\"a\":1,\"\\u0061\":2}", "the key `a` appears twice at byte 18"),
            (b"null null", "something follows the value at byte 5"),
            (deep.as_bytes(), "nesting deeper than 64 at byte 64"),
        ];
        for (text, expected) in cases {
            let shown = String::from_utf8_lossy(text).chars().take(30).collect::<String>();
            let refused = parse(text).expect_err(&shown).to_string();
            assert_eq!(&refused, expected, "{shown}");
        }
    }

    proptest! {
        #[test]
        fn what_serde_accepts_is_accepted_and_read_alike(text in "[ \\[\\]{}:,\"a\\\\u0dD8e1.+-]{0,24}") {
            let theirs: Option<serde_json::Value> = serde_json::from_str(&text).ok();
            match parse(text.as_bytes()) {
                Ok(node) => {
                    let mut compact = String::new();
                    node.write_compact(&mut compact);
                    prop_assert_eq!(theirs, serde_json::from_str(&compact).ok());
                }
                Err(Malformed { problem: Problem::Repeated(_), .. }) => {}
                Err(error) => prop_assert_eq!(theirs, None, "{}", error),
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }
}
