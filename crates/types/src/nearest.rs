//! Suggestion for a misspelt name.

/// Most similar known name, if it is similar enough to be a slip.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close = known.into_iter().map(|known| (distance(name, known), known));
    let (distance, known) = close.min_by_key(|(distance, _)| *distance)?;
    // A third of the letters may differ; more is another word.
    (distance <= name.chars().count() / 3 + 1).then_some(known)
}

/// Edit distance: letters to insert, remove or replace to make one word the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(MAX_NAME_CHARS).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().take(MAX_NAME_CHARS).enumerate() {
        let mut corner = std::mem::replace(&mut row[0], index + 1);
        for (column, known) in other.iter().enumerate() {
            let replaced = corner + usize::from(letter != *known);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// Length to which names are cut before they are compared.
const MAX_NAME_CHARS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_another_word_finds_nothing() {
        let known = ["listen", "log.level", "skills"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("loglevel", known), Some("log.level"));
        assert_eq!(nearest("database_url", known), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn distances_are_those_of_single_letters() {
        for (one, other, letters) in
            [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
    }
}
