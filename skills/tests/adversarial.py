"""Inputs that make careless patterns slow, each as long as the schemas allow.

Run as a program it prints the seconds of processor time per input; `test_adversarial.py` runs it
with a deadline, so that a pattern that backtracks without end fails instead of hanging.
"""

import json
import sys
import time
from typing import Any, Dict, Tuple

from support import call

LENGTH = 100_000

PIECES = {
    "one word": "a",
    "initials": "A ",
    "dotted": "a.",
    "dotted initials": "A. ",
    "at signs": "a@",
    "mail without end": "a@a.",
    "apostrophes": "a'",
    "plus and digit": "+1",
    "digits": "1",
    "dashed digits": "1-",
    "pairs of digits": "01 23 ",
    "long numbers": "+123 456 7890 1234 5678 ",
    "brackets": "(",
    "closing brackets": ")",
    "schemes": "http://",
    "particles": "Xa de ",
    "of": "A of ",
    "possessives": "A's ",
    "money": "$1,000",
    "thousands": "1,000,",
    "months": "jan ",
    "days": "1. ",
    "Han": "漢",
    "katakana": "カ",
    "katakana names": "カカ・",
    "stops": ".",
    "question marks": "? ",
    "wide stops": "。",
    "quotes": '" . ',
    "stops and quotes": '."',
    "guillemets": ". »",
    "line breaks": "\n",
    "short lines": "a\n",
    "wrapped lines": "a" * 60 + "\n",
    "list marks": "- a\n",
    "spaces": " ",
    "combining marks": "a\u0301\u0323",
    "one sentence each": "Ab cd. ",
    "surrogates": "\ud800 ",
    "nulls": "\0",
}


def calls() -> Dict[str, Tuple[str, Dict[str, Any]]]:
    """Name → skill and arguments."""
    made: Dict[str, Tuple[str, Dict[str, Any]]] = {}
    for name, piece in PIECES.items():
        full = (piece * LENGTH)[:LENGTH]
        made[f"entities: {name}"] = ("extract_entities", {"text": full})
        made[f"summary: {name}"] = ("text_summarize", {"text": full, "max_sentences": 20, "style": "detailed"})
    made["entities: link with brackets"] = ("extract_entities", {"text": "http://a" + ")" * (LENGTH - 8)})
    made["entities: mail at the end"] = ("extract_entities", {"text": "-" * (LENGTH - 2) + "@a"})
    many = [{"id": str(index), "type": str(index % 7), "content": {"text": "x" * 50}} for index in range(3000)]
    for strategy in ("summarize", "truncate", "merge", "intelligent"):
        made[f"compact: {strategy}"] = ("compact_memory", {"artifacts": many, "strategy": strategy})
    return made


def main() -> None:
    """Prints one object: name → seconds of processor time."""
    seconds = {}
    for name, (skill, args) in calls().items():
        before = time.process_time()
        call(skill, args)
        seconds[name] = round(time.process_time() - before, 3)
    json.dump(seconds, sys.stdout)


if __name__ == "__main__":
    main()
