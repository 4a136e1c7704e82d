"""Sentences, choice, styles and honest numbers of `text_summarize`."""

import random
import unittest

from support import call, handler, text, texts

SUMMARIZE = handler("text_summarize")
STYLES = ("concise", "detailed", "bullet-points")

# Text with `|` where a sentence ends. A bar is no character of these sentences.
DIVIDED = {
    "titles": "Dr. Smith met Mrs. Jones.|They left.",
    "initials": "J. R. R. Tolkien wrote books.|C. S. Lewis too.",
    "latin abbreviations": "Use tools, e.g. Hammers, i.e. Heavy ones.|Then rest.",
    "acronym inside": "The U.S. Army came.|It went.",
    "acronym at the end": "I live in the U.S.|The winters are cold.",
    "company": "Acme Inc. Products are good.|We sell them.",
    "numbered": "See no. 7 and fig. 3 below.|He said no.|Then he left.",
    "decimals": "Pi is 3.14 and e is 2.71.|Both are irrational.",
    "names with dots": "Read example.com first.|Then run main.py now.",
    "ellipsis inside": "Well... perhaps not.|Yes.",
    "ellipsis at the end": "He waited...|Nobody came.",
    "one ellipsis sign": "He waited…|Nobody came… at first.",
    "several marks": "What?!|No!!!|Fine.",
    "quote goes on": '"Why?" he asked.|"Because," she said.',
    "quote behind the stop": 'He said "no."|She said "yes."|(Both lied.)|End.',
    "quote of several sentences": '"Oh dear! Oh dear! I am late!" said the Rabbit.|It ran.',
    "curly quotes": "“Go. Now.” He went.|„Halt. Wer da?“ rief er.".replace(" He", "|He"),
    "brackets": "It rained (as always. Always!) and stopped.|Good.",
    "German guillemets": "Er kam.|»Hallo. Wie geht es?«|Sie ging.",
    "German ordinals": "Am 3. Oktober war Feiertag.|Es regnete z. B. am 4. November.",
    "French guillemets": "« Bonjour ! » dit-il.|« Ça va ? »|Elle rit.",
    "French titles": "M. Dupont et Mme. Durand partent.|Ils rient.",
    "Spanish": "¿Qué hora es?|¡Es tarde!|Vamos.",
    "Japanese": "雨だ。|本当？|はい！|「行こう。」と言った。|終わり",
    "Chinese": "你好。|你是谁？|我是学生！",
    "fullwidth decimals": "円周率は３．１４です。|以上。",
    "Arabic": "هل أنت هنا؟|نعم.|أنا هنا!",
    "Urdu": "یہ کتاب ہے۔|وہ قلم ہے۔",
    "Hindi": "यह घर है।|वह पेड़ है।",
    "Armenian": "Սա տուն է։|Սա ծառ է։",
    "Greek": "Ήρθε.|Έφυγε.",
    "Russian": "Он пришёл.|Она ушла.",
    "no stop at the end": "One.|Two",
    "only a word": "word",
    "only marks": "!!!",
}

FRAGMENTS = [
    "The whale", "surfaced", "e.g.", "Dr.", "3.14", "...", "?", "!", ".", "。", "！", "猫である", "؟", "مرحبا",
    "«", "»", '"', "(", ")", "\n", "\n\n", " ", "  ", "\t", "\u00a0", "\u3000", "•", "- ", "1. ", "Straße", "I", "a",
    "\ud800", "😀", "e\u0301", "\0", "’", "“", "”", "U.S.", "Yes.", "No. ",
]


def random_text(source):
    """Pieces of every kind of trouble in a row."""
    return "".join(source.choice(FRAGMENTS) + source.choice(["", " ", " "]) for _ in range(source.randint(1, 60)))


class Sentences(unittest.TestCase):
    def test_sentences_end_where_a_reader_ends_them(self):
        for name, divided in DIVIDED.items():
            with self.subTest(name):
                joiner = "" if name in ("Japanese", "Chinese", "fullwidth decimals") else " "
                found = [one.text for one in SUMMARIZE.split_sentences(divided.replace("|", joiner))]
                self.assertEqual(found, divided.split("|"))

    def test_a_blank_line_ends_a_sentence(self):
        found = [one.text for one in SUMMARIZE.split_sentences("A heading\n\nThe text\r\n\r\nMore")]
        self.assertEqual(found, ["A heading", "The text", "More"])

    def test_a_line_break_ends_a_sentence_unless_the_text_is_wrapped(self):
        self.assertEqual(
            [one.text for one in SUMMARIZE.split_sentences("Buy milk\nCall Anna\n- pay rent\n- sleep")],
            ["Buy milk", "Call Anna", "- pay rent", "- sleep"],
        )
        wrapped = (
            "The heading\n"
            "The first line of this paragraph is as long as it can be,\n"
            "so the break behind it means nothing. A second sentence\n"
            "follows here.\n"
            "The last paragraph begins after a short line."
        )
        self.assertEqual(
            [one.text for one in SUMMARIZE.split_sentences(wrapped)],
            [
                "The heading",
                "The first line of this paragraph is as long as it can be, so the break behind it means nothing.",
                "A second sentence follows here.",
                "The last paragraph begins after a short line.",
            ],
        )

    def test_words_of_every_script_are_words(self):
        words = SUMMARIZE.content_words
        self.assertEqual(words("The Straße and the STRASSE"), ["strasse", "strasse"])
        self.assertEqual(words("Москва и Ленинград"), ["москва", "ленинград"])
        self.assertEqual(words("हिन्दी भाषा"), ["हिन्दी", "भाषा"])
        self.assertEqual(words("التاريخ في الأمم"), ["التاريخ", "الأمم"])
        self.assertEqual(words("東京大学"), ["東京", "京大", "大学"])
        self.assertEqual(words("1234 _ !"), [])


