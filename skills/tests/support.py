"""What the tests of all skills share: loading a skill as the service does, and checking its schemas.

The checker knows just the draft-07 keywords our schemas use and refuses any other, so that a new
keyword cannot go unchecked.
"""

import functools
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

# The skill folders are shipped as they are; tests must not leave caches in them.
sys.dont_write_bytecode = True

SKILLS = Path(__file__).resolve().parent.parent
TESTS = SKILLS / "tests"
SKILL_NAMES = ("text_summarize", "extract_entities", "compact_memory")

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
}
ANNOTATIONS = {"$schema", "description", "default", "format"}


@functools.lru_cache(maxsize=None)
def handler(name: str) -> Any:
    """The handler module of a skill."""
    path = SKILLS / name / "handler.py"
    spec = importlib.util.spec_from_file_location(f"{name}_handler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.lru_cache(maxsize=None)
def manifest(name: str) -> Dict[str, Any]:
    """`skill.yaml`, as far as our manifests go: scalars, lists of scalars, one level of mapping.

    Examples are JSON on one line, which is YAML too.
    """
    found: Dict[str, Any] = {}
    key = ""
    for line in (SKILLS / name / "skill.yaml").read_text(encoding="utf-8").splitlines():
        field, _, value = line.strip().lstrip("- ").partition(": ")
        if not line.startswith(" "):
            key, found[field.rstrip(":")] = field.rstrip(":"), value
        elif key in ("limits", "examples"):
            found[key] = (found[key] or []) + [(field, json.loads(value))]
        else:
            found[key] = (found[key] or []) + [line.strip()[2:]]
    return found


@functools.lru_cache(maxsize=None)
def schema(name: str) -> Dict[str, Any]:
    """`schema.json` of a skill."""
    return json.loads((SKILLS / name / "schema.json").read_text(encoding="utf-8"))


def function(name: str) -> Callable[..., Dict[str, Any]]:
    """The function `skill.yaml` names."""
    return getattr(handler(name), manifest(name)["handler"].rpartition(".")[2])


def call(name: str, args: Dict[str, Any]) -> Dict[str, Any]:
    """Calls a skill as the service does: arguments and result are JSON and keep the schemas."""
    expect_valid(schema(name)["input"], args)
    given = json.dumps(args)
    result = function(name)(**json.loads(given))
    expect_valid(schema(name)["output"], result)
    return json.loads(json.dumps(result))


def expect_valid(rules: Dict[str, Any], value: Any) -> None:
    """Fails with every problem at once."""
    problems = list(problems_of(rules, value, "$"))
    if problems:
        raise AssertionError("; ".join(problems))


def problems_of(rules: Dict[str, Any], value: Any, path: str) -> Iterator[str]:
    """All ways in which a value breaks a schema."""
    if not isinstance(value, TYPES[rules["type"]]) or isinstance(value, bool):
        yield f"{path} is no {rules['type']}"
        return
    for keyword, limit in rules.items():
        if keyword not in ANNOTATIONS and keyword != "type":
            yield from CHECKS[keyword](limit, value, path, rules)


def check_properties(limit: Dict[str, Any], value: Any, path: str, _: Any) -> Iterator[str]:
    """`properties`."""
    for name, rules in limit.items():
        if name in value:
            yield from problems_of(rules, value[name], f"{path}.{name}")


def check_additional(limit: Any, value: Any, path: str, rules: Dict[str, Any]) -> Iterator[str]:
    """`additionalProperties`, as a schema or as false."""
    for name in value:
        if name not in rules.get("properties", {}):
            if limit is False:
                yield f"{path}.{name} is unknown"
            else:
                yield from problems_of(limit, value[name], f"{path}.{name}")


def check_items(limit: Dict[str, Any], value: Any, path: str, _: Any) -> Iterator[str]:
    """`items`."""
    for index, one in enumerate(value):
        yield from problems_of(limit, one, f"{path}[{index}]")


def simple(holds: Callable[[Any, Any], bool], name: str) -> Callable[..., Iterator[str]]:
    """A keyword that only compares."""

    def check(limit: Any, value: Any, path: str, _: Any) -> Iterator[str]:
        if not holds(limit, value):
            yield f"{path} breaks {name} {limit}"

    return check


CHECKS: Dict[str, Callable[..., Iterator[str]]] = {
    "properties": check_properties,
    "additionalProperties": check_additional,
    "items": check_items,
    "required": simple(lambda limit, value: all(name in value for name in limit), "required"),
    "enum": simple(lambda limit, value: value in limit, "enum"),
    "minimum": simple(lambda limit, value: value >= limit, "minimum"),
    "maximum": simple(lambda limit, value: value <= limit, "maximum"),
    "minLength": simple(lambda limit, value: len(value) >= limit, "minLength"),
    "maxLength": simple(lambda limit, value: len(value) <= limit, "maxLength"),
    "minItems": simple(lambda limit, value: len(value) >= limit, "minItems"),
    "uniqueItems": simple(lambda _, value: len(set(map(json.dumps, value))) == len(value), "uniqueItems"),
}


def text(name: str) -> str:
    """One of the texts for golden tests."""
    return (TESTS / "texts" / f"{name}.txt").read_text(encoding="utf-8")


def texts() -> List[str]:
    """The names of all texts."""
    return sorted(path.stem for path in (TESTS / "texts").glob("*.txt"))
