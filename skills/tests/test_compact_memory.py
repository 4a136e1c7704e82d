"""Budget, honesty, order and preserved fields of `compact_memory`, for every strategy."""

import json
import random
import unittest

import cases
from support import call

STRATEGIES = ("summarize", "truncate", "merge", "intelligent")
DEFAULT_PRESERVE = ["id", "type", "created_at", "provenance_refs"]


def tokens(artifacts):
    """The estimate as the contract words it: a quarter of the JSON text."""
    return len(json.dumps(artifacts)) // 4


def note(name, words, day=None, kind="note", **content):
    """An artifact with a text of so many words."""
    made = {"id": name, "type": kind, "content": {"text": " ".join([name] * words), **content}}
    return made if day is None else {**made, "created_at": f"2025-01-{day:02}T00:00:00Z"}


def random_artifacts(source):
    """Artifacts of all sizes, types and shapes; some without a date, some with a broken one."""
    made = []
    for index in range(source.randint(1, 25)):
        artifact = {
            "id": source.choice([f"id{index}", "same", "", "ü" * 30]),
            "type": source.choice(["note", "claim_verification", "code_patch", "x" * 50]),
            "content": random_content(source, 3),
        }
        if source.random() < 0.7:
            artifact["created_at"] = source.choice(
                [f"2025-0{source.randint(1, 9)}-01T00:00:00Z", "2025-01-01T00:00:00+05:00", "yesterday", "0001-01-01T00:00:00+14:00"]
            )
        if source.random() < 0.5:
            artifact["provenance_refs"] = source.sample(["p1", "p2", "p3", {"k": 1}], source.randint(0, 4))
        if source.random() < 0.3:
            artifact["extra"] = "e" * source.randint(0, 2000)
        made.append(artifact)
    return made


def random_content(source, depth):
    """An object with priority fields and others."""
    fields = ["summary", "text", "claim_text", "verdict", "confidence", "tags", "title", "key_points", "other", "é"]
    chosen = source.sample(fields, source.randint(0, len(fields)))
    return {field: random_value(source, depth) for field in chosen}


def random_value(source, depth):
    """Any JSON value."""
    simple = [None, True, 0, -1, 0.5, 1e300, "", "word " * source.randint(0, 120), "漢字" * source.randint(0, 60)]
    if depth and source.random() < 0.3:
        return source.choice(
            [random_content(source, depth - 1), [random_value(source, depth - 1) for _ in range(source.randint(0, 9))]]
        )
    return source.choice(simple)


