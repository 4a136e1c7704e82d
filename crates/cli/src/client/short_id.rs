//! Short ids: the last characters of an id, as few as are unique. Ids of calls begin with the time
//! and share their first characters, so the last ones are used.

use serde_json::Value;

use super::{Client, escaped};
use crate::{failure::Failure, table::plain};

/// Characters shown of an id, if they are unique in its list.
const SHOWN_CHARS: usize = 8;

/// Minimum characters for a lookup.
const MIN_LOOKUP_CHARS: usize = 4;

/// Minimum characters of a whole id.
const WHOLE_ID_CHARS: usize = 32;

/// Newest entries of a list that are searched.
const MAX_SEARCHED: usize = 1_000;

/// Candidates that are listed if several ids match.
const MAX_CANDIDATES: usize = 5;

/// Kind of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    HeldCall,
    Approval,
    Key,
    Sandbox,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::HeldCall => "held call",
            Self::Approval => "approval",
            Self::Key => "key",
            Self::Sandbox => "sandbox",
        }
    }

    /// Path of the list, field of its entries, and field of their ids.
    const fn list(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Call => ("/v1/calls?limit=200", "calls", "id"),
            Self::HeldCall => ("/v1/holds?limit=200", "holds", "id"),
            Self::Approval => ("/v1/approvals?limit=200&live=false", "approvals", "id"),
            Self::Key => ("/v1/keys", "keys", "key_id"),
            Self::Sandbox => ("/v1/sandboxes", "sandboxes", "id"),
        }
    }

    /// Line that helps to choose among candidates.
    fn line(self, entry: &Value) -> String {
        let text = |name: &str| entry[name].as_str();
        let more = [text("state"), text("tool"), text("label"), text("accepted_at")];
        let id = text(self.list().2).unwrap_or_default();
        let more: Vec<_> = more.into_iter().flatten().collect();
        plain(format!("{id}  {}", more.join("  ")).trim_end())
    }
}

/// The ids of one list, shortened to equal length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShortIds {
    length: usize,
}

impl ShortIds {
    /// The shortest length that keeps them unique.
    pub(crate) fn of(ids: &[&str]) -> Self {
        let differ = |length: usize| {
            let mut ends: Vec<_> = ids.iter().map(|id| end(id, length)).collect();
            ends.sort_unstable();
            ends.windows(2).all(|pair| pair[0] != pair[1])
        };
        let length =
            (SHOWN_CHARS..WHOLE_ID_CHARS).find(|length| differ(*length)).unwrap_or(usize::MAX);
        Self { length }
    }

    pub(crate) fn show(self, id: &str) -> String {
        plain(end(id, self.length))
    }
}

/// The last characters.
fn end(id: &str, length: usize) -> &str {
    let skipped = id.chars().count().saturating_sub(length);
    id.char_indices().nth(skipped).map_or("", |(at, _)| &id[at..])
}

/// Whether a text can only be part of an id.
pub(crate) fn is_short(text: &str) -> bool {
    (MIN_LOOKUP_CHARS..WHOLE_ID_CHARS).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

impl Client {
    /// The whole id for its last characters. A whole id, and a text that is no id, are returned
    /// unchanged: the server answers for them.
    pub(crate) async fn whole_id(&self, kind: Kind, given: &str) -> Result<String, Failure> {
        if !is_short(given) {
            return Ok(given.to_owned());
        }
        chosen(kind, given, &self.ending_with(kind, given).await?)
    }

    /// Entries of a list whose id ends with the text.
    pub(crate) async fn ending_with(&self, kind: Kind, given: &str) -> Result<Vec<Value>, Failure> {
        let given = given.to_ascii_lowercase();
        let (path, list, id) = kind.list();
        let (mut found, mut seen, mut cursor) = (Vec::new(), 0, String::new());
        loop {
            let page: Value = self.get(&format!("{path}{cursor}")).await.map_err(|failure| {
                failure.hint("give the whole id: a short one needs a key that may list")
            })?;
            let entries = page[list].as_array().map_or(&[][..], Vec::as_slice);
            seen += entries.len();
            let fits = |entry: &&Value| entry[id].as_str().is_some_and(|id| id.ends_with(&given));
            found.extend(entries.iter().filter(fits).cloned());
            match page["next_cursor"].as_str() {
                Some(next) if seen < MAX_SEARCHED => cursor = format!("&cursor={}", escaped(next)),
                _ => return Ok(found),
            }
        }
    }
}

/// The id of the one entry that was found.
fn chosen(kind: Kind, given: &str, found: &[Value]) -> Result<String, Failure> {
    match found {
        [one] => Ok(one[kind.list().2].as_str().unwrap_or_default().to_owned()),
        [] => {
            let hint = format!(
                "only the newest {MAX_SEARCHED} are looked up; give the whole id of an older one"
            );
            Err(Failure::new(format!("no {} ends with `{given}`", kind.name())).hint(hint))
        }
        several => {
            let message = format!("{} ids end with `{given}`", several.len());
            let lines = several.iter().take(MAX_CANDIDATES).map(|entry| kind.line(entry));
            Err(Failure::listing(message, lines.collect()).hint("give more characters"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_of_a_list_are_as_short_as_they_can_be_told_apart() {
        let one = "01a1ec2f-3bbe-7700-a549-ac7753d9790e";
        let two = "01a1ec2f-3bbe-7700-a549-bc7753d9790e";
        let three = "01a1ec2f-3bbe-7700-a549-ac7753d97900";
        let shown = |ids: &[&str]| ShortIds::of(ids).show(ids[0]);
        assert_eq!(shown(&[one, three]), "53d9790e");
        assert_eq!(shown(&[one, two]), "ac7753d9790e");
        assert_eq!(shown(&["é"]), "é");
    }

    #[test]
    fn an_end_that_several_ids_have_is_refused_with_the_candidates() {
        let call = |id: &str, state: &str| json!({"id": id, "state": state, "tool": "echo"});
        let one = call("01a1-790e", "held");
        assert_eq!(
            chosen(Kind::Call, "790e", std::slice::from_ref(&one)),
            Ok("01a1-790e".to_owned())
        );
        let none = chosen(Kind::HeldCall, "790e", &[]).unwrap_err().text();
        assert!(none.starts_with("error: no held call ends with `790e`\nhint: "), "{none}");
        let two = chosen(Kind::Call, "790e", &[one, call("01a2-790e", "denied")]).unwrap_err();
        let expected = "error: 2 ids end with `790e`\n  01a1-790e  held  echo\n  \
                        01a2-790e  denied  echo\nhint: give more characters\n";
        assert_eq!(two.text(), expected);
    }

    #[test]
    fn only_a_part_of_an_id_is_looked_up() {
        for (text, is_part) in [
            ("53d9790e", true),
            ("53D9", true),
            ("a549-ac7753d9790e", true),
            ("53d", false),
            ("support-thread", false),
            ("01a1ec2f-3bbe-7700-a549-ac7753d9790e", false),
        ] {
            assert_eq!(is_short(text), is_part, "{text}");
        }
    }
}
