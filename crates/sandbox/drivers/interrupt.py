"""SIGINT reaches user code and nothing else.

The handler asks which driver frame is nearest: if it is one that runs user code, the
interrupt is raised; in any other (sending a frame, between two cells' steps) it is only
noted, so that a frame is never half written and the loop never ends by an interrupt.
The note is checked before user code runs next, hence no interrupt is lost.
"""

import _signal  # The C half: `signal` itself leans on builtins that a cell may replace.

import _ringfence_report as report

_install = _signal.signal
_SIGINT = _signal.SIGINT

#: The driver files that call user code and may be left by an exception at any point.
_LEAVABLE = tuple(report.HERE + name for name in ("cell.py", "display.py", "figures.py", "explore.py"))


class Interrupts:
    """Whether a cell runs, and whether it was asked to stop."""

    def __init__(self):
        self._armed = False
        self.pending = False
        self.install()

    def install(self):
        """Ours again, whatever handler the last cell left behind."""
        _install(_SIGINT, self._handle)

    def arm(self):
        """A cell starts."""
        self.pending = False
        self._armed = True

    def disarm(self):
        """The cell is over; a late signal is ignored."""
        self._armed = False

    def deliver(self):
        """Raises what was held back while a driver frame was nearest."""
        if self._armed and self.pending:
            self.pending = False
            raise KeyboardInterrupt

    def _handle(self, _signal, frame):
        if not self._armed:
            return
        if _nearest(frame) not in _LEAVABLE:
            self.pending = True
            return
        raise KeyboardInterrupt


def _nearest(frame):
    """The file of the innermost driver frame on the stack."""
    while frame is not None and not report.is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame and frame.f_code.co_filename
