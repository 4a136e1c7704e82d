//! WordPiece tokenizer of uncased BERT models.
//!
//! Steps: clean, separate CJK characters, strip accents, lower-case, split at white space and
//! punctuation, then the longest known pieces from left to right. Special tokens are added here and
//! are never read from the text: a literal `[SEP]` in a text is three ordinary words.

use std::collections::HashMap;

use unicode_general_category::{GeneralCategory as Category, get_general_category as category};
use unicode_normalization::UnicodeNormalization;

use crate::Error;

/// Words longer than this become one unknown token, as in the reference.
const MAX_WORD_CHARS: usize = 100;

/// Vocabulary and rules of one model.
#[derive(Debug)]
pub struct Tokenizer {
    pieces: HashMap<String, u32>,
    unknown: u32,
    start: u32,
    end: u32,
}

impl Tokenizer {
    /// Tokenizer with the vocabulary of a `vocab.txt`: one piece per line, its number is its id.
    pub fn new(vocabulary: &str) -> Result<Self, Error> {
        let pieces: HashMap<String, u32> =
            vocabulary.lines().zip(0..).map(|(piece, id)| (piece.to_owned(), id)).collect();
        let id = |piece: &str| {
            let missing = || Error::damaged("vocab.txt", format!("it has no piece `{piece}`"));
            pieces.get(piece).copied().ok_or_else(missing)
        };
        let (unknown, start, end) = (id("[UNK]")?, id("[CLS]")?, id("[SEP]")?);
        Ok(Self { pieces, unknown, start, end })
    }

    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether the vocabulary is empty; it never is, because special tokens are required.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Token ids of a text with the start and end tokens, at most `max_tokens` in all.
    pub fn encode(&self, text: &str, max_tokens: usize) -> Vec<u32> {
        let most = max_tokens.saturating_sub(2);
        let mut ids = vec![self.start];
        let mut word = String::new();
        let mut add = |word: &mut String| {
            if !word.is_empty() {
                self.split(word, &mut ids);
                word.clear();
            }
            ids.len() <= most
        };
        for character in normalised(text) {
            let goes_on = match character {
                c if c.is_whitespace() => add(&mut word),
                c if is_punctuation(c) => {
                    add(&mut word) && {
                        word.push(c);
                        add(&mut word)
                    }
                }
                c => {
                    word.push(c);
                    true
                }
            };
            if !goes_on {
                break;
            }
        }
        add(&mut word);
        ids.truncate(most + 1);
        ids.push(self.end);
        ids
    }

    /// Appends the pieces of one word.
    fn split(&self, word: &str, ids: &mut Vec<u32>) {
        if word.chars().count() > MAX_WORD_CHARS {
            return ids.push(self.unknown);
        }
        let (before, mut rest) = (ids.len(), word);
        let mut piece = String::new();
        while !rest.is_empty() {
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let known = ends.into_iter().find_map(|end| {
                piece.clear();
                if ids.len() > before {
                    piece.push_str("##");
                }
                piece.push_str(&rest[..end]);
                self.pieces.get(&piece).map(|id| (end, *id))
            });
            let Some((end, id)) = known else {
                ids.truncate(before);
                return ids.push(self.unknown);
            };
            ids.push(id);
            rest = &rest[end..];
        }
    }
}

/// Characters of the text after cleaning, without accents, in lower case.
fn normalised(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars()
        .filter(|&c| c != '\0' && c != '\u{fffd}' && !is_control(c))
        .flat_map(|c| match c {
            c if c.is_whitespace() => [None, Some(' '), None],
            c if is_cjk(c) => [Some(' '), Some(c), Some(' ')],
            c => [None, Some(c), None],
        })
        .flatten()
        .nfd()
        .filter(|&c| category(c) != Category::NonspacingMark)
        .flat_map(char::to_lowercase)
}

fn is_control(c: char) -> bool {
    if matches!(c, '\t' | '\n' | '\r') {
        return false;
    }
    matches!(
        category(c),
        Category::Control | Category::Format | Category::Unassigned | Category::PrivateUse
    )
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(
            category(c),
            Category::ConnectorPunctuation
                | Category::DashPunctuation
                | Category::OpenPunctuation
                | Category::ClosePunctuation
                | Category::InitialPunctuation
                | Category::FinalPunctuation
                | Category::OtherPunctuation
        )
}

/// Blocks of ideographs, each of which is a word.
fn is_cjk(c: char) -> bool {
    matches!(
        u32::from(c),
        0x4E00..=0x9FFF
            | 0x3400..=0x4DBF
            | 0x20000..=0x2A6DF
            | 0x2A700..=0x2B73F
            | 0x2B740..=0x2B81F
            | 0x2B920..=0x2CEAF
            | 0xF900..=0xFAFF
            | 0x2F800..=0x2FA1F
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer() -> Tokenizer {
        let pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "##s", "!", "un", "##known", "["];
        Tokenizer::new(&pieces.join("\n")).expect("special tokens are there")
    }

    #[test]
    fn accents_case_and_punctuation_are_handled() {
        assert_eq!(tokenizer().encode("CAFÉS!", 16), [2, 4, 5, 6, 3]);
        assert_eq!(tokenizer().encode("unknown\u{0}", 16), [2, 7, 8, 3]);
    }

    #[test]
    fn special_tokens_in_a_text_are_not_special() {
        assert_eq!(tokenizer().encode("[SEP]", 16), [2, 9, 1, 1, 3]);
    }

    #[test]
    fn long_texts_and_words_are_bounded() {
        assert_eq!(tokenizer().encode(&"cafe ".repeat(1_000), 5), [2, 4, 4, 4, 3]);
        assert_eq!(tokenizer().encode(&"s".repeat(101), 5), [2, 1, 3]);
        assert_eq!(tokenizer().encode("", 5), [2, 3]);
    }

    #[test]
    fn a_vocabulary_without_special_tokens_is_refused() {
        assert!(Tokenizer::new("a\nb").is_err());
    }
}
