"""Runs source text as a program and gives the names it left, as plain JSON."""

import json
import linecache

MAX_TEXT = 10_000
MAX_NAMES = 1_000
DEEPEST = 50


def execute(code):
    linecache.cache["<code>"] = (len(code), None, code.splitlines(True), "<code>")
    names = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(compile(code, "<code>", "exec"), names)
    # Code can put anything among its names, also what is no name.
    found = sorted(name for name in names if isinstance(name, str) and not name.startswith("_"))
    return {sound(name): plain(names[name]) for name in found[:MAX_NAMES]}


def plain(value):
    """The value itself if JSON can say it exactly, else a bounded repr."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
        if len(text) <= MAX_TEXT * 10 and shallow(text) and json.loads(text) == value:
            return json.loads(text)
    except BaseException:
        pass
    try:
        text = repr(value)
    except BaseException as error:
        text = "<%s whose repr fails: %s>" % (type(value).__name__, type(error).__name__)
    return sound(text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…")


def shallow(text):
    """Whether it is nested no deeper than a result may be; brackets in strings count too."""
    depth = most = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        most = max(most, depth)
    return most <= DEEPEST


def sound(text):
    """The text, with halves of characters written out: alone they are no text."""
    return str.encode(text, "utf-8", "backslashreplace").decode()
