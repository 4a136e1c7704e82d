"""Shapes, names, overlaps, filters and positions of `extract_entities`."""

import random
import unittest

from support import call, schema, text, texts

TYPES = schema("extract_entities")["input"]["properties"]["entity_types"]["items"]["enum"]

# Type → texts with the entities in square brackets. Everything not in brackets must not be of that type.
MARKED = {
    "EMAIL": [
        "Write to [john@example.com].",
        "[a.b+c%d@sub.example.co.uk], <[x_1@example.org]>, '[o@example.org]' and ([y@example.org])",
        "[jane.o'neil@example.org]",
        "mailto:[john@example.com]?subject=x",
        "[用户@例子.公司] [x@münchen.de] [a@xn--mnchen-3ya.de]",
        "no@tld a@b @handle john@ @example.com a..b@example.com a@.com john@example.c",
    ],
    "PHONE": [
        "Call [+1-555-123-4567] or [555-123-4567] or [(555) 123-4567] or [1-555-123-4567] or [555-1234].",
        "[+49 30 1234567], [+4915112345678], [+33 1 23 45 67 89], [01 23 45 67 89], [030 1234567], [03-1234-5678]",
        "[555.123.4567], [555 123 4567], [+44 (0)20 7946 0958]",
        "IP 192.168.100.200, ISBN 978-3-16-148410-0, card 4111 1111 1111 1111, 3.14159265, 2024-01-15, 15/01/2024",
        "order 12345678901, x555-123-4567, 555-123-4567x, 10.000.000, $555-1234567",
    ],
    "URL": [
        "See [https://example.com]. And [http://a.b/c?d=e#f], then [www.example.org]!",
        "([https://en.example.org/wiki/A_(b)]) <[ftp://x.org/y]> \"[https://example.com/]\"",
        "見よ[https://example.jp/道]。次",
        "[HTTPS://EXAMPLE.COM/A]",
        "http:// https://... www. wwww.example.org xhttp://a",
    ],
    "DATE": [
        "[2024-01-15], [2024-01-15T10:00:00Z], [2024-01-15 10:00], [15.01.2024], [1/15/24], [15-1-2024], [15.01.24]",
        "[January 15, 2024], [Jan 5], [January 2024], [May 5th], [15 January 2024], [15th of March 2020], [3 Dec. 1999]",
        "[3. Oktober 1990], am [24. Dezember]; le [14 juillet 1789], le [1er janvier 2000]",
        "[2024年1月15日]と[1月15日]と[2024年1月]",
        "2024-13-15 2024-01-32 45.01.2024 1.2.34 1.2.3 janitor 5 5 marching 1/2 32/13/2024 May I",
    ],
    "MONEY": [
        "[$1,200.50], [€5], [£3.5 million], [US$5 billion], [$10k], [USD 30], [EUR 1.000,00]",
        "[20 dollars], [1.100,00 €], [12 000 €], [3,5 Millionen Euro], [5 cents], [100 JPY], [5000円]",
        "5 apples, 10%, $, 20 dollarsign, USDX 5, US 5",
    ],
    "PERSON": [
        "Contact [John Doe] today.",
        "Yesterday [Maria Garcia] met Dr. [Smith] and [J. R. R. Tolkien].",
        "[Ludwig van Beethoven]'s heirs thank [Maria Curie-Skłodowska] and [Seán O'Casey].",
        "We met [Ahmed Hassan], [Zoë Müller-Lüdenscheidt] and [Nguyễn Văn]",
        "President [Barack Obama] spoke to Mr. [Brown].",
        "Als [Gregor Samsa] und die Frau [Grubach] der Stadt Das Haus Der Hund sahen",
        "ni M. [Dumeril], et les autres",
        "[田中]さんと[アルベルト・アインシュタイン]",
        "The Weather In On Monday JOHN DOE p.s. P.S. and the API",
    ],
    "ORGANIZATION": [
        "the [Acme Corporation] and [Johnson & Johnson Inc]. bought [Siemens AG].",
        "the [University of Oxford], the [Bank of America], [Deutsche Bank] and [Google]'s office",
        "Herr Müller von der [Deutsche Bank AG]",
        "the [WHO] said who",
        "[東京大学]と[株式会社ソニー]",
    ],
    "LOCATION": [
        "We went to [New York City], [Paris], [France] and the [United States of America].",
        "He lived near [Baker Street] and the [Amazon River] in the [Republic of Korea]; then in [Xanadu].",
        "de l’[Europe] et de l’[Australie]",
        "[東京]から[ロンドン]へ",
        "سافر إلى [القاهرة] ثم ب[مصر]",
        "in the English language, in May, in German",
    ],
}

