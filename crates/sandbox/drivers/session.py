"""A stateful interpreter: cells in, ordered events out, until the channel closes.

Output is not an event: descriptors 1 and 2 stay the pipes they are, byte exact, and
are flushed before each event, so that the order of output and events is true.

Invariants: every `execute` ends in exactly one `done`; the loop survives whatever a
cell raises; a fork of a cell never comes back into the loop.
"""

import builtins
import os
import sys

import _ringfence_cell as cell
import _ringfence_display as display
import _ringfence_explore as explore
import _ringfence_figures as figures
import _ringfence_interrupt as interrupt
import _ringfence_report as report
import _ringfence_stage as stage
import _ringfence_stdio as stdio
import _ringfence_wire as wire

TRACEBACK_LIMIT = 64 * 1024
_OPERATION = {"op": "a string", "code": "a string"}

_exit = os._exit
_limit = sys.getrecursionlimit()
_set_limit = sys.setrecursionlimit


def serve(channel):
    """Runs the session to its end. Does not return."""
    session = Session(channel)
    channel.send({"ev": "ready"})
    while True:
        try:
            job = channel.receive()
        except wire.Closed:
            session.streams.flush()
            _exit(0)
        except wire.Refused as error:
            channel.send({"ev": "refused", "id": None, "message": str(error)})
            _exit(2)
        session.handle(job)


class Session:
    """The state between cells."""

    def __init__(self, channel):
        self.channel = channel
        self.streams = stdio.Streams()
        self.interrupts = interrupt.Interrupts()
        self.runner = cell.Runner(self.interrupts)
        self.count = 0
        self.current = None
        self.shown = []
        self._directory()
        figures.quiet()
        builtins.display = self.display
        builtins.exit = builtins.quit = _leave
        self.renew()

    def renew(self):
        """An empty namespace: a new `__main__`."""
        self.main = stage.fresh_module("__main__", "<session>", "")
        self.main.__dict__.pop("__file__")
        self.hidden = frozenset(self.main.__dict__)
        self.runner.forget()

    def handle(self, job):
        """One operation; whatever is wrong with it is told, never fatal."""
        operation = self.OPERATIONS.get(job.get("op")) if type(job.get("op")) is str else None
        try:
            if operation is None:
                raise stage.BadJob("`op` must be one of %s" % ", ".join("`%s`" % o for o in self.OPERATIONS))
            stage.check(job, {}, _OPERATION)
            operation(self, job)
        except stage.BadJob as error:
            self.channel.send({"ev": "refused", "id": job.get("id"), "message": str(error)})

    def execute(self, job):
        """Runs a cell and tells its events."""
        stage.check(job, {"code": "a string"}, {"call": "a string"})
        if job.get("call") is not None:
            os.environ["RINGFENCE_CALL_ID"] = job["call"]
        self.count += 1
        self.current, self.shown = job.get("id"), []
        error = self._guarded(lambda: self._cell(job["code"]))
        self._only_parent(error)
        self.streams.repair()
        self.interrupts.install()
        status = "ok"
        if error is not None:
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            self._tell(error)
        self.event(ev="done", status=status, execution_count=self.count)

    def variables(self, job):
        """Names, types and short representations."""
        self._answer(job, "variables", lambda: {"variables": explore.variables(self.main.__dict__, self.hidden)})

    def complete(self, job):
        """Completions at a cursor."""
        code, cursor = job.get("code") or "", job.get("cursor")
        cursor = min(max(cursor, 0), len(code)) if type(cursor) is int else len(code)
        self._answer(job, "completions", lambda: self._completions(code, cursor))

    def reset(self, job):
        """Forgets all variables; the process, its modules and its files stay."""
        self.renew()
        self.count = 0
        self.channel.send({"ev": "reset", "id": job.get("id")})

    def interrupt(self, _job):
        """Does nothing: frames are not read while a cell runs, so SIGINT is used instead."""

    OPERATIONS = {
        "execute": execute, "variables": variables, "complete": complete, "reset": reset, "interrupt": interrupt,
    }

    def display(self, *values):
        """The `display()` of user code: shows values before the cell ends."""
        for value in values:
            self._show(value, main=False)
        self.interrupts.deliver()

    def event(self, **frame):
        """One event of the current cell, after all output before it."""
        self.streams.flush()
        frame["id"] = self.current
        self.channel.send(frame)

    def _cell(self, code):
        self.event(ev="started")
        has_value, value = self.runner.run(code, "<cell %d>" % self.count, self.main.__dict__)
        self._only_parent(None)
        if has_value and value is not None:
            builtins._ = value
            self._show(value, main=True)
        self._figures()

    def _figures(self):
        for figure in figures.open_figures():
            if not any(figure is shown for shown in self.shown):
                self._show(figure, main=False)
            figures.close(figure)
        self.interrupts.deliver()

    def _show(self, value, main):
        if figures.is_figure(value):
            self.shown.append(value)
            data = {"text/plain": display.plain(value), "image/png": display._content("image/png", figures.png(value))}
        else:
            data = display.bundle(value)
        self.event(ev="result", main=main, data=data)

    def _guarded(self, action):
        """Runs user code; returns what it raised, or None."""
        try:
            self.interrupts.arm()
            action()
            raised = None
        except BaseException as error:
            raised = error
        self.interrupts.disarm()
        _set_limit(_limit)  # A cell may have left us too little stack.
        return raised

    def _only_parent(self, error):
        """A fork of user code ends here: only its parent goes on in the loop."""
        if not self.channel.is_ours():
            status = 0
            if error is not None and not isinstance(error, SystemExit):
                report.print_plain(report.text_of(error))
                status = 1
            elif error is not None:
                status = error.code & 255 if isinstance(error.code, int) else int(error.code is not None)
            self.streams.flush()
            _exit(status)

    def _tell(self, error):
        lines = report.shorten(report.text_of(error), TRACEBACK_LIMIT).splitlines()
        self.event(ev="error", name=report.type_name(error), value=report.message_of(error), traceback=lines)

    def _answer(self, job, event, make):
        """Looking at variables runs their code, hence is guarded like a cell."""
        found = {}
        error = self._guarded(lambda: found.update(make()))
        self._only_parent(error)
        frame = {"ev": event, "id": job.get("id")}
        frame.update(found if error is None else {"error": report.describe(error)})
        self.channel.send(frame)

    def _completions(self, code, cursor):
        matches, start = explore.complete(code, cursor, self.main.__dict__)
        return {"matches": matches, "cursor_start": start, "cursor_end": cursor}

    def _directory(self):
        stage.interpreter_variables(os.environ)
        try:
            sys.path.insert(0, os.getcwd())
        except OSError:
            pass  # Started in a directory that is gone.
        sys.argv[:] = [""]


def _leave(code=None):
    """`exit()` without closing standard input, which the session still needs."""
    raise SystemExit(code)
