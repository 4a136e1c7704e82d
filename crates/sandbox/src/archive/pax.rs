//! PAX extended headers: `<length> <key>=<value>\n`, parsed strictly by their lengths.

use super::Problem;

/// Fields of the next entry that an extended header replaces. Times, owners and extended
/// attributes, file capabilities among them, are dropped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

/// Reads the records of one header.
pub(super) fn parse(mut bytes: &[u8]) -> Result<Pax, Problem> {
    let mut pax = Pax::default();
    while !bytes.is_empty() {
        let (key, value, rest) = record(bytes).ok_or(Problem::Malformed("PAX record"))?;
        bytes = rest;
        match key {
            b"path" => set(&mut pax.path, value.to_vec())?,
            b"linkpath" => set(&mut pax.link, value.to_vec())?,
            b"size" => set(&mut pax.size, number(value).ok_or(Problem::Malformed("PAX size"))?)?,
            _ if key.starts_with(b"GNU.sparse.") => return Err(Problem::Sparse),
            _ => {}
        }
    }
    Ok(pax)
}

/// Sets a value once: programs differ in which of two values for one key they use.
fn set<T>(slot: &mut Option<T>, value: T) -> Result<(), Problem> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::Malformed("PAX key given twice")),
    }
}

type Record<'a> = (&'a [u8], &'a [u8], &'a [u8]);

fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(number(&bytes[..space])?).ok()?;
    let (record, rest) = bytes.split_at_checked(length)?;
    let text = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((&text[..equals], &text[equals + 1..], rest))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