FRAGMENTS = [
    "John Doe", "Dr. ", "Paris", "of", "Bank", "Inc.", "john@example.com", "@", "+1-555-123-4567", "555", "-", ".", ",",
    "2024-01-15", "January", "15", "$", "1,000", "€", "million", "https://example.com/a_(b)", "www.", "(", ")", "'s",
    "’", "l’Europe", "東京", "大学", "田中さん", "5000円", "القاهرة", "😀", "e\u0301", "\ud800", "\n", " ", "  ", "\u00a0",
    "ǅ", "ß", "İ", "A", "von", "der", "&", "M.", "\0",
]


def random_text(source):
    """Pieces of entities, whole and broken, with and without spaces."""
    return "".join(source.choice(FRAGMENTS) + source.choice(["", " "]) for _ in range(source.randint(1, 40)))


def extract(**args):
    """The whole result."""
    return call("extract_entities", args)


class Shapes(unittest.TestCase):
    maxDiff = None

    def test_each_type_finds_what_is_marked_and_nothing_else(self):
        for kind, lines in MARKED.items():
            for line in lines:
                with self.subTest(kind, line=line):
                    found = extract(text=line.replace("[", "").replace("]", ""), entity_types=[kind])["entities"]
                    self.assertEqual(mark(line, found), line)


def mark(line, found):
    """The line with the found entities in square brackets."""
    plain = line.replace("[", "").replace("]", "")
    pieces, end = [], 0
    for one in found:
        pieces += [plain[end : one["start_pos"]], "[", one["text"], "]"]
        end = one["end_pos"]
    return "".join(pieces) + plain[end:]


class Answers(unittest.TestCase):
    def expect_consistent(self, source, result):
        end = 0
        for one in result["entities"]:
            self.assertEqual(source[one["start_pos"] : one["end_pos"]], one["text"])
            self.assertLessEqual(end, one["start_pos"], "entities overlap or are out of order")
            self.assertLess(one["start_pos"], one["end_pos"])
            self.assertEqual(one["text"], one["text"].strip())
            end = one["end_pos"]
        kinds = [one["type"] for one in result["entities"]]
        self.assertEqual(result["total_entities"], len(kinds))
        expected = [(kind, kinds.count(kind)) for kind in TYPES if kind in kinds]
        self.assertEqual(list(result["entity_counts"].items()), expected)

    def test_positions_cut_the_entity_out_of_real_texts(self):
        for name in texts():
            with self.subTest(name):
                self.expect_consistent(text(name), extract(text=text(name)))

    def test_positions_count_code_points(self):
        result = extract(text="😀é\u0301 東 John Doe", entity_types=["PERSON"])
        self.assertEqual([(one["text"], one["start_pos"]) for one in result["entities"]], [("John Doe", 6)])

    def test_positions_cut_the_entity_out_of_random_texts(self):
        source = random.Random(20240115)
        for _ in range(2000):
            made = random_text(source)
            with self.subTest(text=made):
                self.expect_consistent(made, extract(text=made))

    def test_filters_only_leave_out(self):
        """What a place is does not depend on what was asked for."""
        source = random.Random(3)
        for _ in range(500):
            made = random_text(source)
            wanted = source.sample(TYPES, source.randint(1, len(TYPES)))
            threshold = source.choice([0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0])
            everything = extract(text=made, min_confidence=0.0)["entities"]
            expected = [one for one in everything if one["type"] in wanted and one["confidence"] >= threshold]
            with self.subTest(text=made, wanted=wanted, threshold=threshold):
                found = extract(text=made, entity_types=wanted, min_confidence=threshold)
                self.assertEqual(found["entities"], expected)

    def test_no_types_means_all_types(self):
        result = extract(text=text("letter"), entity_types=[])
        self.assertEqual(sorted(result["entity_counts"]), sorted(TYPES))

    def test_better_evidence_gives_more_confidence(self):
        confidences = {}
        for line in ("Unknown Nobody came", "we saw Unknown Nobody", "we saw John Nobody", "we saw Dr. Unknown"):
            found = extract(text=line, entity_types=["PERSON"])["entities"]
            confidences[line] = [one["confidence"] for one in found]
        self.assertEqual(list(confidences.values()), [[0.5], [0.6], [0.75], [0.85]])

    def test_the_more_particular_shape_wins_an_overlap(self):
        for source, expected in {
            "https://example.com/john@example.com": ["URL"],
            "2024-01-15": ["DATE"],
            "$555-1234": ["MONEY"],
            "London Business School": ["ORGANIZATION"],
        }.items():
            with self.subTest(source):
                self.assertEqual([one["type"] for one in extract(text=source)["entities"]], expected)


if __name__ == "__main__":
    unittest.main()
