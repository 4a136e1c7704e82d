"""The golden cases: calls on real texts whose results are kept in `golden/`, byte for byte.

`python3 skills/tests/cases.py` prints all results, `--write` replaces the golden files. Read the
difference before accepting it.
"""

import json
import sys
from typing import Any, Dict, List, Tuple

from support import TESTS, call, text, texts

GOLDEN = TESTS / "golden"


def all_cases() -> Dict[str, Tuple[str, Dict[str, Any]]]:
    """Name of the golden file → skill and arguments."""
    cases: Dict[str, Tuple[str, Dict[str, Any]]] = {}
    for name in texts():
        for style in ("concise", "detailed", "bullet-points"):
            args = {"text": text(name), "max_sentences": 3, "style": style}
            cases[f"summarize-{name}-{style}"] = ("text_summarize", args)
        cases[f"entities-{name}"] = ("extract_entities", {"text": text(name)})
    for strategy in ("summarize", "truncate", "merge", "intelligent"):
        for max_tokens in (100, 600, 8000):
            args = {"artifacts": artifacts(), "strategy": strategy, "max_tokens": max_tokens}
            cases[f"compact-{strategy}-{max_tokens}"] = ("compact_memory", args)
    return cases


def artifacts() -> List[Dict[str, Any]]:
    """What a piece of research leaves behind: snippets of all texts, claims about some, a patch."""
    made = []
    for day, name in enumerate(texts(), start=1):
        made.append(
            {
                "id": f"snippet_{name}",
                "type": "research_snippet",
                "content": {"text": text(name)[:700], "source": f"{name}.txt", "tags": [name, "prose"]},
                "created_at": f"2025-03-{day:02}T09:00:00Z",
                "provenance_refs": [f"prov_{day}", "prov_0"],
            }
        )
        made.append(
            {
                "id": f"claim_{name}",
                "type": "claim_verification",
                "content": {
                    "claim_text": f"The text {name} is in the public domain.",
                    "verdict": "verified" if day % 2 else "open",
                    "confidence": day / 10,
                },
                # The same instants as above, written in another time zone.
                "created_at": f"2025-03-{day:02}T11:00:00+02:00",
            }
        )
    made.append({"id": "patch", "type": "code_patch", "content": {"diff": "-a\n+b\n" * 100, "files": ["a.py"]}})
    return made


def rendered(skill: str, args: Dict[str, Any]) -> str:
    """The text of a golden file."""
    return json.dumps(call(skill, args), ensure_ascii=False, indent=2) + "\n"


def main() -> None:
    """Prints or writes all results."""
    write = "--write" in sys.argv[1:]
    for name, (skill, args) in all_cases().items():
        result = rendered(skill, args)
        if write:
            (GOLDEN / f"{name}.json").write_text(result, encoding="utf-8")
        else:
            sys.stdout.buffer.write(f"== {name}\n{result}".encode())


if __name__ == "__main__":
    main()
