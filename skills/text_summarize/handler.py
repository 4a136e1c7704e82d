"""Shortens a text to its most telling sentences.

The summary is extractive: every sentence stands in the text as given, keeps its own punctuation
and its place in the order. Nothing is invented, so a reader can find each sentence again.

Invariants:
- the same input gives the same bytes in every process: no set is iterated, ties go to the earlier;
- prose (`concise`, `detailed`) is never longer than its text;
- the time grows linearly with the text: every look around a full stop is bounded, or disjoint
  from the looks of its neighbours.
"""

import re
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Tuple

BULLET = "• "

# Families of quotes. Which sign opens and which closes differs by language; that there are two does not.
QUOTES = ('"', "“”„", "«»", "「」", "『』")
# A quotation of more sentences is divided.
LONGEST_QUOTE = 5

# How much the place of a sentence counts: openings announce the subject, endings conclude.
FIRST_SENTENCE_BONUS = 1.5
LAST_SENTENCE_BONUS = 1.3

# Added to the word count when a mean is taken, so that a sentence of one frequent word
# ("Whales!") does not beat a sentence that says something about it.
SHORT_SENTENCE_DAMPING = 1

# A line break is a wrap only in lines of this width. Shorter lines are headings, verse or lists,
# longer ones are paragraphs that were never wrapped.
NARROWEST_WRAP = 40
WIDEST_WRAP = 100

# Scripts written without spaces: Thai to Burmese, Khmer, kana, Han, the wide Han planes.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"

# Stops that need no space behind them.
WIDE_STOPS = "。！？｡．"
# Stops that end a sentence only before a space or the end; among them Arabic, Urdu, Devanagari,
# Burmese, Ethiopic and Armenian ones.
SPACED_STOPS = ".!?…‥‼⁇⁈⁉؟۔।॥။።፧։"
CLOSERS = "\"'”’»«›‹“)\\]}」』）】〉》〕］｝＂＇"
WIDE_CLOSERS = "」』）】〉》〕］｝＂＇"

# A run of stops and what still belongs to the sentence behind it. French puts a space before the
# closing guillemet; German opens with the same sign, but then a letter follows it at once.
STOP = re.compile(f"([{WIDE_STOPS}{SPACED_STOPS}]+)[{CLOSERS}]*(?:[ \u00a0\u202f]»(?!\\w))?")
NEXT_WORD = re.compile(r"[\s\"'“‘«»‹›„(\[¿¡—–-]*([^\W_]*)")
LIST_MARKER = re.compile(r"\s*(?:[-*•·–—]|\d{1,3}[.)])\s")
BULLET_MARKER = re.compile(r"[-*•·–—]\s+")
# No-break and ideographic spaces are typography and stay; everything else becomes one space.
PLAIN_SPACES = re.compile(r"[^\S\u00a0\u202f\u3000]+")
ACRONYM = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]\Z")
LABEL = re.compile(r"(?:\d{1,3}|[A-Za-z]|[IVXivx]{1,5})\Z")

# `\w` leaves out combining marks, without which Hindi or pointed Arabic falls apart.
MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
WORD = re.compile(f"(?P<unspaced>[{UNSPACED}]+)|(?:(?![{UNSPACED}])(?:[^\\W\\d_]|[{MARKS}]))+")
WIDE_CHARACTER = re.compile(f"[{UNSPACED}{WIDE_STOPS}{WIDE_CLOSERS}、，「『（]")
HIRAGANA_PAIR = re.compile("[\u3040-\u309f]{2}")

# Before a name or an example; a sentence does not end here.
NEVER_LAST = frozenset(
    """dr mr mrs ms prof st rev hon gen col sgt capt lt cmdr gov sen rep mt ft messrs vs cf viz
    e.g i.e eg ie z.b d.h u.a bzw hr fr hrn dipl ing m mm mme mlle mgr me p.ex sr sra srta dña
    approx ca resp al""".split()
)
# Before a number only: "no. 7" is one thing, "He said no. Then" is two.
BEFORE_NUMBER = frozenset("no nos nr art abs fig figs vol vols p pp ch sec eq tab bd kap chap".split())
# At the end or in the middle; the next word decides.
MAY_BE_LAST = frozenset("etc usw inc ltd co corp jr sr bros dept est str gmbh mio mrd a.m p.m ph.d".split())
# German ordinals: "am 3. Oktober" is no sentence end.
MONTHS = frozenset(
    """januar jänner februar märz april mai juni juli august september oktober november dezember
    jahrhundert""".split()
)
STOP_WORDS = frozenset(
    """a about after all also an and any are as at be because been before but by can could did do
    does for from had has have he her here him his how i if in into is it its just may more most my
    no not now of on one only or other our out over she should so some such than that the their them
    then there these they this those through to too under up was we were what when where which while
    who will with would you your
    aber als am an auch auf aus bei bis da das dass dem den der des die doch durch ein eine einem
    einen einer eines er es für gegen hat hatte ich ihm ihn ihr im ist ja kein keine man mehr mit
    nach nicht noch nur ob oder schon sein seine seinem seinen seiner sich sie sind so über um und
    uns unter vom von vor war waren wenn werden wie wieder wird wurde zu zum zur zwischen
    à au aux avec ce ces cette comme dans de des deux dont du elle elles en est et était eut il ils
    je la le les leur leurs lui mais même ne nous on ont où ou par pas plus pour qu que qui sa sans
    se ses son sur tout très un une vous était avait
    con como del el ella en era es esta este fue ha la las lo los más muy no para pero por que se
    sin sobre su sus también una uno y ya
    من في على إلى عن أن إن هو هي ما لا لم لن قد كان كانت ذلك هذا هذه التي الذي ثم أو و حتى إذا إذ كل
    بين بعد قبل عند مع كما فيه به له لها منه""".split()
)


