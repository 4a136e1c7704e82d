"""What a session's namespace holds: variables and completions.

Names starting with an underscore are left out, as an explorer shows what the user made.
"""

import builtins
import keyword

import _ringfence_display as display
import _ringfence_report as report

VARIABLES_LIMIT = 1000
MATCHES_LIMIT = 500
REPR_LIMIT = 200


def variables(names, hidden):
    """Name, type and short representation of each variable, sorted by name."""
    shown = sorted(name for name in list(names) if _is_shown(name, hidden))
    return [_variable(name, names.get(name)) for name in shown[:VARIABLES_LIMIT]]


def complete(code, cursor, names):
    """Completions of the dotted name before the cursor: (matches, its start)."""
    start = _start(code, cursor)
    text = code[start:cursor]
    owner, dot, prefix = text.rpartition(".")
    found = _attributes(owner, names) if dot else _globals(names)
    matches = sorted({name for name in found if type(name) is str and name.startswith(prefix)})
    matches = [name for name in matches if prefix.startswith("_") or not name.startswith("_")]
    return [owner + dot + name for name in matches[:MATCHES_LIMIT]], start


def _variable(name, value):
    return {"name": name, "type": report.type_name(value), "repr": display.plain(value, REPR_LIMIT)}


def _is_shown(name, hidden):
    return type(name) is str and not name.startswith("_") and name not in hidden


def _start(code, cursor):
    at = cursor
    while at > 0 and (code[at - 1].isalnum() or code[at - 1] in "._"):
        at -= 1
    return at


def _globals(names):
    return list(names) + dir(builtins) + keyword.kwlist


def _attributes(owner, names):
    """Attributes of a dotted name. Looks attributes up, never calls anything."""
    parts = owner.split(".")
    try:
        value = names[parts[0]] if parts[0] in names else getattr(builtins, parts[0])
        for part in parts[1:]:
            value = getattr(value, part)
        return dir(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return []
