"""The three files of each skill agree with each other and with the contract."""

import ast
import inspect
import unittest

from support import SKILL_NAMES, call, function, handler, manifest, problems_of, schema

FLAGS = {"text_summarize": ["none"], "extract_entities": ["pii_risk"], "compact_memory": ["none"]}

# The contract in short: property → (keywords, required).
INPUTS = {
    "text_summarize": {
        "text": {"type": "string", "minLength": 1, "maxLength": 100000},
        "max_sentences": {"type": "integer", "minimum": 1, "maximum": 20, "default": 5},
        "style": {"type": "string", "enum": ["concise", "detailed", "bullet-points"], "default": "concise"},
    },
    "extract_entities": {
        "text": {"type": "string", "minLength": 1, "maxLength": 100000},
        "entity_types": {
            "type": "array",
            "items": {
                "type": "string",
                "enum": ["PERSON", "ORGANIZATION", "LOCATION", "DATE", "MONEY", "EMAIL", "PHONE", "URL"],
            },
            "uniqueItems": True,
            "default": [],
        },
        "min_confidence": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
    },
    "compact_memory": {
        "artifacts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "type": {"type": "string"},
                    "content": {"type": "object"},
                    "created_at": {"type": "string", "format": "date-time"},
                },
                "required": ["id", "type", "content"],
            },
            "minItems": 1,
        },
        "strategy": {
            "type": "string",
            "enum": ["summarize", "truncate", "merge", "intelligent"],
            "default": "summarize",
        },
        "max_tokens": {"type": "integer", "minimum": 100, "maximum": 8000, "default": 2000},
        "preserve_fields": {
            "type": "array",
            "items": {"type": "string"},
            "default": ["id", "type", "created_at", "provenance_refs"],
        },
    },
}
REQUIRED_OUTPUTS = {
    "text_summarize": ["summary", "original_length", "summary_length", "compression_ratio"],
    "extract_entities": ["entities", "total_entities", "entity_counts"],
    "compact_memory": [
        "compacted_artifacts",
        "original_count",
        "compacted_count",
        "original_tokens_estimate",
        "compacted_tokens_estimate",
        "compression_ratio",
        "strategy_used",
    ],
}
OPTIONAL_OUTPUTS = {
    "text_summarize": ["sentences_extracted"],
    "extract_entities": [],
    "compact_memory": ["preserved_artifact_ids"],
}


def without_descriptions(rules):
    """A schema without its prose."""
    if isinstance(rules, dict):
        # `description` is prose only beside a type; a property may well have that name.
        kept = {key: value for key, value in rules.items() if key != "description" or "type" not in rules}
        return {key: without_descriptions(value) for key, value in kept.items()}
    return rules


def imported_modules(tree):
    """The top-level names a module imports from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def is_plain_call(node):
    """A call of a function by its bare name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


class SkillFolders(unittest.TestCase):
    maxDiff = None

    def test_the_manifest_has_what_the_registry_needs(self):
        for name in SKILL_NAMES:
            with self.subTest(name):
                found = manifest(name)
                self.assertEqual(found["name"], name)
                self.assertRegex(found["version"], r"\A1\.\d+\.\d+\Z")
                self.assertRegex(found["handler"], r"\Ahandler\.\w+\Z")
                self.assertEqual(found["safety_flags"], FLAGS[name])
                self.assertEqual(found["requires_approval"], "false")
                self.assertTrue(found["description"] and found["tags"])
                self.assertEqual([key for key, _ in found["limits"]], ["timeout_seconds", "max_memory_mb"])

    def test_the_schemas_are_those_of_the_contract(self):
        for name in SKILL_NAMES:
            with self.subTest(name):
                given, returned = schema(name)["input"], schema(name)["output"]
                self.assertEqual(without_descriptions(given["properties"]), INPUTS[name])
                self.assertEqual(returned["required"], REQUIRED_OUTPUTS[name])
                self.assertEqual(list(returned["properties"]), REQUIRED_OUTPUTS[name] + OPTIONAL_OUTPUTS[name])
                for part in (given, returned):
                    self.assertEqual(part["$schema"], "http://json-schema.org/draft-07/schema#")
                    self.assertIs(part["additionalProperties"], False)

    def test_the_function_takes_what_the_schema_promises(self):
        for name in SKILL_NAMES:
            with self.subTest(name):
                rules = schema(name)["input"]
                parameters = inspect.signature(function(name)).parameters
                self.assertEqual(list(parameters), list(rules["properties"]))
                required = [key for key, one in parameters.items() if one.default is inspect.Parameter.empty]
                self.assertEqual(required, rules["required"])

    def test_the_function_has_the_defaults_of_the_schema(self):
        artifacts = [{"id": "a", "type": "t", "content": {"text": "word " * 200}, "provenance_refs": ["p"], "x": 1}]
        required = {"text": "John Doe came. He saw. He won." * 9, "artifacts": artifacts}
        for name in SKILL_NAMES:
            with self.subTest(name):
                rules = schema(name)["input"]["properties"]
                short = {key: required[key] for key in rules if key in required}
                full = {**short, **{key: one["default"] for key, one in rules.items() if "default" in one}}
                self.assertEqual(call(name, short), call(name, full))

    def test_every_example_in_a_manifest_is_true(self):
        for name in SKILL_NAMES:
            examples = manifest(name)["examples"]
            self.assertEqual([key for key, _ in examples], ["input", "output"] * (len(examples) // 2))
            for (_, args), (_, expected) in zip(examples[::2], examples[1::2]):
                with self.subTest(name, args=args):
                    self.assertEqual(call(name, args), expected)

    def test_handlers_import_only_the_standard_library_and_touch_nothing_outside(self):
        allowed = {"re", "json", "collections", "datetime", "typing"}
        for name in SKILL_NAMES:
            with self.subTest(name):
                tree = ast.parse(inspect.getsource(handler(name)))
                self.assertLessEqual(set(imported_modules(tree)), allowed)
                called = {node.func.id for node in ast.walk(tree) if is_plain_call(node)}
                self.assertFalse(called & {"open", "eval", "exec", "__import__", "hash", "id", "print"})

    def test_the_checker_itself_finds_what_is_wrong(self):
        rules = schema("text_summarize")["input"]
        for args in ({}, {"text": ""}, {"text": "a", "max_sentences": 21}, {"text": "a", "style": "x"}, {"text": "a", "y": 1}):
            with self.subTest(args=args):
                self.assertEqual(len(list(problems_of(rules, args, "$"))), 1)


if __name__ == "__main__":
    unittest.main()