class Sentence(NamedTuple):
    """One sentence as it stands in the text."""

    text: str
    paragraph: int
    spaced: bool  # A space may follow it without making the summary longer than the text.


def summarize(text: str, max_sentences: int = 5, style: str = "concise") -> Dict[str, Any]:
    """The skill: see `schema.json` for arguments and result."""
    sentences = split_sentences(text)
    chosen = choose(sentences, max_sentences, style)
    summary = render(chosen, style)
    return {
        "summary": summary,
        "original_length": len(text),
        "summary_length": len(summary),
        "compression_ratio": round(len(summary) / max(len(text), 1), 3),
        "sentences_extracted": len(chosen),
    }


# From text to sentences.


def split_sentences(text: str) -> List[Sentence]:
    """All sentences in order; a paragraph's end always ends a sentence."""
    sentences: List[Sentence] = []
    for number, paragraph in enumerate(split_paragraphs(text)):
        sentences.extend(sentences_of(paragraph, number))
    return sentences


def split_paragraphs(text: str) -> List[str]:
    """Paragraphs on one line each; hard-wrapped lines are joined again."""
    lines = [PLAIN_SPACES.sub(" ", line).strip() for line in text.splitlines()]
    widest = max(map(len, lines), default=0)
    paragraphs: List[List[str]] = [[]]
    for before, line in zip([""] + lines, lines):
        if not is_wrapped(before, line, widest):
            paragraphs.append([])
        if line:
            paragraphs[-1].append(line)
    return [join_lines(paragraph) for paragraph in paragraphs if paragraph]


def is_wrapped(before: str, line: str, widest: int) -> bool:
    """Whether the break between two lines was made only because the next word did not fit."""
    if not before or not line or LIST_MARKER.match(line + " "):
        return False
    if not NARROWEST_WRAP <= widest <= WIDEST_WRAP:
        return False
    first_word = line[0] if WIDE_CHARACTER.match(line) else line.split(None, 1)[0]
    return len(before) + 1 + len(first_word) > widest


def join_lines(lines: List[str]) -> str:
    """One line; between wide characters a wrap was never a space."""
    pieces = [lines[0]]
    for before, line in zip(lines, lines[1:]):
        wide = WIDE_CHARACTER.match(before[-1]) and WIDE_CHARACTER.match(line)
        pieces.append(line if wide else " " + line)
    return "".join(pieces)


def sentences_of(paragraph: str, number: int) -> List[Sentence]:
    """The sentences of one paragraph."""
    spans = spans_of(paragraph)
    sentences = []
    index = 0
    while index < len(spans):
        last = closing_span(paragraph, spans, index)
        sentences.append(cut(paragraph, spans[index][0], spans[last][1], number))
        index = last + 1
    return sentences


def spans_of(paragraph: str) -> List[Tuple[int, int]]:
    """Where the stops divide a paragraph, quotes not yet considered."""
    spans = []
    start = 0
    for stop in STOP.finditer(paragraph):
        if ends_sentence(paragraph, start, stop):
            spans.append((start, stop.end()))
            start = stop.end()
    if paragraph[start:].strip():
        spans.append((start, len(paragraph)))
    return spans


def closing_span(paragraph: str, spans: List[Tuple[int, int]], first: int) -> int:
    """The span in which the quotes and brackets opened in `first` are closed again.

    Without this, half a quotation would stand in the summary. A quotation that goes on for long is
    divided nevertheless; it may never be closed.
    """
    for last in range(first, min(first + LONGEST_QUOTE, len(spans))):
        if not is_open(paragraph[spans[first][0] : spans[last][1]]):
            return last
    return first


def is_open(text: str) -> bool:
    """Whether a quotation or a bracket is still open; a pair of quotes has two of its family's signs."""
    if text.count("(") > text.count(")"):
        return True
    return any(sum(map(text.count, family)) % 2 for family in QUOTES)


def cut(paragraph: str, start: int, end: int, number: int) -> Sentence:
    """Takes a sentence out and notes how it may be joined to another."""
    text = paragraph[start:end].strip()
    apart = end == len(paragraph) or paragraph[end].isspace()
    ends_wide = text[-1:] in WIDE_STOPS + WIDE_CLOSERS
    return Sentence(text, number, apart and not ends_wide)