class Choice(unittest.TestCase):
    def test_sentences_keep_their_order_and_their_punctuation(self):
        source = text("english")
        sentences = [one.text for one in SUMMARIZE.split_sentences(source)]
        bullets = call("text_summarize", {"text": source, "max_sentences": 3, "style": "bullet-points"})["summary"]
        chosen = [line[2:] for line in bullets.split("\n")]
        self.assertEqual(len(chosen), 3)
        self.assertEqual(chosen, [one for one in sentences if one in chosen])

    def test_what_the_text_speaks_about_is_chosen_in_every_script(self):
        for subject, source in {
            "whale": "Hello there. The whale is large. A whale sings and the whale dives. Tea is nice. Bye now.",
            "鯨": "今日は晴れ。鯨は大きい。鯨は歌い鯨は潜る。茶は美味。また明日。",
            "الحوت": "مرحبا بكم. الحوت كبير جدا. الحوت يغني الحوت يغوص. الشاي لذيذ. وداعا لكم.",
            "кит": "Привет всем. Огромный кит живёт. Большой кит поёт, кит ныряет. Чай вкусный. До свидания.",
        }.items():
            with self.subTest(subject):
                self.assertIn(subject, call("text_summarize", {"text": source, "max_sentences": 1})["summary"])

    def test_a_sentence_said_twice_is_taken_once(self):
        source = "Whales sing whales. " * 5 + "Tea is nice. Rain fell on Monday."
        summary = call("text_summarize", {"text": source, "max_sentences": 2})["summary"]
        self.assertEqual(summary.count("Whales sing"), 1)

    def test_equal_sentences_go_by_their_place(self):
        source = "Red one. Blue two. Green three. Black four. White five."
        summary = call("text_summarize", {"text": source, "max_sentences": 3})["summary"]
        self.assertEqual(summary, "Red one. Blue two. White five.")


class Styles(unittest.TestCase):
    SOURCE = "Whales sing.\n\nWhales dive and whales sleep. Tea is nice.\n\nA quiet sea holds many old whales."

    def summary(self, style, count=2):
        return call("text_summarize", {"text": self.SOURCE, "max_sentences": count, "style": style})["summary"]

    def test_concise_is_one_paragraph_of_the_densest_sentences(self):
        self.assertEqual(self.summary("concise"), "Whales sing. Whales dive and whales sleep.")

    def test_bullet_points_are_the_same_sentences_one_per_line(self):
        self.assertEqual(self.summary("bullet-points"), "• Whales sing.\n• Whales dive and whales sleep.")

    def test_detailed_covers_the_most_and_keeps_paragraphs(self):
        self.assertEqual(
            self.summary("detailed"), "Whales dive and whales sleep.\nA quiet sea holds many old whales."
        )

    def test_a_short_text_is_styled_too(self):
        self.assertEqual(
            self.summary("concise", 9),
            "Whales sing. Whales dive and whales sleep. Tea is nice. A quiet sea holds many old whales.",
        )
        self.assertEqual(self.summary("bullet-points", 9).count("• "), 4)

    def test_a_list_gets_no_second_bullet(self):
        result = call("text_summarize", {"text": "- one\n* two\n• three", "style": "bullet-points"})
        self.assertEqual(result["summary"], "• one\n• two\n• three")

    def test_sentences_without_spaces_between_them_get_none(self):
        result = call("text_summarize", {"text": "鯨は歌う。\n\n鯨は潜る。茶。", "max_sentences": 2})
        self.assertEqual(result["summary"], "鯨は歌う。鯨は潜る。")


class Numbers(unittest.TestCase):
    def expect_honest(self, args):
        result = call("text_summarize", args)
        self.assertEqual(result["original_length"], len(args["text"]))
        self.assertEqual(result["summary_length"], len(result["summary"]))
        self.assertEqual(result["compression_ratio"], round(len(result["summary"]) / len(args["text"]), 3))
        self.assertLessEqual(result["sentences_extracted"], args["max_sentences"])
        self.assertEqual(result["summary"], result["summary"].strip())
        if args["style"] != "bullet-points":
            self.assertLessEqual(result["summary_length"], result["original_length"])
        return result

    def test_numbers_are_those_of_what_is_returned(self):
        for name in texts():
            for style in STYLES:
                for count in (1, 4, 20):
                    with self.subTest(name, style=style, count=count):
                        self.expect_honest({"text": text(name), "max_sentences": count, "style": style})

    def test_numbers_are_honest_for_random_texts(self):
        source = random.Random(20240115)
        for _ in range(1500):
            args = {"text": random_text(source), "max_sentences": source.randint(1, 20), "style": source.choice(STYLES)}
            with self.subTest(args=args):
                self.expect_honest(args)

    def test_every_sentence_of_a_random_text_stands_in_it(self):
        source = random.Random(7)
        for _ in range(500):
            made = random_text(source)
            squeezed = "".join(made.split())
            with self.subTest(text=made):
                sentences = SUMMARIZE.split_sentences(made)
                self.assertEqual("".join("".join(one.text.split()) for one in sentences), squeezed)

    def test_white_space_alone_has_an_empty_summary(self):
        self.assertEqual(
            call("text_summarize", {"text": " \n\t "}),
            {
                "summary": "",
                "original_length": 4,
                "summary_length": 0,
                "compression_ratio": 0.0,
                "sentences_extracted": 0,
            },
        )


if __name__ == "__main__":
    unittest.main()
