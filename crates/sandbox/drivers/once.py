"""One job, then the end: `run` a script or `call` a skill.

User code runs as the only thing on the stack besides one driver frame, outside any
`except` block, so that neither its tracebacks nor its exception contexts show us.
"""

import gc
import io
import json
import os
import sys

import _ringfence_ending as ending
import _ringfence_report as report
import _ringfence_skill as skill
import _ringfence_stage as stage
import _ringfence_wire as wire

_exit = os._exit
_set_limit = sys.setrecursionlimit
_get_limit = sys.getrecursionlimit

_OPTIONAL = {"filename": "a string", "env": "an object of strings", "cwd": "a string"}
_RUN = dict(_OPTIONAL, argv="a list of strings")
_CALL = dict(_OPTIONAL, function="a string", args="an object")


def serve(channel):
    """Says ready, takes one job, runs it and exits."""
    gc.freeze()  # Later collections look at the job's objects only.
    channel.send({"ev": "ready"})
    try:
        job = channel.receive()
        act = _prepare(job)
    except wire.Closed:
        _exit(0)
    except (wire.Refused, stage.BadJob, OSError) as error:
        ending.leave(channel, 2, report.describe(error))
    else:
        act(channel, job)


def _prepare(job):
    """Checks the job; returns what runs it."""
    operation = job.get("op")
    if operation == "run":
        stage.check(job, {"code": "a string"}, _RUN)
        return run
    if operation == "call":
        stage.check(job, {} if skill.loaded else {"code": "a string"}, _CALL)
        return call
    raise stage.BadJob("`op` must be `run` or `call`")


def run(channel, job):
    """Runs a script as `__main__`."""
    filename = job.get("filename") or "main.py"
    module = _open(channel, job, filename, "__main__")
    error = _execute(job["code"], module)
    status = ending.status_of(error)
    told = None if error is None or isinstance(error, SystemExit) else report.describe(error)
    _finish(channel, module, status, told, error)


def call(channel, job):
    """Calls a skill."""
    filename = job.get("filename") or "handler.py"
    stage.fresh_module("__main__", filename)
    if skill.loaded:
        _enter(channel, job, filename)
        module, code = skill.loaded, None
    else:
        module, code = _open(channel, job, filename, skill.module_name(filename)), job["code"]
    error = _execute(code, module, lambda code: skill.run(job, module, code))
    status = ending.status_of(error)
    told = None if error is None or _is_clean_exit(error) else skill.describe(error)
    _finish(channel, None if skill.loaded else module, status, told, error)


def _open(channel, job, filename, name):
    return stage.fresh_module(name, _enter(channel, job, filename), job["code"])


def _enter(channel, job, filename):
    try:
        return stage.enter(job, filename)
    except OSError as error:
        ending.leave(channel, 2, report.describe(error))


def _execute(code, module, action=None):
    """Compiles, where there is something to, and runs; returns what was raised, or None."""
    limit = _get_limit()
    try:
        compiled = code and compile(code, module.__file__, "exec", dont_inherit=True)
        if action is None:
            exec(compiled, module.__dict__)
        else:
            action(compiled)
        raised = None
    except BaseException as error:
        raised = error
    _set_limit(max(limit, _get_limit()))  # User code may have left us too little stack.
    return raised


def _finish(channel, module, status, told, error):
    if error is not None:
        error.__traceback__ = None  # Its frames hold the user's objects alive.
        error.__context__ = None
    status = ending.wind_down(module, status)
    ending.leave(channel, status, told)


def _is_clean_exit(error):
    return isinstance(error, SystemExit) and error.code in (None, 0)


def warm_up():
    """Runs the paths of a job on a dummy; what it registers it takes back."""
    import threading
    module = stage.rehearse()
    module.__dict__["out"] = io.StringIO()
    ending.status_of(_execute(_SNIPPET, module))
    report.rehearse()
    ending.clear(module)
    ending.flush()
    wire.decode(wire.encode({"ev": "warm-up", "exit": 0, "rusage": ending.rusage()})[4:])
    _prepare({"op": "run", "code": ""})
    threading.current_thread()
    json.loads(json.dumps({"a": [1, 2.5, None]}))
    gc.collect()
    ending.flush_forgotten()


def rehearse():
    """Takes the page faults that every job takes, and no others: a page that is touched here is
    copied into each idle child, whether its job needs it or not."""
    module = stage.rehearse()
    ending.status_of(_execute("pass", module))
    ending.clear(module)
    ending.flush()
    wire.decode(wire.encode({"ev": "warm-up", "exit": 0, "rusage": ending.rusage()})[4:])
    _prepare({"op": "run", "code": ""})


_SNIPPET = """
import math
class A: pass
def f(x): return [y * 2 for y in x]
print(sum(f(range(9))), f"{math.pi:.2f}", {"a": A()}, file=out)
"""
