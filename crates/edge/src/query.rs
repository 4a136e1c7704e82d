//! Reading query parameters, naming every fault at once.

use std::{fmt::Display, str::FromStr};

use crate::{
    problem::{Fault, Problem},
    problem_codes,
};

/// The parameters that have not been read yet, and what was wrong with the others.
#[derive(Debug)]
pub struct Query {
    left: Vec<(String, String)>,
    faults: Vec<Fault>,
}

impl Query {
    /// The parameters of a request.
    pub fn of(uri: &http::Uri) -> Self {
        Self::of_text(uri.query().unwrap_or(""))
    }

    /// The fields of a form that a browser sent (`application/x-www-form-urlencoded`).
    pub fn of_text(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let left = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let left = left.map(|(name, value)| (decode(name), decode(value)));
        Self { left: left.collect(), faults: Vec::new() }
    }

    /// A parameter that may be missing, and may not be there twice.
    pub fn optional<T: FromStr<Err: Display>>(&mut self, name: &str) -> Option<T> {
        let mut all = self.all(name);
        if all.len() > 1 {
            self.fault(name, "is there more than once");
            return None;
        }
        match all.pop()?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(name, error.to_string());
                None
            }
        }
    }

    /// A number within bounds.
    pub fn number(&mut self, name: &str, min: u64, max: u64) -> Option<u64> {
        let number: u64 = self.optional(name)?;
        if !(min..=max).contains(&number) {
            self.fault(name, format!("must be from {min} to {max}"));
            return None;
        }
        Some(number)
    }

    /// A parameter that may be there any number of times.
    pub fn all(&mut self, name: &str) -> Vec<String> {
        let (found, left) =
            std::mem::take(&mut self.left).into_iter().partition(|(n, _)| n == name);
        self.left = left;
        let found: Vec<(String, String)> = found;
        found.into_iter().map(|(_, value)| value).collect()
    }

    /// All parameters whose names begin like this, without that beginning.
    pub fn with_prefix(&mut self, prefix: &str) -> Vec<(String, String)> {
        let (found, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.left).into_iter().partition(|(n, _)| n.starts_with(prefix));
        self.left = left;
        found.into_iter().map(|(name, value)| (name[prefix.len()..].to_owned(), value)).collect()
    }

    /// Notes that a parameter is wrong.
    pub fn fault(&mut self, name: &str, detail: impl Into<String>) {
        let name: String = name.chars().take(100).collect();
        self.faults.push(Fault { pointer: format!("?{name}"), detail: detail.into() });
    }

    /// Fails if something was wrong. Unknown parameters are wrong.
    pub fn finish(mut self) -> Result<(), Problem> {
        for (name, _) in std::mem::take(&mut self.left).into_iter().take(50) {
            self.fault(&name, "is not known here");
        }
        if self.faults.is_empty() {
            return Ok(());
        }
        let detail = format!("`{}` {}", self.faults[0].pointer, self.faults[0].detail);
        Err(Problem::new(&problem_codes::QUERY_INVALID, detail).faults(self.faults))
    }
}

/// Percent signs and pluses; what is not UTF-8 afterwards shows as replacement characters, which
/// no value of ours contains.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |index: usize| bytes.get(index).and_then(|b| char::from(*b).to_digit(16));
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) => out.push(b' '),
            (byte, ..) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_a_query_is_named() {
        let uri = "/x?limit=0&state=a&state=b&b%6Fld=1&a+b=%zz".parse().unwrap();
        let mut query = Query::of(&uri);
        assert_eq!(query.number("limit", 1, 9), None);
        assert_eq!(query.optional::<String>("state"), None);
        let problem = query.finish().unwrap_err();
        let faults: Vec<_> = problem.all_faults().iter().map(|f| f.pointer.as_str()).collect();
        assert_eq!(faults, ["?limit", "?state", "?bold", "?a b"]);
    }
}