class EveryStrategy(unittest.TestCase):
    maxDiff = None

    def expect_honest(self, args):
        before = json.dumps(args)
        result = call("compact_memory", args)
        self.assertEqual(json.dumps(args), before, "the input was changed")
        given, returned = args["artifacts"], result["compacted_artifacts"]
        self.assertEqual(result["original_count"], len(given))
        self.assertEqual(result["compacted_count"], len(returned))
        self.assertEqual(result["original_tokens_estimate"], tokens(given))
        self.assertEqual(result["compacted_tokens_estimate"], tokens(returned))
        self.assertEqual(result["compression_ratio"], round(tokens(returned) / tokens(given), 3))
        self.assertEqual(result["strategy_used"], args["strategy"])
        self.assertLessEqual(len(json.dumps(returned)), len(json.dumps(given)))
        self.assertLessEqual(tokens(returned), args["max_tokens"])
        self.expect_preserved(args, result)
        return result

    def expect_preserved(self, args, result):
        """Entries of their own carry the preserved fields of the artifact they stand for."""
        own = [one for one in result["compacted_artifacts"] if "merged_count" not in one]
        self.assertEqual(len(own), len(result["preserved_artifact_ids"]))
        preserve = args.get("preserve_fields", DEFAULT_PRESERVE)
        for entry, name in zip(own, result["preserved_artifact_ids"]):
            sources = [one for one in args["artifacts"] if one["id"] == name]
            self.assertTrue(
                any(all(entry.get(field) == one.get(field) for field in preserve) for one in sources),
                f"no artifact {name!r} has the preserved fields of {entry}",
            )

    def test_random_artifacts_keep_all_promises(self):
        source = random.Random(20240115)
        for _ in range(400):
            args = {
                "artifacts": random_artifacts(source),
                "strategy": source.choice(STRATEGIES),
                "max_tokens": source.choice([100, 101, 150, 500, 2000, 8000]),
            }
            if source.random() < 0.3:
                args["preserve_fields"] = source.choice([[], ["id"], ["type", "extra"], ["content"], ["id", "nothing"]])
            with self.subTest(args=args):
                self.expect_honest(args)

    def test_small_artifacts_come_back_as_they_are(self):
        given = [note("a", 1, 1), note("b", 2, 2, kind="claim")]
        for strategy in STRATEGIES:
            with self.subTest(strategy):
                result = self.expect_honest({"artifacts": given, "strategy": strategy, "max_tokens": 100})
                self.assertCountEqual(map(json.dumps, result["compacted_artifacts"]), map(json.dumps, given))

    def test_what_cannot_fit_at_all_is_dropped_and_counted(self):
        given = [note("x" * 500, 1, 1), note("small", 1, 2)]
        for strategy in ("summarize", "truncate", "intelligent"):
            with self.subTest(strategy):
                result = self.expect_honest({"artifacts": given, "strategy": strategy, "max_tokens": 100})
                self.assertEqual(result["preserved_artifact_ids"], ["small"])
                self.assertEqual((result["original_count"], result["compacted_count"]), (2, 1))

    def test_nothing_is_left_if_nothing_fits(self):
        for strategy in STRATEGIES:
            with self.subTest(strategy):
                result = self.expect_honest({"artifacts": [note("x" * 500, 1)], "strategy": strategy, "max_tokens": 100})
                self.assertEqual(result["compacted_artifacts"], [])
                self.assertEqual(result["compression_ratio"], 0.0)

    def test_preserved_fields_are_exactly_those_asked_for(self):
        given = [{**note("a", 300, 1), "owner": "me", "secret": "s" * 50}]
        for strategy in STRATEGIES:
            with self.subTest(strategy):
                args = {"artifacts": given, "strategy": strategy, "max_tokens": 100, "preserve_fields": ["id", "owner"]}
                entry = self.expect_honest(args)["compacted_artifacts"][0]
                self.assertEqual({"id": "a", "owner": "me"}, {key: entry[key] for key in ("id", "owner")})
                self.assertFalse({"type", "created_at", "secret"} & set(entry))

    def test_time_zones_do_not_confuse_what_is_newest(self):
        given = [
            {**note("earlier", 60), "created_at": "2025-01-01T23:00:00+09:00"},
            {**note("later", 60), "created_at": "2025-01-01T15:00:00Z"},
        ]
        result = self.expect_honest({"artifacts": given, "strategy": "truncate", "max_tokens": 8000})
        self.assertEqual(result["preserved_artifact_ids"], ["later", "earlier"])


class Summarize(unittest.TestCase):
    def compact(self, given, **args):
        return call("compact_memory", {"artifacts": given, "strategy": "summarize", **args})

    def test_a_long_text_is_cut_and_the_rest_is_counted(self):
        given = [note("word", 100, 1, source="book", other="x" * 100)]
        self.assertEqual(
            self.compact(given)["compacted_artifacts"],
            [
                {
                    "id": "word",
                    "type": "note",
                    "created_at": "2025-01-01T00:00:00Z",
                    "content_summary": {
                        "text": given[0]["content"]["text"][:200] + "...",
                        "source": "book",
                        "_original_fields": 3,
                    },
                    "compacted": True,
                    "original_size": len(json.dumps(given[0])),
                }
            ],
        )

    def test_without_priority_fields_the_first_by_name_are_kept(self):
        given = [{"id": "a", "type": "t", "content": {name: name * 300 for name in "zyxwvutsr"}}]
        summary = self.compact(given)["compacted_artifacts"][0]["content_summary"]
        self.assertEqual(sorted(summary), ["_original_fields", "r", "s", "t", "u", "v"])

    def test_under_pressure_all_lose_before_one_is_lost(self):
        given = [note(f"n{index}", 200, index + 1) for index in range(10)]
        lengths = {}
        for max_tokens in (1200, 600, 400, 200):
            result = self.compact(given, max_tokens=max_tokens)
            lengths[max_tokens] = [
                len(one.get("content_summary", {}).get("text", "")) for one in result["compacted_artifacts"]
            ]
        self.assertEqual(lengths[1200], [203] * 10)
        self.assertEqual(len(lengths[600]), 10)
        self.assertGreaterEqual(min(lengths[600]), 53)
        self.assertEqual((len(lengths[400]), min(lengths[400])), (10, 0))
        self.assertLess(len(lengths[200]), 10)
        # The newest stand at the end and never have less than the older ones.
        self.assertEqual([sorted(each) for each in lengths.values()], list(lengths.values()))


