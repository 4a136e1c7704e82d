"""Values as MIME bundles, by the `_repr_*_` protocols notebooks use.

A representation that raises, lies about its type or is too large is left out; the
plain text always remains, if only as a note.
"""

import binascii
import json

import _ringfence_report as report

PLAIN_LIMIT = 64 * 1024  # Characters.
RICH_LIMIT = 8 * 1024 * 1024  # Bytes of one representation.
ITEMS_LIMIT = 1000  # Elements of a builtin container shown in full.

_CANARY = "_ipython_canary_method_should_not_exist_"
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_b64 = binascii.b2a_base64

#: Method by MIME type; the order is the order of preference for readers.
METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}
BINARY = ("image/png", "image/jpeg", "application/pdf")


def bundle(value):
    """The MIME bundle of a value; always has `text/plain`."""
    data = {"text/plain": plain(value)}
    if isinstance(value, type) or _answers_anything(value):
        return data
    for kind, content in _offered(value):
        told = _content(kind, content)
        if told is not None:
            data[kind] = told
    return data


def plain(value, limit=PLAIN_LIMIT):
    """`repr(value)`, bounded; never raises but for an interrupt."""
    try:
        return report.shorten(_bounded(value, limit), limit)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return "<%s object, repr() failed: %s>" % (report.type_name(value), report.type_name(error))


def _bounded(value, limit):
    """Large builtin containers and texts are cut before `repr`, which would copy them."""
    kind = type(value)
    if kind in (str, bytes, bytearray) and len(value) > limit:
        return "%r... [%d more]" % (value[:limit - 64], len(value) - limit + 64)
    if kind in (list, tuple, set, frozenset, dict) and len(value) > ITEMS_LIMIT:
        return _shortened(value, kind)
    return repr(value)


def _shortened(value, kind):
    head = [item for item, _ in zip(value, range(ITEMS_LIMIT))]
    if kind is dict:
        shown = ["%r: %r" % (key, value[key]) for key in head]
    else:
        shown = ["%r" % (item,) for item in head]
    opening, closing = {list: "[]", tuple: "()"}.get(kind, "{}")
    return "%s%s, ... [%d more items]%s" % (opening, ", ".join(shown), len(value) - len(head), closing)


def _offered(value):
    """Pairs of MIME type and content, those of `_repr_mimebundle_` first."""
    seen = set()
    whole = _ask(value, "_repr_mimebundle_")
    if type(whole) is dict:
        for kind in [kind for kind in METHODS if kind in whole]:
            seen.add(kind)
            yield kind, whole[kind]
    for kind, method in METHODS.items():
        if kind not in seen:
            yield kind, _ask(value, method)


def _ask(value, method):
    """One representation, or None. Data may come with metadata, which we drop."""
    try:
        found = getattr(value, method, None)
        answer = found() if callable(found) else None
        return answer[0] if type(answer) is tuple and len(answer) == 2 else answer
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def _answers_anything(value):
    """Objects whose `__getattr__` invents every attribute have no representations."""
    try:
        return getattr(value, _CANARY, None) is not None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return True


def _content(kind, content):
    try:
        told = _typed(kind, content)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return None if told is None or _size(told) > RICH_LIMIT else told


def _typed(kind, content):
    if kind == "application/json":
        return None if content is None else json.loads(_encode(content))
    if kind in BINARY and isinstance(content, (bytes, bytearray)):
        return _b64(content, newline=False).decode("ascii")
    return "".join((content, "")) if isinstance(content, str) else None


def _size(told):
    return len(told if type(told) is str else _encode(told))