def ends_sentence(paragraph: str, start: int, stop: "re.Match[str]") -> bool:
    """Whether this run of stops ends the sentence that began at `start`."""
    end = stop.end()
    following = paragraph[end : end + 1]
    if not following:
        return True
    if any(sign in WIDE_STOPS for sign in stop[1]):
        return wide_stop_ends(stop, following)
    if not following.isspace():
        return False
    next_word = NEXT_WORD.match(paragraph, end)[1]
    if next_word[:1].islower():
        return False
    return stop[1] != "." or full_stop_ends(paragraph, start, stop.start(), next_word)


def wide_stop_ends(stop: "re.Match[str]", following: str) -> bool:
    """A wide stop ends a sentence, unless a number or a quoting particle goes on behind it."""
    if stop[1] == "．" and following.isdigit():
        return False
    was_quoted = stop.end() > stop.end(1)
    return not (was_quoted and following in "とっ、，,")


def full_stop_ends(paragraph: str, start: int, stop: int, next_word: str) -> bool:
    """Whether a single full stop, with a space behind it, is more than an abbreviation's dot."""
    # The longest abbreviation has far fewer than 24 letters; more would only cost time.
    before = paragraph[max(start, stop - 24) : stop]
    token = before.split()[-1].lstrip("(\"'“‘«„[") if before[-1:].strip() else ""
    word = token.casefold()
    if word in NEVER_LAST:
        return False
    if word in BEFORE_NUMBER:
        return not next_word[:1].isdigit()
    if token.isdigit() and len(token) <= 2 and next_word.casefold() in MONTHS:
        return False
    if before.strip() == token and LABEL.match(token):
        return False
    is_initial = len(token) == 1 and (token.isupper() or token.islower())
    if word in MAY_BE_LAST or is_initial or ACRONYM.match(token):
        return next_word.casefold() in STOP_WORDS
    return True


# From sentences to a choice.


def choose(sentences: List[Sentence], count: int, style: str) -> List[Sentence]:
    """The `count` best sentences of a style, in the order of the text."""
    if len(sentences) <= count:
        return sentences
    words = [content_words(sentence.text) for sentence in sentences]
    frequencies = Counter(word for sentence in words for word in sentence)
    pick = pick_covering if style == "detailed" else pick_dense
    return [sentences[index] for index in sorted(pick(words, frequencies, count))]


def content_words(sentence: str) -> List[str]:
    """Words that carry meaning, in any script; unspaced scripts count by pairs of characters."""
    words: List[str] = []
    for match in WORD.finditer(sentence.casefold()):
        if match["unspaced"]:
            words.extend(pair for pair in pairs(match[0]) if not HIRAGANA_PAIR.match(pair))
        elif match[0] not in STOP_WORDS and len(match[0]) >= 3:
            words.append(match[0])
    return words


def pairs(run: str) -> List[str]:
    """Neighbouring characters: without a dictionary the best guess at words in a run."""
    return [run[index : index + 2] for index in range(len(run) - 1)] or [run]


def bonus(index: int, total: int) -> float:
    """What the place of a sentence adds to its score."""
    if index == 0:
        return FIRST_SENTENCE_BONUS
    return LAST_SENTENCE_BONUS if index == total - 1 else 1.0


def pick_dense(words: List[List[str]], frequencies: "Counter[str]", count: int) -> List[int]:
    """Sentences whose words are on average the most frequent; one said twice is taken once."""

    def score(index: int) -> float:
        total = sum(frequencies[word] for word in words[index])
        mean = total / (len(words[index]) + SHORT_SENTENCE_DAMPING)
        return bonus(index, len(words)) * mean

    ranked = sorted(range(len(words)), key=lambda index: (-score(index), index))
    first_of_its_words: Dict[Any, int] = {}
    for index in ranked:
        # A sentence of stop words alone has nothing to compare and stands for itself.
        first_of_its_words.setdefault(tuple(words[index]) or index, index)
    return list(first_of_its_words.values())[:count]


def pick_covering(words: List[List[str]], frequencies: "Counter[str]", count: int) -> List[int]:
    """Sentences that one after the other add the most weight not yet covered."""
    distinct = [list(dict.fromkeys(sentence)) for sentence in words]
    covered: Dict[str, bool] = {}
    left = list(range(len(words)))
    picked: List[int] = []

    def gain(index: int) -> float:
        fresh = sum(frequencies[word] for word in distinct[index] if word not in covered)
        return bonus(index, len(words)) * fresh

    while left and len(picked) < count:
        best = max(left, key=lambda index: (gain(index), -index))
        picked.append(best)
        left.remove(best)
        covered.update(dict.fromkeys(distinct[best], True))
    return picked


# From a choice to text.


def render(sentences: List[Sentence], style: str) -> str:
    """Writes the chosen sentences down as the style wants them."""
    if style == "bullet-points":
        return "\n".join(BULLET + BULLET_MARKER.sub("", one.text, count=1) for one in sentences)
    pieces: List[str] = []
    for one, following in zip(sentences, sentences[1:] + sentences[-1:]):
        new_paragraph = style == "detailed" and one.paragraph != following.paragraph
        pieces.extend([one.text, "\n" if new_paragraph else " " * one.spaced])
    return "".join(pieces).strip()
