"""Strict JSON of a return value: what cannot be told exactly is an error with a path."""

import json

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_INFINITIES = (float("inf"), float("-inf"))


class NotJson(TypeError):
    """A value that JSON cannot carry; the message names where and of what type."""

    __module__ = "builtins"  # Printed without a module, as `ValueError` is.


def to_json(value):
    """UTF-8 JSON of `value`."""
    try:
        text = _encode(value)
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        fault = _fault(value, "result", ())
    raise NotJson(fault or "result cannot be encoded as JSON")


def _fault(value, path, above):
    """The first thing in `value` that is not JSON, in words; None if all is."""
    if value is None or value is True or value is False:
        return None
    if isinstance(value, str):
        return _text_fault(value, path)
    if isinstance(value, float):
        return _number_fault(value, path)
    if isinstance(value, int):
        return None
    return _container_fault(value, path, above)


def _container_fault(value, path, above):
    if id(value) in above or len(above) > 200:
        return "%s contains itself or is nested too deeply" % path
    above += (id(value),)
    if isinstance(value, dict):
        return _first(_entry_fault(key, item, path, above) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return _first(_fault(item, "%s[%d]" % (path, at), above) for at, item in enumerate(value))
    return "%s is of type `%s`, which is not JSON" % (path, type(value).__name__)


def _entry_fault(key, item, path, above):
    if not (key is None or isinstance(key, (str, int, float, bool))):
        return "%s has a key of type `%s`, which is not JSON" % (path, type(key).__name__)
    here = "%s[%.80r]" % (path, key)
    return (isinstance(key, str) and _text_fault(key, here)) or _fault(item, here, above)


def _text_fault(value, path):
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return "%s is a `str` with a lone surrogate, which is not JSON" % path
    return None


def _number_fault(value, path):
    if value != value or value in _INFINITIES:
        return "%s is the `float` %r, which is not JSON" % (path, value)
    return None


def _first(faults):
    return next((fault for fault in faults if fault), None)
