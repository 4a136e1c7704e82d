"""Compiles and runs one cell in the session's namespace.

As in a notebook: the value of a last expression is the cell's result, a trailing
semicolon hides it, `await` works at the top level on one event loop that lives as long
as the session.
"""

import __future__

import ast
import inspect
import sys

import _ringfence_stage as stage

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
_CLEANUP_SECS = 1.0


class Runner:
    """Runs cells: their namespace is given, their loop and compiler flags are kept here."""

    def __init__(self, interrupts):
        self._interrupts = interrupts
        self._flags = 0
        self._loop = None

    def run(self, code, filename, names):
        """Executes a cell. Returns (has a value, the value)."""
        stage.remember_source(filename, code)
        # After the last call into another driver file: a signal there is only noted, and from here
        # to the cell it is raised.
        if self._interrupts.pending:
            raise KeyboardInterrupt
        body, last = self._compiled(code, filename)
        value = None
        if body is not None:
            self._evaluate(body, names)
        if last is not None:
            value = self._evaluate(last, names)
        return last is not None and not code.rstrip().endswith(";"), value

    def forget(self):
        """Drops what a reset must drop: `from __future__` of earlier cells."""
        self._flags = 0

    def _compiled(self, code, filename):
        flags = self._flags | _AWAIT
        tree = compile(code, filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        body = compile(tree, filename, "exec", flags, dont_inherit=True) if tree.body else None
        if body is not None:
            self._flags |= body.co_flags & _FUTURES
        if last is not None:
            last = compile(last, filename, "eval", self._flags | _AWAIT, dont_inherit=True)
        return body, last

    def _evaluate(self, code, names):
        found = eval(code, names)
        if code.co_flags & inspect.CO_COROUTINE:
            return self._wait(found)
        return found

    def _wait(self, coroutine):
        loop = self._open_loop()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        finally:
            if not task.done():
                self._cancel(loop, task)

    def _cancel(self, loop, task):
        """After an interrupt: the coroutine learns of it, within a bounded time."""
        asyncio = sys.modules["asyncio"]
        task.cancel()
        loop.run_until_complete(asyncio.wait([task], timeout=_CLEANUP_SECS))
        if task.done() and not task.cancelled():
            task.exception()  # Looked at, so that it is not reported as lost.

    def _open_loop(self):
        import asyncio
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop
