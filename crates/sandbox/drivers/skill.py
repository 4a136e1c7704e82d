"""A skill call: a module, one function of it, keyword arguments, one JSON result.

The result travels on its own channel, so nothing that user code prints can be taken
for it.
"""

import os
import sys

import _ringfence_report as report
import _ringfence_stage as stage
import _ringfence_strict as strict

#: Looked for in this order when the job names no function.
ENTRY_POINTS = ("handler", "execute", "run", "main")

_write, _close = os.write, os.close

#: The module, where it was loaded ahead of the call.
loaded = None


class NoEntryPoint(LookupError):
    """The module has no function to call."""

    __module__ = "builtins"  # Printed without a module, as `ValueError` is.


class NoResultChannel(RuntimeError):
    """There is nowhere to write the result."""

    __module__ = "builtins"  # Printed without a module, as `ValueError` is.


def run(job, module, code):
    """Executes the module unless that was done, calls its function and writes the result."""
    if code is not None:
        exec(code, module.__dict__)
    function = _entry_point(module, job.get("function"))
    value = function(**(job.get("args") or {}))
    if _is_awaitable(value):
        value = _await(value)
    _deliver(strict.to_json(value))


def describe(error):
    """The error of a failed call, with its traceback."""
    return report.describe(error, report.shorten(report.text_of(error), 64 * 1024))


def _entry_point(module, wanted):
    for name in (wanted,) if wanted else ENTRY_POINTS:
        found = module.__dict__.get(name)
        if callable(found):
            return found
    if wanted:
        raise NoEntryPoint("the skill has no function `%s`" % wanted)
    raise NoEntryPoint("the skill has none of the functions %s" % ", ".join("`%s`" % n for n in ENTRY_POINTS))


def _is_awaitable(value):
    return hasattr(type(value), "__await__")


def _await(awaitable):
    import asyncio

    async def whole():
        return await awaitable

    return asyncio.run(whole())


def _deliver(data):
    """Writes the whole result and closes the channel, so that its reader sees the end."""
    channel = _result_channel()
    view = memoryview(data)
    try:
        while view:
            view = view[_write(channel, view):]
    except BrokenPipeError:
        pass  # The reader has had enough; the final frame still tells the outcome.
    _close(channel)


def _result_channel():
    number = os.environ.get(stage.KEPT, "")
    try:
        os.fstat(int(number))
        return int(number)
    except (ValueError, OSError):
        raise NoResultChannel("this call has no result channel") from None


def module_name(filename):
    """The name a skill's module is registered under: its file's, `handler` by default."""
    stem = os.path.basename(filename).rpartition(".")[0]
    return stem if stem.isidentifier() and stem not in sys.modules else "handler"
