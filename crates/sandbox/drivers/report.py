"""Exceptions of user code, told as the interpreter itself would tell them.

Driver frames are never shown: user code did not call us. Everything here survives
exceptions that raise when printed, a broken `sys.stderr` and a full memory.
"""

import io
import os
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
MESSAGE_LIMIT = 16 * 1024

_write = os.write
_default_hook = sys.__excepthook__
_type_name = type.__dict__["__name__"].__get__


def type_name(value):
    """The name of a value's type, whatever its metaclass does."""
    return _type_name(type(value))


def message_of(error):
    """`str(error)`, bounded; a note when it cannot be had."""
    try:
        return shorten(str(error), MESSAGE_LIMIT)
    except BaseException:
        return "<exception str() failed>"


def shorten(text, limit):
    """At most `limit` characters and a note of how many were left out."""
    text = "".join((text, ""))  # An exact `str`, whatever subclass came in.
    if len(text) <= limit:
        return text
    return text[:limit] + "... [%d characters truncated]" % (len(text) - limit)


def describe(error, trace=None):
    """The `error` object of a final frame."""
    number = None
    if isinstance(error, OSError):
        number = error.errno if type(error.errno) is int else None
    found = {"type": type_name(error), "errno": number, "message": message_of(error)}
    if trace is not None:
        found["traceback"] = trace
    return found


def user_part(tb):
    """The traceback without the driver's frames at its outer end."""
    while tb is not None and is_ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    return tb


def is_ours(filename):
    """Whether a code object's file is one of the driver's."""
    return filename.startswith(HERE)


def lines_of(error):
    """The formatted traceback, line by line, each ending in a newline."""
    told = traceback.TracebackException(type(error), error, user_part(error.__traceback__))
    _without_ours(told, set())
    return list(told.format())


def text_of(error):
    """The formatted traceback as one text; never raises."""
    try:
        return "".join(lines_of(error))
    except BaseException:
        return "%s: %s\n" % (type_name(error), message_of(error))


def print_uncaught(error):
    """Prints an uncaught exception as the interpreter would, user hooks included."""
    hook = getattr(sys, "excepthook", None)
    if hook is not _default_hook and hook is not None:
        if _hooked(hook, error):
            return
    print_plain(text_of(error))


def print_plain(text):
    """Writes to `sys.stderr`, or to descriptor 2 where that is unusable."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:
        _to_descriptor(text)


def _hooked(hook, error):
    try:
        hook(type(error), error, user_part(error.__traceback__))
        return True
    except SystemExit:
        return True
    except BaseException as second:
        print_plain("Error in sys.excepthook:\n" + text_of(second) + "\nOriginal exception was:\n")
        return False


def _to_descriptor(text):
    try:
        view = memoryview(text.encode("utf-8", "backslashreplace"))
        while view:
            view = view[_write(2, view):]
    except (OSError, MemoryError):
        pass  # Descriptor 2 has no reader any more.


def _without_ours(told, seen):
    """Drops the driver's frames from a whole chain of exceptions."""
    if told is None or id(told) in seen:
        return
    seen.add(id(told))
    told.stack[:] = [frame for frame in told.stack if not is_ours(frame.filename)]
    _without_ours(told.__cause__, seen)
    _without_ours(told.__context__, seen)
    for inner in getattr(told, "exceptions", None) or ():
        _without_ours(inner, seen)


def rehearse():
    """Formats one exception, for the warm-up."""
    try:
        raise ValueError("warm-up")
    except ValueError as error:
        io.StringIO().write(text_of(error))
