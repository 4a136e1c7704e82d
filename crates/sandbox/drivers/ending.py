"""The end of a job: what the interpreter does at exit, without its teardown.

Order, as in the interpreter: non-daemon threads, exit handlers, flush, globals (so
that `__del__` runs and forgotten files are written), flush. Then the final frame. The process
ends only when the channel is closed, by `os._exit`: freeing its memory takes a processor for a
millisecond, which the reader of the frame needs.
"""

import _thread
import atexit
import gc
import io
import os
import resource
import sys

import _ringfence_report as report

_exit = os._exit
_usage, _SELF = resource.getrusage, resource.RUSAGE_SELF
_run_exit_handlers = atexit._run_exitfuncs
_collect, _objects = gc.collect, gc.get_objects
_FLUSH_FAILED = 120  # What the interpreter exits with when it cannot flush.


def status_of(error):
    """Exit status of an uncaught exception, after printing what must be printed."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return _exit_code(error)
    report.print_uncaught(error)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def wind_down(module, status):
    """Everything that may still run or print user code. Returns the exit status.

    Without a module its globals stay: one that was loaded ahead is on pages that all calls share.
    """
    _quietly(_join_threads)
    _quietly(_run_exit_handlers)
    flushed = flush()
    if module is not None:
        _quietly(lambda: clear(module))
    _quietly(_collect)
    _quietly(flush_forgotten)
    return status if flush() and flushed else _FLUSH_FAILED


def leave(channel, status, error):
    """Sends the final frame, and ends the process when the channel is closed."""
    status &= 255
    try:
        if channel.is_ours():
            _tell(channel, status, error)
            channel.linger()
    finally:
        _exit(status)


def _tell(channel, status, error):
    try:
        channel.send({"ev": "done", "exit": status, "error": error, "rusage": rusage()})
    except Exception:  # Out of memory, most likely.
        channel.send({"ev": "done", "exit": status, "error": None, "rusage": None})


def rusage():
    """Processor time in seconds and peak memory in bytes of this process."""
    used = _usage(_SELF)
    return {"utime": used.ru_utime, "stime": used.ru_stime, "maxrss": used.ru_maxrss * 1024}


def flush():
    """Flushes stdout and stderr; says what failed as the interpreter does."""
    return all([_flush(sys.stdout), _flush(sys.stderr)])


def clear(module):
    """Drops a module's globals: private names first, then the rest, builtins last."""
    names = module.__dict__
    for name in [name for name in names if _is_private(name)]:
        names[name] = None
    for name in [name for name in names if name != "__builtins__"]:
        names[name] = None


def _is_private(name):
    return type(name) is str and name[:1] == "_" and name[1:2] != "_"


def _exit_code(error):
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code if -(2**63) <= code < 2**63 else -1
    try:
        report.print_plain("%s\n" % (code,) if not isinstance(code, tuple) else "%s\n" % str(code))
    except BaseException:
        pass  # An exit value that cannot be printed is still an exit.
    return 1


def _join_threads():
    threading = sys.modules.get("threading")
    if threading is None:
        return
    if _thread._count() or getattr(threading, "_threading_atexits", True):
        threading._shutdown()  # Skipped where it has nothing to do: it faults in many pages.


def _quietly(step):
    """Runs a step; what it raises is printed and does not stop the ending."""
    try:
        step()
    except SystemExit:
        pass
    except BaseException as error:
        report.print_plain(report.text_of(error))


def _flush(stream):
    try:
        if stream is not None and not stream.closed:
            stream.flush()
        return True
    except BaseException as error:
        if stream is not sys.stderr:
            told = (stream, report.type_name(error), report.message_of(error))
            report.print_plain("Exception ignored in: %r\n%s: %s\n" % told)
        return False


def flush_forgotten():
    """Writes out files that user modules still hold open with data in their buffers."""
    streams = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for found in _objects():
        if type(found) in streams and found is not sys.stdout and found is not sys.stderr:
            try:
                found.flush()
            except Exception:
                pass  # Closed, read-only or on a full disk: as at interpreter exit.