class Truncate(unittest.TestCase):
    def test_the_newest_stay_whole_and_the_others_become_stubs(self):
        given = [note("old", 100, 1), note("undated", 100), note("new", 60, 3), note("middle", 100, 2)]
        result = call("compact_memory", {"artifacts": given, "strategy": "truncate", "max_tokens": 150})
        self.assertEqual(
            result["compacted_artifacts"],
            [
                given[2],
                {"id": "middle", "type": "note", "created_at": "2025-01-02T00:00:00Z", "truncated": True},
                {"id": "old", "type": "note", "created_at": "2025-01-01T00:00:00Z", "truncated": True},
                {"id": "undated", "type": "note", "truncated": True},
            ],
        )
        self.assertEqual(result["preserved_artifact_ids"], ["new", "middle", "old", "undated"])


class Merge(unittest.TestCase):
    def test_one_artifact_per_type_says_what_it_is_made_of(self):
        given = [
            {**note("a", 300, 1, tags=["x"]), "provenance_refs": ["p1", "p2"]},
            note("claim", 1, 2, kind="claim_verification"),
            {**note("b", 300, 3, source="s"), "provenance_refs": ["p2", "p3"]},
        ]
        result = call("compact_memory", {"artifacts": given, "strategy": "merge"})
        merged, claim = result["compacted_artifacts"]
        self.assertEqual(claim, given[1])
        self.assertEqual(result["preserved_artifact_ids"], ["claim"])
        self.assertEqual(
            merged,
            {
                "id": "merged_note",
                "type": "note",
                "merged_count": 2,
                "merged_from": ["a", "b"],
                "created_at": "2025-01-03T00:00:00Z",
                "provenance_refs": ["p2", "p3", "p1"],
                "aggregated_content": {
                    "count": 2,
                    "types": ["dict"],
                    "common_fields": ["text"],
                    "summaries": [
                        {"text": given[0]["content"]["text"][:200] + "...", "tags": ["x"], "_original_fields": 2},
                        {"text": given[2]["content"]["text"][:200] + "...", "source": "s", "_original_fields": 2},
                    ],
                },
                "compacted": True,
            },
        )

    def test_equal_contents_are_said_once(self):
        given = [{"id": f"n{index}", "type": "note", "content": {"text": "same " * 30}} for index in range(9)]
        merged = call("compact_memory", {"artifacts": given, "strategy": "merge"})["compacted_artifacts"][0]
        self.assertEqual(merged["merged_count"], 9)
        self.assertEqual(len(merged["aggregated_content"]["summaries"]), 1)


class Intelligent(unittest.TestCase):
    def test_the_important_come_first_and_stay_whole(self):
        given = [
            note("plain", 100, 1),
            note("sure", 100, 2, confidence=0.9),
            note("claim", 20, 3, kind="claim_verification", confidence=0.9),
            note("patch", 20, kind="code_patch"),
        ]
        result = call("compact_memory", {"artifacts": given, "strategy": "intelligent", "max_tokens": 330})
        self.assertEqual(result["preserved_artifact_ids"], ["claim", "sure", "patch", "plain"])
        forms = ["whole" if one in given else "short" for one in result["compacted_artifacts"]]
        self.assertEqual(forms, ["whole", "whole", "whole", "short"])

    def test_a_confidence_that_is_no_confidence_counts_nothing(self):
        for strange in ("high", True, -5, 1e9, None, [1]):
            with self.subTest(strange=strange):
                given = [note("strange", 1, confidence=strange), note("sure", 1, confidence=0.1)]
                result = call("compact_memory", {"artifacts": given, "strategy": "intelligent"})
                self.assertEqual(result["preserved_artifact_ids"], ["sure", "strange"])


class RealTexts(unittest.TestCase):
    def test_every_budget_holds_for_the_golden_artifacts(self):
        given = cases.artifacts()
        for strategy in STRATEGIES:
            for max_tokens in range(100, 2600, 50):
                with self.subTest(strategy, max_tokens=max_tokens):
                    args = {"artifacts": given, "strategy": strategy, "max_tokens": max_tokens}
                    self.assertLessEqual(call("compact_memory", args)["compacted_tokens_estimate"], max_tokens)


if __name__ == "__main__":
    unittest.main()
