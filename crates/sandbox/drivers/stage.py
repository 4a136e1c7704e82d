"""Sets the scene of a job: environment, directory, arguments, a fresh module.

What user code sees is what `python3 main.py` would show it: an own `__main__`, the
script's directory first on `sys.path`, source lines available to tracebacks.
"""

import linecache
import os
import sys
import time

_Loader = __import__("_frozen_importlib_external").SourceFileLoader
_Module = type(sys)

#: Kept for the job whatever its environment says: user code may write its result there.
KEPT = "RINGFENCE_RESULT_FD"


class BadJob(ValueError):
    """The job frame lacks something or has it in the wrong type; names every problem."""

    __module__ = "builtins"  # Printed without a module, as `ValueError` is.


def check(job, required, optional):
    """Refuses a job whose fields are missing or of a wrong type, naming all of them."""
    problems = ["`%s` is missing" % name for name in required if job.get(name) is None]
    for name, kind in list(required.items()) + list(optional.items()):
        value = job.get(name)
        if value is not None and not _fits(value, kind):
            problems.append("`%s` must be %s" % (name, kind))
    if problems:
        raise BadJob("; ".join(problems))


def enter(job, filename):
    """Environment, directory, arguments and import path of a job. Returns its path."""
    _environment(job.get("env"))
    directory = job.get("cwd")
    if directory is not None:
        os.chdir(directory)
    directory = os.getcwd()
    arguments = list(job.get("argv") or ())
    sys.argv[:] = [filename] + arguments
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable or "python3", filename] + arguments
    sys.path.insert(0, directory)
    return os.path.join(directory, filename)


def fresh_module(name, path, code=None):
    """A new module registered as `name`, with `code`, if any, known to tracebacks as `path`."""
    module = _Module(name)
    module.__dict__.update(
        __file__=path, __cached__=None, __loader__=_Loader(name, path), __builtins__=sys.modules["builtins"]
    )
    sys.modules[name] = module
    if code is not None:
        remember_source(path, code)
    return module


def remember_source(path, code):
    """Primes `linecache`; an entry without a time is never checked against the disk."""
    linecache.cache[path] = (len(code), None, code.splitlines(True), path)


def _environment(wanted):
    if wanted is None:
        return
    replace_environment(wanted)
    if "TZ" in wanted:
        time.tzset()
    interpreter_variables(wanted)


def replace_environment(wanted):
    """Exactly `wanted`, and what is kept. Touches only what differs: each call costs."""
    for name in [name for name in os.environ if name not in wanted and name != KEPT]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def interpreter_variables(wanted):
    """The variables a started interpreter would have read; this one runs already."""
    for place in reversed(wanted.get("PYTHONPATH", "").split(os.pathsep)):
        if place:
            sys.path.insert(0, place)


def rehearse():
    """Enters a scene and leaves it without a trace, for the warm-up."""
    before = dict(os.environ)
    path, arguments, name = list(sys.path), list(sys.argv), "_ringfence_rehearsal"
    original = list(getattr(sys, "orig_argv", ()))
    job = {"env": dict(before, RINGFENCE_REHEARSAL="1"), "cwd": os.curdir, "argv": ["x"]}
    check(dict(job, code=""), {"code": "a string"}, {"env": "an object of strings", "argv": "a list of strings"})
    module = fresh_module(name, enter(job, "<warm-up>"), "x = 1\n")
    replace_environment(before)
    sys.path[:], sys.argv[:] = path, arguments
    if original:
        sys.orig_argv[:] = original
    del sys.modules[name]
    linecache.cache.pop(module.__file__, None)
    return module


def _fits(value, kind):
    if kind == "a string":
        return type(value) is str
    if kind == "an object":
        return type(value) is dict
    if kind == "a list of strings":
        return type(value) is list and all(_is_word(item) for item in value)
    return type(value) is dict and all(_is_name(name) and _is_word(value[name]) for name in value)


def _is_word(value):
    return type(value) is str and "\0" not in value


def _is_name(value):
    return _is_word(value) and value != "" and "=" not in value
