"""Frames on the job channel: u32 little-endian length, then one UTF-8 JSON object.

Invariants:
- a frame is written whole or the process ends: the reader never sees half a frame;
- only the process that opened the channel talks on it: a fork of user code is mute;
- only the descriptor we were given is used: if user code put another file in its
  place, we end instead of writing frames into that file.
"""

import _thread
import errno
import json
import os

MAX_FRAME = 64 * 1024 * 1024

# Bound once: user code may replace attributes of these modules. The C halves of `json` are
# called directly, because its Python halves use the builtins, which user code may replace.
_chunks = json.encoder.c_make_encoder(
    None, None, json.encoder.encode_basestring, None, ":", ",", False, False, False
)
_scan = json.JSONDecoder().scan_once
_read, _write, _fstat, _getpid, _exit = os.read, os.write, os.fstat, os.getpid, os._exit

LOST = 70  # EX_SOFTWARE: the channel is gone, so nothing can be reported.


class FrameTooLarge(ValueError):
    """A frame above `MAX_FRAME`; nothing was sent."""


class Closed(Exception):
    """The other side closed the channel between two frames."""


class Refused(ValueError):
    """What arrived is not a frame we accept."""

    __module__ = "builtins"  # Printed without a module, as `ValueError` is.


def encode(frame):
    """The bytes of one frame. Lone surrogates become `?`: they are not UTF-8."""
    body = "".join(_chunks(frame, 0)).encode("utf-8", "replace")
    if len(body) > MAX_FRAME:
        raise FrameTooLarge("frame of %d bytes, the limit is %d" % (len(body), MAX_FRAME))
    return len(body).to_bytes(4, "little") + body


def decode(body):
    """One frame's object from its bytes."""
    try:
        text = body.decode("utf-8").strip()
        frame, end = _scan(text, 0)
    except StopIteration:
        raise Refused("frame is not JSON") from None
    except (ValueError, RecursionError) as error:
        raise Refused("frame is not JSON: %s" % error) from None
    if type(frame) is not dict or end != len(text):
        raise Refused("frame is not a JSON object")
    return frame


class Channel:
    """The job channel of this process."""

    def __init__(self, fd):
        os.set_inheritable(fd, False)
        self.fd = fd
        self._owner = _getpid()
        self._identity = self._look()
        self._lock = _thread.allocate_lock()
        os.register_at_fork(after_in_child=self._forget)

    def is_ours(self):
        """Whether this process, and not a fork of it, owns the channel."""
        return _getpid() == self._owner

    def receive(self):
        """Blocks for the next frame. `Closed` at a clean end."""
        header = self._exactly(4)
        length = int.from_bytes(header, "little")
        if length > MAX_FRAME:
            raise Refused("frame of %d bytes, the limit is %d" % (length, MAX_FRAME))
        return decode(self._exactly(length))

    def send(self, frame):
        """Writes one frame whole; a no-op in a fork of this process."""
        if not self.is_ours():
            return
        self.send_bytes(encode(frame))

    def send_bytes(self, data):
        """Writes an encoded frame whole; a no-op in a fork of this process."""
        if not self.is_ours():
            return
        with self._lock:
            if self._look() != self._identity:
                _exit(LOST)
            self._write_all(data)

    def linger(self):
        """Blocks until the other side lets go; nothing that comes is read any more."""
        while self._some(1 << 20):
            pass

    def _write_all(self, data):
        view = memoryview(data)
        while view:
            try:
                view = view[_write(self.fd, view):]
            except BlockingIOError:
                self._wait(write=True)
            except OSError:
                _exit(LOST)

    def _exactly(self, count):
        parts = []
        missing = count
        while missing:
            part = self._some(missing)
            if not part:
                raise Closed()
            parts.append(part)
            missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, count):
        while True:
            try:
                return _read(self.fd, min(count, 1 << 20))
            except BlockingIOError:
                self._wait(write=False)
            except OSError as error:
                if error.errno == errno.ECONNRESET:
                    return b""
                _exit(LOST)

    def _wait(self, write):
        import select
        select.select([] if write else [self.fd], [self.fd] if write else [], [])

    def _look(self):
        try:
            found = _fstat(self.fd)
        except OSError:
            return None
        return (found.st_dev, found.st_ino)

    def _forget(self):
        """In a fork: drop the descriptor, so that our end closes when *we* end."""
        if self._identity is not None and self._look() == self._identity:
            os.close(self.fd)


def from_environment():
    """The channel named by `RINGFENCE_JOB_FD`, by default descriptor 4."""
    return Channel(int(os.environ.get("RINGFENCE_JOB_FD", "4")))
