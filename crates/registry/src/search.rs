//! Search of tools by words, with an order that depends on nothing but the words and the tools.

use std::sync::Arc;

use crate::{catalogue::Catalogue, entry::Entry};

/// Words of a query that count.
const MAX_WORDS: usize = 16;

impl Catalogue {
    /// The newest versions of tools that match words of the query, best first, then by name.
    pub fn search(&self, query: &str) -> Vec<&Arc<Entry>> {
        ranked(self.newest(), query)
    }
}

/// Tools that match words of the query, best first, then by name.
pub fn ranked<'a>(
    tools: impl IntoIterator<Item = &'a Arc<Entry>>,
    query: &str,
) -> Vec<&'a Arc<Entry>> {
    let words = words(query);
    let scored = tools.into_iter().map(|entry| (score(entry, &words), entry));
    let mut found: Vec<_> = scored.filter(|(score, _)| *score > 0).collect();
    found
        .sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.tool.name.cmp(&b.tool.name)));
    found.into_iter().map(|(_, entry)| entry).collect()
}

/// Words of a text, in lower case, without repetition.
pub(crate) fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut found: Vec<String> = Vec::new();
    for word in words {
        if found.len() < MAX_WORDS && !found.iter().any(|known| known == word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// Texts that words are looked for in, in lower case.
pub(crate) struct Texts<'a> {
    name: String,
    tags: &'a [String],
    description: String,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(name: &str, tags: &'a [String], description: &str) -> Self {
        Self { name: name.to_lowercase(), tags, description: description.to_lowercase() }
    }

    /// Weight of a word: a name counts more than a tag, a tag more than a description.
    pub(crate) fn score(&self, word: &str) -> u32 {
        let is_part = self.name.split(['_', '-', '.']).any(|part| part == word);
        let in_name = match self.name.contains(word) {
            true if self.name == *word => 100,
            true if is_part => 30,
            true => 20,
            false => 0,
        };
        let is_tag = self.tags.iter().any(|tag| tag.eq_ignore_ascii_case(word));
        in_name + if is_tag { 15 } else { 0 } + if self.description.contains(word) { 5 } else { 0 }
    }
}

fn score(entry: &Entry, words: &[String]) -> u32 {
    let texts = Texts::new(entry.tool.name.as_str(), &entry.tool.tags, &entry.tool.description);
    words.iter().map(|word| texts.score(word)).sum()
}
