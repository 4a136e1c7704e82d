"""Runs source text as a program and gives the names it left, as plain JSON."""

import json
import linecache

LONGEST = 10_000
MOST = 1_000


def execute(code):
    linecache.cache["<code>"] = (len(code), None, code.splitlines(True), "<code>")
    names = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(compile(code, "<code>", "exec"), names)
    found = {name: value for name, value in names.items() if not name.startswith("_")}
    return {name: plain(value) for name, value in sorted(found.items())[:MOST]}


def plain(value):
    """The value itself if JSON can say it exactly, else a bounded repr."""
    try:
        text = json.dumps(value, allow_nan=False)
        if len(text) <= LONGEST * 10 and json.loads(text) == value:
            return json.loads(text)
    except Exception:
        pass
    try:
        text = repr(value)
    except Exception as error:
        text = "<%s whose repr fails: %s>" % (type(value).__name__, type(error).__name__)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
