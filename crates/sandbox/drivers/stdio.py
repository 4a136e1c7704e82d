"""Standard streams of a session: kept usable whatever a cell did to them.

A cell may replace or close `sys.stdout`, close descriptor 1 or put a file in its
place. Replacing a stream object is legitimate and stays; what would leave the session
mute or deaf is repaired before the next event.
"""

import builtins
import io
import os
import select
import sys

_dup2, _fstat, _read = os.dup2, os.fstat, os.read
_real_input = builtins.input
_poll = select.poll

NO_DATA = "input() found no data on standard input: this session is not interactive"


class _Standard(io.RawIOBase):
    """Descriptor 0, read only while there is something to read."""

    def readable(self):
        return True

    def fileno(self):
        return 0

    def readinto(self, buffer):
        poll = _poll()
        poll.register(0, select.POLLIN)
        if not poll.poll(0):
            raise EOFError(NO_DATA)
        data = _read(0, len(buffer))
        buffer[:len(data)] = data
        return len(data)


def session_input(prompt="", /):
    """`input()` that says why there is nothing, instead of waiting for ever."""
    try:
        return _real_input(prompt)
    except EOFError:
        raise EOFError(NO_DATA) from None


class Streams:
    """Descriptors 1 and 2 as they were at the start, and streams over them."""

    def __init__(self):
        self._saved = {1: _spare(1), 2: _spare(2)}
        self._identity = {number: _identity(number) for number in self._saved}
        sys.stdin = sys.__stdin__ = _reader()
        builtins.input = session_input

    def flush(self):
        """Everything that Python holds back goes out; errors are the cell's loss."""
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()
            except Exception:
                pass  # Closed, replaced by another object, or without a reader.

    def repair(self):
        """Undoes what would silence the session."""
        self.flush()
        for number, spare in self._saved.items():
            if _identity(number) != self._identity[number]:
                self._restore(spare, number)
        sys.__stdout__ = _usable(sys.__stdout__, 1)
        sys.__stderr__ = _usable(sys.__stderr__, 2)
        sys.stdout = sys.stdout if _is_open(sys.stdout) else sys.__stdout__
        sys.stderr = sys.stderr if _is_open(sys.stderr) else sys.__stderr__
        if not _is_open(sys.stdin):
            sys.stdin = sys.__stdin__ = _reader()

    def _restore(self, spare, number):
        try:
            _dup2(spare, number)
        except OSError:
            pass  # The spare was closed as well: nothing is left to write to.


def _spare(number):
    import fcntl
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 100)


def _identity(number):
    try:
        found = _fstat(number)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _is_open(stream):
    try:
        return stream is not None and stream.closed is False
    except Exception:
        return False


def _usable(stream, number):
    if _is_open(stream):
        return stream
    raw = io.FileIO(number, "w", closefd=False)
    errors = "strict" if number == 1 else "backslashreplace"
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, "\n", line_buffering=True)


def _reader():
    return io.TextIOWrapper(io.BufferedReader(_Standard()), "utf-8", "replace")
