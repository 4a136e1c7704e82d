"""What the original skills answered, and what ours answer to the same calls.

The original answers were observed, not guessed. They are here so that a difference is a decision.
"""

import unittest

from support import call

FIVE_SENTENCES = (
    "This is a long text that needs summarization. "
    "It contains multiple sentences. "
    "Each sentence provides different information. "
    "The summarization should extract the most important sentences. "
    "This helps reduce token count while preserving meaning."
)
TWO_ARTIFACTS = [
    {
        "id": "artifact_1",
        "type": "research_snippet",
        "content": {"text": "Sample research finding", "confidence": 0.9},
        "created_at": "2025-12-28T12:00:00Z",
    },
    {
        "id": "artifact_2",
        "type": "claim_verification",
        "content": {"claim_text": "Test claim", "verdict": "verified", "confidence": 0.95},
        "created_at": "2025-12-28T12:05:00Z",
    },
]


def found(text, types=()):
    """Type and text of each entity."""
    result = call("extract_entities", {"text": text, "entity_types": list(types)})
    return [(one["type"], one["text"], one["start_pos"], one["end_pos"]) for one in result["entities"]]


class Originals(unittest.TestCase):
    maxDiff = None

    def test_a_summary_of_one_sentence_has_no_leading_dot(self):
        original = ". It contains multiple sentences."
        ours = call("text_summarize", {"text": FIVE_SENTENCES, "max_sentences": 1})
        self.assertNotEqual(ours["summary"], original)
        self.assertEqual(
            ours,
            {
                "summary": "This is a long text that needs summarization.",
                "original_length": 242,
                "summary_length": 45,
                "compression_ratio": 0.186,
                "sentences_extracted": 1,
            },
        )

    def test_a_summary_of_two_sentences_prefers_one_that_says_something(self):
        original = "This is a long text that needs summarization. It contains multiple sentences."
        ours = call("text_summarize", {"text": FIVE_SENTENCES, "max_sentences": 2, "style": "concise"})
        self.assertEqual(ours["summary"][:45], original[:45])
        self.assertEqual(
            ours["summary"],
            "This is a long text that needs summarization. "
            "The summarization should extract the most important sentences.",
        )

    def test_a_name_does_not_begin_with_the_verb_before_it(self):
        original = [("PERSON", "Contact John Doe", 0, 16), ("EMAIL", "john@example.com", 20, 36)]
        ours = found("Contact John Doe at john@example.com", ["EMAIL", "PERSON"])
        self.assertEqual(ours[1], original[1])
        self.assertEqual(ours[0], ("PERSON", "John Doe", 8, 16))

    def test_a_phone_number_keeps_its_plus_sign(self):
        self.assertEqual(found("+1-555-123-4567"), [("PHONE", "+1-555-123-4567", 0, 15)])
        text = (
            "Contact John Doe at john@example.com or call +1-555-123-4567. "
            "Visit https://example.com for more information."
        )
        self.assertEqual(
            found(text, ["EMAIL", "PHONE", "URL"]),
            [
                ("EMAIL", "john@example.com", 20, 36),
                ("PHONE", "+1-555-123-4567", 45, 60),
                ("URL", "https://example.com", 68, 87),
            ],
        )

    def test_compaction_does_not_grow_what_it_compacts(self):
        originals = {"summarize": 1.439, "merge": 1.598}
        for strategy in originals:
            with self.subTest(strategy):
                ours = call(
                    "compact_memory", {"artifacts": TWO_ARTIFACTS, "strategy": strategy, "max_tokens": 1000}
                )
                self.assertEqual(
                    ours,
                    {
                        "compacted_artifacts": TWO_ARTIFACTS,
                        "original_count": 2,
                        "compacted_count": 2,
                        "original_tokens_estimate": 82,
                        "compacted_tokens_estimate": 82,
                        "compression_ratio": 1.0,
                        "strategy_used": strategy,
                        "preserved_artifact_ids": ["artifact_1", "artifact_2"],
                    },
                )


if __name__ == "__main__":
    unittest.main()
